//! The driver for tests: the system's if the machine has a GPU, else the emulated one, built from
//! `kernels/` on first use. Any test crate may include this module.
#![allow(dead_code)] // no test crate uses everything

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The setting that names the driver's library.
pub const SETTING: &str = "CAPSTAN_CUDA_DRIVER";

/// The setting that limits the shared memory of a block, in KiB, so that the plans of smaller GPUs
/// run on a larger one.
pub const SHARED_SETTING: &str = "CAPSTAN_TEST_SHARED_KIB";

/// The value of [`SHARED_SETTING`] in bytes; `None` if it is not set.
pub fn shared_bytes_max() -> Option<u32> {
    let text = std::env::var(SHARED_SETTING).ok()?;
    let kib: u32 = text.parse().unwrap_or_else(|_| panic!("{SHARED_SETTING}: {text:?}"));
    Some(kib << 10)
}

/// Seeds for the order in which the emulated driver resumes threads; 0 is the natural order.
pub const SEEDS: [u64; 3] = [0, 1, 0xfeed];

/// Whether the machine has an NVIDIA GPU whose kernel driver is loaded.
pub fn has_gpu() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}

/// The driver library to use: `CAPSTAN_CUDA_DRIVER` if set, else `None` (the system's driver) if
/// there is a GPU, else the emulated driver with the project's kernels.
pub fn driver() -> Option<PathBuf> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || match std::env::var_os(SETTING) {
        Some(set) => Some(PathBuf::from(set)),
        None if has_gpu() => None,
        None => Some(library()),
    };
    DRIVER.get_or_init(find).clone()
}

/// Sets `CAPSTAN_CUDA_DRIVER` for this process and its children, unless there is a GPU.
pub fn provide() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        let Some(library) = driver() else { return };
        // SAFETY: runs once, before the code under test reads its settings; tests set no other
        // variable.
        #[allow(unsafe_code, clippy::disallowed_methods)]
        unsafe {
            std::env::set_var(SETTING, library);
        }
    });
}

/// The emulated driver with the project's kernels.
pub fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("emulated", &root().join("kernels"), &[])).clone()
}

/// Builds an emulated driver with the kernels below `kernels` and extra compiler `flags` in folder
/// `name`, which is unique to the pair. Test processes share it: the first one builds it, and it is
/// rebuilt only if a source or a flag changed.
pub fn build(name: &str, kernels: &Path, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let out = folder.join(name);
    fs::create_dir_all(&out).expect("the target folder is writable");
    let lock = File::create(out.join("lock")).expect("the target folder is writable");
    lock.lock().expect("the file system supports locks");
    let (library, stamp) = (out.join("libcuda.so"), out.join("stamp"));
    let content = content(kernels, flags);
    if library.exists() && fs::read_to_string(&stamp).is_ok_and(|built| built == content) {
        return library;
    }
    let script = root().join("kernels/host/build.sh");
    let mut build = Command::new(script);
    build.arg(&out).args(flags).env("KERNELS", kernels).env("OBJECTS", folder.join("objects"));
    let built = build.output().expect("the build script can be run");
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the emulated driver does not build:\n{stderr}");
    fs::write(stamp, content).expect("the target folder is writable");
    library
}

/// Makes the loaded emulated driver resume threads in another order, one of [`SEEDS`].
#[allow(unsafe_code)]
pub fn seed(number: u64) {
    let path = driver().expect("there is no GPU");
    // SAFETY: the library is loaded already; the function takes an integer.
    unsafe {
        let library = libloading::Library::new(path).expect("it is loaded already");
        let seed = library.get::<unsafe extern "C" fn(u64)>(b"capstan_emulated_seed\0");
        seed.expect("the emulated driver exports it")(number);
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Hashes everything that the library is built from, except the compiler.
fn content(kernels: &Path, flags: &[&str]) -> String {
    let mut hash = blake3::Hasher::new();
    for flag in flags {
        hash.update(flag.as_bytes()).update(b"\n");
    }
    let mut folders = vec![root().join("kernels"), kernels.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<_> =
            entries.map(|entry| entry.expect("the folder is readable").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read(&path).expect("sources are readable");
            hash.update(path.as_os_str().as_encoded_bytes()).update(&text);
        }
    }
    hash.finalize().to_hex().to_string()
}
