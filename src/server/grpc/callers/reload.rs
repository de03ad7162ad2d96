//! Values that are read from files, and read again when the files change or the operator asks.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};

/// Anyone may write to the file.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// A file of credentials, or an entry of one, that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct CredentialFileError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// What is wrong. Never quotes the file.
    pub problem: String,
}

/// When to read files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadMode {
    /// All.
    Always,
    /// Those that have changed, and not again since the last look: nobody is writing them now.
    IfChanged,
}

/// Tells versions of a file apart: Kubernetes replaces a symbolic link, so the file behind it has
/// another inode; an editor changes the times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A value that was read from files.
pub struct Reloaded<T> {
    /// The setting that names the first file.
    setting: &'static str,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, CredentialFileError> + Send + Sync>,
    current: RwLock<Arc<T>>,
    stamps: Mutex<FileStamps>,
}

/// The stamps of a value's files; `None` for a file that cannot be examined.
struct FileStamps {
    /// When they were read last, whether they were usable or not.
    read: Vec<Option<FileStamp>>,
    /// At the last look.
    seen: Vec<Option<FileStamp>>,
}

impl CredentialFileError {
    pub(in crate::grpc) fn new(setting: &'static str, problem: impl fmt::Display) -> Self {
        Self { setting, problem: problem.to_string() }
    }
}

/// The problems of entries of a file that are not used.
pub(in crate::grpc) fn entry_errors(
    setting: &'static str,
    problems: &[impl fmt::Display],
) -> Vec<CredentialFileError> {
    problems.iter().map(|problem| CredentialFileError::new(setting, problem)).collect()
}

/// Logs what is wrong with entries of a file that are not used.
pub(in crate::grpc) fn warn_of_left_out(setting: &str, problems: &[impl fmt::Display]) {
    for problem in problems {
        tracing::warn!(setting, %problem, "an entry is left out: the others are used");
    }
}

impl FileStamp {
    /// `None` if the file cannot be examined.
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl<T> Reloaded<T> {
    /// Reads the files for the first time.
    ///
    /// Errors: those of `read`.
    pub fn new(
        setting: &'static str,
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<T, CredentialFileError> + Send + Sync + 'static,
    ) -> Result<Self, CredentialFileError> {
        // Taken before the files are read, so that no later change is missed.
        let stamps: Vec<_> = paths.iter().map(|path| FileStamp::of(path)).collect();
        let stamps = FileStamps { read: stamps.clone(), seen: stamps };
        let current = RwLock::new(Arc::new(read()?));
        let reloaded =
            Self { setting, paths, read: Box::new(read), current, stamps: Mutex::new(stamps) };
        reloaded.warn_if_writable();
        Ok(reloaded)
    }

    pub fn current(&self) -> Arc<T> {
        self.current.read().clone()
    }

    /// Reads the files again. If that fails, the value stays and the problem is logged, once for
    /// each change.
    pub fn reload(&self, mode: ReloadMode) {
        let mut stamps = self.stamps.lock();
        let now = self.paths.iter().map(|path| FileStamp::of(path)).collect::<Vec<_>>();
        let is_settled = stamps.seen == now;
        stamps.seen.clone_from(&now);
        if mode == ReloadMode::IfChanged && (stamps.read == now || !is_settled) {
            return;
        }
        stamps.read = now;
        match (self.read)() {
            Ok(value) => {
                *self.current.write() = Arc::new(value);
                tracing::info!(setting = self.setting, "read again");
                self.warn_if_writable();
            }
            Err(CredentialFileError { setting, problem }) => tracing::error!(
                setting,
                problem,
                paths = ?self.paths,
                "cannot be read again: what was read before stays in use"
            ),
        }
    }

    fn warn_if_writable(&self) {
        for path in &self.paths {
            let mode = fs::metadata(path).map_or(0, |meta| meta.mode());
            if mode & WRITABLE_BY_OTHERS != 0 {
                tracing::warn!(?path, "every user of this host may write to this file");
            }
        }
    }
}

/// Reads a file of text.
pub fn read_text(setting: &'static str, path: &Path) -> Result<String, CredentialFileError> {
    let text = fs::read_to_string(path);
    text.map_err(|error: io::Error| CredentialFileError::new(setting, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn reloaded(path: &Path) -> Reloaded<String> {
        let read = {
            let path = path.to_owned();
            move || match read_text("auth_tokens", &path) {
                Ok(text) if text == "broken" => {
                    Err(CredentialFileError::new("auth_tokens", "broken"))
                }
                other => other,
            }
        };
        Reloaded::new("auth_tokens", vec![path.to_owned()], read).unwrap()
    }

    fn look_twice(value: &Reloaded<String>) {
        value.reload(ReloadMode::IfChanged);
        value.reload(ReloadMode::IfChanged);
    }

    #[test]
    fn a_file_is_read_once_nobody_writes_it_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let value = reloaded(&path);
        for text in ["half of", "half of a text", "half of a text, and the rest"] {
            fs::write(&path, text).unwrap();
            value.reload(ReloadMode::IfChanged);
            assert_eq!(*value.current(), "one", "while it changes");
        }
        value.reload(ReloadMode::IfChanged);
        assert_eq!(*value.current(), "half of a text, and the rest");
        fs::write(&path, "asked for").unwrap();
        value.reload(ReloadMode::Always);
        assert_eq!(*value.current(), "asked for");
    }

    #[test]
    fn a_broken_or_missing_file_leaves_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let value = reloaded(&path);
        let after = |text: &str| {
            fs::write(&path, text).unwrap();
            look_twice(&value);
            value.current().to_string()
        };
        assert_eq!(after("two, which is longer"), "two, which is longer");
        assert_eq!(after("broken"), "two, which is longer");
        fs::remove_file(&path).unwrap();
        value.reload(ReloadMode::Always);
        assert_eq!(*value.current(), "two, which is longer");
        assert_eq!(after("three"), "three");
    }

    /// Kubernetes updates a mounted secret by replacing a link to its folder.
    #[test]
    fn a_replaced_link_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(in_folder(version)).unwrap();
            fs::write(in_folder(version).join("file"), version).unwrap();
        }
        symlink("one", in_folder("data")).unwrap();
        let value = reloaded(&in_folder("data").join("file"));
        look_twice(&value);
        assert_eq!(*value.current(), "one");
        symlink("two", in_folder("new")).unwrap();
        fs::rename(in_folder("new"), in_folder("data")).unwrap();
        look_twice(&value);
        assert_eq!(*value.current(), "two");
    }
}
