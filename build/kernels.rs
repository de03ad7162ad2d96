//! Compiles every `kernels/**/*.cu` to a fatbin, and writes a table of them that
//! `src/device/images.rs` includes. A fatbin's name is a hash of its inputs, so none is compiled
//! twice. Builds such as `cargo clippy` and `cargo test` share them if `CAPSTAN_FATBINS` is set.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    archs,
    nvcc::{self, Nvcc},
};

const FOLDER: &str = "kernels";
const ARCHS: &str = "CAPSTAN_CUDA_ARCHS";
/// Instead of a list: machine code for all supported GPUs, or only for those of this host.
const ALL: &str = "all";
const NATIVE: &str = "native";
const REQUIRED: &str = "CAPSTAN_REQUIRE_KERNELS";
/// A folder for fatbins, shared by several builds. Nothing is ever removed from it.
const SHARED: &str = "CAPSTAN_FATBINS";

/// The modules that take a minute or more on one core.
const SLOWEST: [&str; 10] = [
    "ntt31/passes",
    "selftest_curve",
    "msm/load_balanced",
    "msm/reduce",
    "selftest",
    "check/points",
    "ntt/dif_unrolled",
    "ntt/dif_fused",
    "ntt/dit_unrolled",
    "msm/tree",
];

/// One module: `name` is its path below `kernels/`, without the extension.
struct Module {
    name: String,
    source: PathBuf,
    fatbin: PathBuf,
}

impl Module {
    /// The output of ptxas, for scripts/check-kernels.
    fn report(&self) -> PathBuf {
        self.fatbin.with_extension("ptxas")
    }
}

/// Compiles outdated modules and writes `OUT_DIR/kernels.rs`.
///
/// Errors: nvcc fails; nvcc is missing but kernels are required.
pub fn embed() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed={FOLDER}");
    // Neither PATH, which differs between shells, nor `.cuda`, which counts as changed while it is
    // missing: scripts/install-nvcc touches a file of `build` instead.
    for name in nvcc::VARIABLES.iter().chain(&[ARCHS, REQUIRED, SHARED]) {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = sources()?;
    let (modules, archs, toolkit) = match Nvcc::find()? {
        Some(nvcc) => {
            let archs = chosen_archs(&nvcc)?;
            (compile(&nvcc, &sources, &archs, &out)?, archs, nvcc.toolkit)
        }
        None if nvcc::variable(REQUIRED).is_some_and(|text| text != "0") => {
            let (major, minor) = nvcc::TOOLKIT_MIN;
            return Err(format!(
                "{REQUIRED} is set and there is no nvcc of CUDA {major}.{minor} or later: run \
                 scripts/install-nvcc, or set CAPSTAN_NVCC or CUDA_HOME"
            )
            .into());
        }
        None => {
            println!("cargo:warning=nvcc not found: no GPU kernels (run scripts/install-nvcc)");
            (Vec::new(), Vec::new(), (0, 0))
        }
    };
    fs::write(out.join("kernels.rs"), table(&sources, &modules, &archs, toolkit)?)?;
    Ok(())
}

/// The architectures to compile for, ascending. By default those of this host's GPUs if they can
/// be used, otherwise all.
///
/// Errors: a list that cannot be read; `native` on a host without a GPU that can be used.
fn chosen_archs(nvcc: &Nvcc) -> Result<Vec<u32>, Box<dyn Error>> {
    let of_host = || {
        let host = nvcc::archs_of_host()?;
        archs::of_host(&host, &nvcc.archs())
    };
    match nvcc::variable(ARCHS).as_deref() {
        None => Ok(of_host().unwrap_or_else(|| archs::ALL.to_vec())),
        Some(ALL) => Ok(archs::ALL.to_vec()),
        Some(NATIVE) => of_host().ok_or_else(|| {
            format!(
                "{ARCHS} = {NATIVE}: nvidia-smi reports no GPU of compute capability 8.0 or later \
                 that this nvcc compiles for; set {ARCHS} to {ALL} or to a list"
            )
            .into()
        }),
        Some(list) => archs::parse(list).ok_or_else(|| {
            let wanted = format!("{ALL}, {NATIVE}, or numbers such as 80,90");
            format!("{ARCHS} = {list:?}: must be {wanted}").into()
        }),
    }
}

/// Name and path of every module. `host/` is excluded: it is the emulated driver.
fn sources() -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::from(FOLDER)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "cu") {
                found.insert(path);
            }
        }
    }
    let name = |path: PathBuf| {
        let below = path.strip_prefix(FOLDER).ok()?.with_extension("");
        let name = below.to_str()?.to_owned();
        (!name.starts_with("host/")).then_some((name, path))
    };
    Ok(found.into_iter().filter_map(name).collect())
}

/// Compiles outdated modules, with as many jobs as cargo allows.
fn compile(
    nvcc: &Nvcc,
    sources: &[(String, PathBuf)],
    archs: &[u32],
    out: &Path,
) -> Result<Vec<Module>, Box<dyn Error>> {
    let shared = nvcc::variable(SHARED).map(PathBuf::from);
    let folder = shared.clone().unwrap_or_else(|| out.join("fatbin"));
    fs::create_dir_all(&folder)?;
    let folder = fs::canonicalize(folder)?;
    let mut modules = Vec::new();
    let enabled = |feature| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let (benches, tests) = (enabled("GPU_BENCH"), enabled("INTERNALS"));
    // Without their feature, these only run on the emulated driver.
    let wanted = |name: &str| {
        (benches || !name.starts_with("bench/"))
            && (tests || !name.starts_with("test/"))
            // No step of programs uses them yet.
            && (tests || benches || !["gf2/", "integers/", "ntt31/"].iter().any(|unused| name.starts_with(unused)))
    };
    for (name, source) in sources.iter().filter(|(name, _)| wanted(name)) {
        let key = key(source, archs::of_module(name, archs), &nvcc.version_text)?;
        let fatbin = folder.join(format!("{}-{key:016x}.fatbin", name.replace('/', "-")));
        modules.push(Module { name: name.clone(), source: source.clone(), fatbin });
    }
    let mut missing: Vec<_> = modules.iter().filter(|module| !module.fatbin.exists()).collect();
    // The slowest first, so that none of them starts last.
    let rank = |name: &str| SLOWEST.iter().position(|slow| name == *slow).unwrap_or(SLOWEST.len());
    missing.sort_by_key(|module| rank(&module.name));
    let jobs = nvcc::variable("NUM_JOBS").and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(module) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Renamed when complete, so that an existing fatbin is always whole.
            let part = module.fatbin.with_extension(format!("{}.part", process::id()));
            let archs = archs::of_module(&module.name, archs);
            let done =
                nvcc.compile(&module.name, &module.source, archs, &part).and_then(|report| {
                    let written = fs::write(module.report(), report);
                    written
                        .and_then(|()| fs::rename(&part, &module.fatbin))
                        .map_err(|e| e.to_string())
                });
            if let (Err(error), Ok(mut failed)) = (done, failed.lock()) {
                failed.push(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..missing.len().min(jobs) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner()?;
    if !failed.is_empty() {
        return Err(failed.join("\n").into());
    }
    if shared.is_none() {
        remove_stale(&folder, &modules)?;
    }
    Ok(modules)
}

/// Removes the outputs of earlier builds.
fn remove_stale(folder: &Path, modules: &[Module]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if modules.iter().all(|module| module.fatbin != path && module.report() != path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A hash of the source, all its includes, the options, the architectures and the compiler.
fn key(source: &Path, archs: &[u32], version: &str) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    (archs, include_str!("archs.rs"), version, include_str!("nvcc.rs")).hash(&mut hasher);
    fs::read_to_string(Path::new(FOLDER).join("nvcc.options"))?.hash(&mut hasher);
    let root = fs::canonicalize(FOLDER)?;
    let (mut pending, mut visited) = (vec![fs::canonicalize(source)?], BTreeSet::new());
    while let Some(path) = pending.pop() {
        if !visited.insert(path.clone()) {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        // The same in every checkout, so that they can share fatbins.
        let name = path.strip_prefix(&root).unwrap_or(&path);
        (name, &text).hash(&mut hasher);
        let quoted = text.lines().filter_map(|line| {
            let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
            rest.trim_start().strip_prefix('"')?.split('"').next()
        });
        for name in quoted {
            let sibling = path.parent().map(|folder| folder.join(name));
            let places = [sibling, Some(Path::new(FOLDER).join(name))];
            // A header in neither place is the compiler's.
            let found = places.into_iter().flatten().find_map(|place| fs::canonicalize(place).ok());
            pending.extend(found);
        }
    }
    Ok(hasher.finish())
}

/// The table as Rust source. Images are aligned for the driver's loader.
fn table(
    sources: &[(String, PathBuf)],
    modules: &[Module],
    archs: &[u32],
    toolkit: (u32, u32),
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let archs: Vec<_> = archs.iter().map(u32::to_string).collect();
    writeln!(text, "pub const ARCHS: &[&str] = &{archs:?};")?;
    let (major, minor) = toolkit;
    writeln!(
        text,
        "pub const TOOLKIT: MajorMinor = MajorMinor {{ major: {major}, minor: {minor} }};"
    )?;
    writeln!(text, "pub static IMAGES: &[KernelImage] = &[")?;
    for (name, _) in sources {
        match modules.iter().find(|module| module.name == *name) {
            Some(Module { fatbin, .. }) => writeln!(
                text,
                "    KernelImage {{ name: {name:?}, code: Some({{ static IMAGE: &Aligned<[u8]> = \
                 &Aligned {{ align: [], bytes: *include_bytes!({fatbin:?}) }}; &IMAGE.bytes }}) }},"
            )?,
            None => writeln!(text, "    KernelImage {{ name: {name:?}, code: None }},")?,
        }
    }
    writeln!(text, "];")?;
    Ok(text)
}
