//! The library that injects faults (`faults.cc`), and the file that says which ones.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

/// Faults of one daemon.
pub struct Faults {
    folder: TempDir,
}

impl Faults {
    /// No faults.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The variables of a daemon whose data directory is `data_dir`.
    pub fn variables(&self, data_dir: &Path) -> [(String, String); 3] {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("LD_PRELOAD".into(), text(library())),
            ("CHAOS_CONTROL".into(), text(&self.control())),
            ("CHAOS_FOLDER".into(), text(data_dir)),
        ]
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    /// Replaces the faults by those that `lines` describes.
    pub fn set(&self, lines: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, lines).unwrap();
        fs::rename(new, self.control()).unwrap();
    }

    pub fn clear(&self) {
        self.set("");
    }
}

/// The library, which the first test process builds.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/faults.cc");
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos");
        fs::create_dir_all(&out).expect("the target folder is writable");
        let lock = File::create(out.join("lock")).expect("the target folder is writable");
        lock.lock().expect("the file system supports locks");
        let name = blake3::hash(&fs::read(&source).expect("the source is readable")).to_hex();
        let library = out.join(format!("faults-{}.so", &name[..16]));
        if !library.exists() {
            let unfinished = out.join("unfinished.so");
            let mut build = Command::new("g++");
            build.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]);
            let built = build.arg(&source).arg("-o").arg(&unfinished).arg("-ldl").output();
            let built = built.expect("a C++ compiler is installed");
            let stderr = String::from_utf8_lossy(&built.stderr);
            assert!(built.status.success(), "the faults do not build:\n{stderr}");
            fs::rename(unfinished, &library).unwrap();
        }
        library
    })
}
