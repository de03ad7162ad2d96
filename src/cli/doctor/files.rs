//! Whether other users could read secrets, or change files that decide who may call.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::finding::DoctorFinding;

const CHECK: &str = "files";

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;
const STICKY: u32 = 0o1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// Only the owner, and a group that the owner chose, may read it.
    Secret,
    /// Everyone may read it, and only the owner may change it.
    #[cfg_attr(not(feature = "server"), allow(dead_code))] // a client's files are all secret
    Public,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAccess {
    pub mode: u32,
    pub user: u32,
    /// The mode of the folder that holds the file.
    pub folder_mode: u32,
}

pub struct CheckedFile<'a> {
    /// The setting or the option that names the file.
    pub name: &'a str,
    pub path: &'a Path,
    pub secrecy: Secrecy,
}

impl CheckedFile<'_> {
    /// Looks at the file. `daemon_user` is the daemon's user, if a daemon runs.
    pub fn check(&self, daemon_user: Option<u32>) -> DoctorFinding {
        self.finding(access(self.path), daemon_user)
    }

    fn finding(&self, access: io::Result<FileAccess>, daemon_user: Option<u32>) -> DoctorFinding {
        let Self { name, path, secrecy } = self;
        let path = path.display();
        let access = match access {
            Ok(access) => access,
            Err(error) => {
                let fix = "correct the path, or run this as root";
                return DoctorFinding::warning(CHECK, format!("{name} {path}: {error}"), fix);
            }
        };
        let FileAccess { mode, user, folder_mode } = access;
        let is_secret = *secrecy == Secrecy::Secret;
        let problem = |found: &str, fix: String| {
            DoctorFinding::problem(CHECK, format!("{name} {path}: {found}"), fix)
        };
        if is_open_to_all(folder_mode) {
            let folder = folder_of(self.path);
            let fix = format!("chmod o-w {}", folder.display());
            return problem("every user can replace it, because its folder is open", fix);
        }
        if mode & OTHERS_WRITE != 0 {
            return problem("every user can change it", format!("chmod o-w {path}"));
        }
        if is_secret && mode & OTHERS_READ != 0 {
            return problem("every user can read this secret", format!("chmod o-rwx {path}"));
        }
        if mode & GROUP_WRITE != 0 {
            let found = format!("{name} {path}: its group can change it");
            return DoctorFinding::warning(CHECK, found, format!("chmod g-w {path}"));
        }
        if daemon_user.is_some_and(|daemon| user != daemon && user != 0) {
            let found =
                format!("{name} {path}: belongs to user {user}, who is not root or the daemon");
            return DoctorFinding::warning(CHECK, found, format!("chown root {path}"));
        }
        DoctorFinding::ok(CHECK, format!("{name} {path}: mode {:04o}", mode & 0o7777))
    }
}

/// Whether every user can replace files in a folder of this mode.
pub fn is_open_to_all(folder_mode: u32) -> bool {
    folder_mode & OTHERS_WRITE != 0 && folder_mode & STICKY == 0
}

/// The folder that holds a file.
pub fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Of a link, the file behind it and the folder of that file.
fn access(path: &Path) -> io::Result<FileAccess> {
    let path = path.canonicalize()?;
    let (file, folder) = (fs::metadata(&path)?, fs::metadata(folder_of(&path))?);
    Ok(FileAccess { mode: file.mode(), user: file.uid(), folder_mode: folder.mode() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::doctor::finding::Severity;

    const PRIVATE: FileAccess = FileAccess { mode: 0o100640, user: 7, folder_mode: 0o40755 };

    fn finding(secrecy: Secrecy, access: FileAccess, daemon_user: Option<u32>) -> DoctorFinding {
        let path = Path::new("/etc/capstan/file");
        CheckedFile { name: "tls_key", path, secrecy }.finding(Ok(access), daemon_user)
    }

    #[test]
    fn secrets_are_for_their_owner_and_a_group() {
        let of_mode = |secrecy, mode: u32| {
            let access = FileAccess { mode: 0o100000 | mode, ..PRIVATE };
            finding(secrecy, access, None).severity
        };
        for (mode, secret, public) in [
            (0o600, Severity::Ok, Severity::Ok),
            (0o640, Severity::Ok, Severity::Ok),
            (0o644, Severity::Problem, Severity::Ok),
            (0o660, Severity::Warning, Severity::Warning),
            (0o646, Severity::Problem, Severity::Problem),
        ] {
            assert_eq!(of_mode(Secrecy::Secret, mode), secret, "{mode:o}");
            assert_eq!(of_mode(Secrecy::Public, mode), public, "{mode:o}");
        }
    }

    #[test]
    fn a_file_in_an_open_folder_can_be_replaced() {
        let in_folder = |folder_mode| {
            finding(Secrecy::Public, FileAccess { folder_mode, ..PRIVATE }, None).severity
        };
        assert_eq!(in_folder(0o40777), Severity::Problem);
        assert_eq!(in_folder(0o41777), Severity::Ok);
    }

    #[test]
    fn a_file_of_another_user_is_reported_if_the_daemon_is_known() {
        let owned = |daemon_user| finding(Secrecy::Public, PRIVATE, daemon_user).severity;
        assert_eq!(owned(None), Severity::Ok);
        assert_eq!(owned(Some(7)), Severity::Ok);
        assert_eq!(owned(Some(8)), Severity::Warning);
    }

    #[test]
    fn the_file_behind_a_link_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("key"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let check = || CheckedFile { name: "x", path: &link, secrecy: Secrecy::Secret }.check(None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(check().severity, Severity::Problem);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check().severity, Severity::Ok);
        fs::remove_file(&file).unwrap();
        assert_eq!(check().severity, Severity::Warning);
    }
}
