//! Finds and runs nvcc.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::archs::{ptx_of, with_own_code};

/// The root of the repository, in which variables give relative paths.
pub const ROOT: &str = "../..";

/// The path at which `scripts/install-nvcc` installs it.
const INSTALLED: &str = "../../.cuda/nvidia/cu13/bin/nvcc";

/// Options for all architectures; `scripts/check-kernels` reads them too.
const OPTIONS: &str = "kernels/nvcc.options";

/// Value of `CAPSTAN_NVCC` that disables the compiler.
const NONE: &str = "none";

/// Variables that locate nvcc, in addition to PATH.
pub const VARIABLES: [&str; 3] = ["CAPSTAN_NVCC", "CUDA_HOME", "CUDA_PATH"];

/// The first toolkit that compiles for every architecture of [`crate::archs::ALL`] and that CI
/// tries: its kernels run on every driver for CUDA 13.
pub const TOOLKIT_MIN: (u32, u32) = (13, 0);

/// A compiler for kernels.
pub struct Nvcc {
    path: PathBuf,
    /// The output of `--version`, part of the cache key.
    pub version_text: String,
    /// Major and minor version, at least [`TOOLKIT_MIN`].
    pub toolkit: (u32, u32),
}

impl Nvcc {
    /// The compiler that `CAPSTAN_NVCC` names, otherwise the first of the other variables, of PATH
    /// and of `scripts/install-nvcc` that is not too old. `None` if there is none, or if the
    /// environment wants none.
    ///
    /// Errors: a compiler that does not run; `CAPSTAN_NVCC` names one that is too old.
    pub fn find() -> Result<Option<Self>, Box<dyn Error>> {
        let named = variable("CAPSTAN_NVCC");
        if named.as_deref() == Some(NONE) {
            return Ok(None);
        }
        if let Some(path) = named {
            // A name without a folder is searched in PATH.
            let is_name = !path.contains('/');
            let path = if is_name { path.into() } else { Path::new(ROOT).join(path) };
            let nvcc = Self::open(path)?;
            return if nvcc.is_too_old() { Err(nvcc.refusal().into()) } else { Ok(Some(nvcc)) };
        }
        let in_home =
            |name: &str| env::var_os(name).map(|home| Path::new(ROOT).join(home).join("bin/nvcc"));
        let homes = ["CUDA_HOME", "CUDA_PATH"].map(in_home).into_iter().flatten();
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|folder| folder.join("nvcc")).collect::<Vec<_>>();
        let installed = fs::canonicalize(INSTALLED).ok();
        for path in homes.chain(on_path).chain(installed).filter(|path| path.is_file()) {
            let nvcc = Self::open(path)?;
            if !nvcc.is_too_old() {
                return Ok(Some(nvcc));
            }
            println!("cargo:warning={}", nvcc.refusal());
        }
        Ok(None)
    }

    /// Errors: the compiler does not run, or reports no version.
    fn open(path: PathBuf) -> Result<Self, Box<dyn Error>> {
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
        if !output.status.success() {
            return Err(format!("{} --version failed", path.display()).into());
        }
        let version_text = String::from_utf8_lossy(&output.stdout).into_owned();
        let toolkit = version_text.split("release ").nth(1).and_then(|rest| {
            let (major, minor) = rest.split(',').next()?.split_once('.')?;
            Some((major.parse().ok()?, minor.trim().parse().ok()?))
        });
        let toolkit = toolkit.ok_or_else(|| format!("{} reports no version", path.display()))?;
        Ok(Self { path, version_text, toolkit })
    }

    fn is_too_old(&self) -> bool {
        self.toolkit < TOOLKIT_MIN
    }

    fn refusal(&self) -> String {
        format!(
            "{} is of CUDA {}.{}; the kernels need {}.{} or later: run scripts/install-nvcc",
            self.path.display(),
            self.toolkit.0,
            self.toolkit.1,
            TOOLKIT_MIN.0,
            TOOLKIT_MIN.1
        )
    }

    /// The architectures that it compiles for; empty if it does not list them.
    pub fn archs(&self) -> Vec<u32> {
        let output = Command::new(&self.path).arg("--list-gpu-code").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter_map(|line| line.trim().strip_prefix("sm_")?.parse().ok()).collect()
    }

    /// Compiles `module` from `source` to a fatbin: machine code for all of `archs`, and PTX for
    /// newer ones. Returns the report of ptxas on each kernel's resources.
    ///
    /// Errors: what the compiler says; warnings are errors.
    pub fn compile(
        &self,
        module: &str,
        source: &Path,
        archs: &[u32],
        out: &Path,
    ) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.path);
        command.args(arguments(module, archs)).arg("-o");
        command.args([out.as_os_str(), source.as_os_str()]);
        let output = command.output().map_err(|error: io::Error| error.to_string())?;
        let report = [output.stdout, output.stderr].concat();
        if output.status.success() {
            return Ok(report);
        }
        Err(format!("{}: {}", source.display(), String::from_utf8_lossy(&report)))
    }
}

/// The arguments for `module`, without its files.
pub fn arguments(module: &str, archs: &[u32]) -> Vec<String> {
    let common = ["--fatbin", "--options-file", OPTIONS, "-I", "kernels", "-Xptxas", "-v"];
    let code = with_own_code(archs).map(|arch| (ptx_of(module, arch, archs), format!("sm_{arch}")));
    let newest = archs.last().map(|arch| ptx_of(module, *arch, archs));
    let ptx = newest.map(|ptx| (ptx, format!("compute_{ptx}")));
    let targets =
        code.chain(ptx).map(|(ptx, code)| format!("-gencode=arch=compute_{ptx},code={code}"));
    common.map(str::to_owned).into_iter().chain(targets).collect()
}

/// The compute capabilities of this host's GPUs, such as 89, by nvidia-smi; `None` if
/// it finds no GPU or does not run.
pub fn archs_of_host() -> Option<Vec<u32>> {
    let query = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let archs: Vec<_> = text.lines().map(|line| line.trim().replace('.', "").parse()).collect();
    archs.into_iter().collect::<Result<Vec<u32>, _>>().ok().filter(|archs| !archs.is_empty())
}

/// The value of a variable, trimmed; `None` if unset or blank.
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
