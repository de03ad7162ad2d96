//! Compiles every `kernels/**/*.cu` to a fatbin, and writes a table of them that
//! `device/images.rs` includes. A fatbin's name is a hash of its inputs, so none is compiled
//! twice: builds such as `cargo clippy` and `cargo test` share a folder of the target directory.

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
    time::{Duration, SystemTime},
};

use crate::{
    archs,
    nvcc::{self, Nvcc, ROOT},
};

const FOLDER: &str = "kernels";
const ARCHS: &str = "CAPSTAN_CUDA_ARCHS";
/// Instead of a list: machine code for all supported GPUs, or only for those of this host.
const ALL: &str = "all";
const NATIVE: &str = "native";
const REQUIRED: &str = "CAPSTAN_REQUIRE_KERNELS";
/// A folder for fatbins, shared by several target directories. Nothing is ever removed from it.
const SHARED: &str = "CAPSTAN_FATBINS";
/// The folder in the target directory. Fatbins that no build has used for [`KEPT_UNUSED`] are
/// removed from it.
const IN_TARGET: &str = "capstan-fatbins";
const KEPT_UNUSED: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The extension of reports.
const REPORT: &str = "ptxas";

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
    /// The output of ptxas, for scripts/check-kernels. Its modification time is that of the last
    /// build that used the fatbin. The fatbin's own must not change: cargo would recompile the
    /// code that includes it.
    fn report(&self) -> PathBuf {
        self.fatbin.with_extension(REPORT)
    }

    fn is_complete(&self) -> bool {
        self.fatbin.exists() && self.report().exists()
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
    let shared = nvcc::variable(SHARED).map(|path| Path::new(ROOT).join(path));
    let folder = shared.clone().unwrap_or_else(|| in_target(out));
    fs::create_dir_all(&folder)?;
    let folder = fs::canonicalize(folder)?;
    let mut modules = Vec::new();
    let enabled = |feature| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let (benches, tests) = (enabled("BENCH_KERNELS"), enabled("TEST_KERNELS"));
    // Without their feature, these only run on the emulated driver.
    let wanted = |name: &str| {
        (benches || !name.starts_with("bench/")) && (tests || !name.starts_with("test/"))
    };
    for (name, source) in sources.iter().filter(|(name, _)| wanted(name)) {
        let key =
            key(source, &nvcc::arguments(name, archs::of_module(name, archs)), &nvcc.version_text)?;
        let fatbin = folder.join(format!("{}-{key:016x}.fatbin", name.replace('/', "-")));
        modules.push(Module { name: name.clone(), source: source.clone(), fatbin });
    }
    let mut missing: Vec<_> = modules.iter().filter(|module| !module.is_complete()).collect();
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
        remove_unused(&folder, &modules)?;
    }
    Ok(modules)
}

/// The folder for the fatbins of all builds in a target directory, in which `out`, a build script's
/// folder, is `PROFILE/build/PACKAGE/out`. In an unknown layout, each build has its own folder.
fn in_target(out: &Path) -> PathBuf {
    let builds = out.ancestors().nth(2).filter(|folder| folder.ends_with("build"));
    let target = builds.and_then(|builds| builds.ancestors().nth(2));
    target.unwrap_or(out).join(IN_TARGET)
}

/// Marks this build's fatbins as used, and removes those unused for [`KEPT_UNUSED`].
fn remove_unused(folder: &Path, modules: &[Module]) -> io::Result<()> {
    for module in modules {
        fs::File::options().append(true).open(module.report())?.set_modified(SystemTime::now())?;
    }
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let used = modified(&path.with_extension(REPORT)).or_else(|_| modified(&path));
        let is_unused =
            used.is_ok_and(|used| used.elapsed().is_ok_and(|unused| unused > KEPT_UNUSED));
        // Another build may have removed it.
        if is_unused
            && let Err(error) = fs::remove_file(&path)
            && path.exists()
        {
            return Err(error);
        }
    }
    Ok(())
}

/// A hash of the source, all its includes, the options, the arguments and the compiler.
fn key(source: &Path, arguments: &[String], version: &str) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    (arguments, version).hash(&mut hasher);
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
