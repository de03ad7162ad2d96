//! Finds and runs nvcc.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The path at which `scripts/install-nvcc` installs it.
const INSTALLED: &str = ".cuda/nvidia/cu13/bin/nvcc";

/// Options for all architectures; `scripts/check-kernels` reads them too.
const OPTIONS: &str = "kernels/nvcc.options";

/// Value of `CAPSTAN_NVCC` that disables the compiler.
const NONE: &str = "none";

/// Variables that locate nvcc, in addition to PATH.
pub const VARIABLES: [&str; 3] = ["CAPSTAN_NVCC", "CUDA_HOME", "CUDA_PATH"];

pub struct Nvcc {
    path: PathBuf,
    /// The output of `--version`, part of the cache key.
    pub version_text: String,
}

impl Nvcc {
    /// Finds nvcc by the environment, PATH, or the installed path. `None` if there is none, or if
    /// the environment disables it.
    ///
    /// Errors: the compiler does not run.
    pub fn find() -> Result<Option<Self>, Box<dyn Error>> {
        let named = variable("CAPSTAN_NVCC");
        if named.as_deref() == Some(NONE) {
            return Ok(None);
        }
        let in_home = |name: &str| env::var_os(name).map(|home| Path::new(&home).join("bin/nvcc"));
        let homes = ["CUDA_HOME", "CUDA_PATH"].map(in_home).into_iter().flatten();
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|folder| folder.join("nvcc")).collect::<Vec<_>>();
        let installed = fs::canonicalize(INSTALLED).ok();
        let mut others = homes.chain(on_path).chain(installed).filter(|path| path.is_file());
        let Some(path) = named.map(PathBuf::from).or_else(|| others.next()) else {
            return Ok(None);
        };
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
        if !output.status.success() {
            return Err(format!("{} --version failed", path.display()).into());
        }
        let version_text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Some(Self { path, version_text }))
    }

    /// The toolkit's version, such as (13, 0).
    ///
    /// Errors: `--version` printed no version.
    pub fn toolkit(&self) -> Result<(u32, u32), Box<dyn Error>> {
        let version = self.version_text.split("release ").nth(1).and_then(|rest| {
            let (major, minor) = rest.split(',').next()?.split_once('.')?;
            Some((major.parse().ok()?, minor.trim().parse().ok()?))
        });
        version.ok_or_else(|| format!("{} --version: no version found", self.path.display()).into())
    }

    /// Compiles `source` to a fatbin: machine code for each of `archs`, and PTX for the newest.
    /// Returns the report of ptxas on each kernel's resources.
    ///
    /// Errors: the compiler's output; warnings are errors.
    pub fn compile(&self, source: &Path, archs: &[String], out: &Path) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.path);
        command.args(["--fatbin", "--options-file", OPTIONS, "-I", "kernels", "-Xptxas", "-v"]);
        command.arg("-o");
        command.args([out.as_os_str(), source.as_os_str()]);
        for arch in archs {
            command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
        }
        if let Some(newest) = archs.last() {
            command.arg(format!("-gencode=arch=compute_{newest},code=compute_{newest}"));
        }
        let output = command.output().map_err(|error: io::Error| error.to_string())?;
        let report = [output.stdout, output.stderr].concat();
        if output.status.success() {
            return Ok(report);
        }
        Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&report)))
    }
}

/// The architectures of this host's GPUs, such as "89" or "80,90", by nvidia-smi; `None` if it
/// finds no GPU or does not run.
pub fn archs_of_host() -> Option<String> {
    let query = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let archs: Vec<_> = text.lines().map(|line| line.trim().replace('.', "")).collect();
    let is_arch = |arch: &String| !arch.is_empty() && arch.bytes().all(|b| b.is_ascii_digit());
    (!archs.is_empty() && archs.iter().all(is_arch)).then(|| archs.join(","))
}

/// The value of a variable, trimmed; `None` if unset or blank.
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
