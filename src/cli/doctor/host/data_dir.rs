//! Whether the data directory is the daemon's alone, and has space.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::statvfs;

use super::sockets::DaemonProcess;
use crate::{doctor::finding::DoctorFinding, output::bytes_text, server::ServerSettings};

const CHECK: &str = "data_dir";
/// The points of an MSM of 2^23 in G1.
const FREE_BYTES_MIN: u64 = 768 << 20;

const OTHERS_READ: u32 = 0o005;
const OTHERS_WRITE: u32 = 0o002;

struct FolderFacts {
    path: PathBuf,
    is_folder: bool,
    mode: u32,
    user: u32,
    free_bytes: u64,
}

pub fn check(settings: &ServerSettings, daemon: Option<&DaemonProcess>) -> Option<DoctorFinding> {
    let path = settings.data_dir.as_deref()?;
    Some(match facts(path) {
        Ok(facts) => finding(&facts, daemon.map(|daemon| daemon.user)),
        Err(error) => cannot_inspect(path, &error),
    })
}

fn facts(path: &Path) -> io::Result<FolderFacts> {
    let folder = fs::metadata(path)?;
    let space = statvfs(path)?;
    Ok(FolderFacts {
        path: path.to_owned(),
        is_folder: folder.is_dir(),
        mode: folder.mode(),
        user: folder.uid(),
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
    })
}

fn cannot_inspect(path: &Path, error: &io::Error) -> DoctorFinding {
    let path = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return DoctorFinding::warning(
            CHECK,
            format!("{path} does not exist"),
            format!(
                "make it for the daemon's user: `install -d -m 0750 -o USER {path}`; the systemd \
                 unit makes /var/lib/capstan when it starts"
            ),
        );
    }
    DoctorFinding::warning(CHECK, format!("{path}: {error}"), "run this as root")
}

fn finding(facts: &FolderFacts, daemon_user: Option<u32>) -> DoctorFinding {
    let FolderFacts { path, is_folder, mode, user, free_bytes } = facts;
    let path = path.display();
    let problem = |text: String, fix: String| DoctorFinding::problem(CHECK, text, fix);
    if !is_folder {
        return problem(format!("{path} is not a folder"), "use another path".to_owned());
    }
    if mode & OTHERS_WRITE != 0 {
        return problem(format!("every user can write to {path}"), format!("chmod o-w {path}"));
    }
    if let Some(daemon) = daemon_user.filter(|daemon| *daemon != 0 && daemon != user) {
        let found = format!("{path} belongs to user {user}, but the daemon runs as user {daemon}");
        return problem(found, format!("chown -R {daemon} {path}"));
    }
    if mode & OTHERS_READ != 0 {
        let found = format!("every user can read {path}, also what tenants keep from each other");
        return DoctorFinding::warning(CHECK, found, format!("chmod 0750 {path}"));
    }
    if *free_bytes < FREE_BYTES_MIN {
        let found = format!("{path} has {} of free space", bytes_text(*free_bytes));
        let fix = "remove bases with `capstan bases rm`, or enlarge the disk";
        return DoctorFinding::warning(CHECK, found, fix);
    }
    DoctorFinding::ok(CHECK, format!("{path} has {} of free space", bytes_text(*free_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn severity(change: impl FnOnce(&mut FolderFacts), daemon_user: Option<u32>) -> Severity {
        let mut facts = FolderFacts {
            path: "/var/lib/capstan".into(),
            is_folder: true,
            mode: 0o40750,
            user: 7,
            free_bytes: FREE_BYTES_MIN,
        };
        change(&mut facts);
        finding(&facts, daemon_user).severity
    }

    #[test]
    fn the_folder_belongs_to_the_daemon_alone() {
        assert_eq!(severity(|_| {}, None), Severity::Ok);
        assert_eq!(severity(|_| {}, Some(7)), Severity::Ok);
        assert_eq!(severity(|_| {}, Some(0)), Severity::Ok);
        assert_eq!(severity(|_| {}, Some(8)), Severity::Problem);
        assert_eq!(severity(|facts| facts.mode = 0o40755, None), Severity::Warning);
        assert_eq!(severity(|facts| facts.mode = 0o40757, None), Severity::Problem);
        assert_eq!(severity(|facts| facts.is_folder = false, None), Severity::Problem);
        assert_eq!(severity(|facts| facts.free_bytes -= 1, None), Severity::Warning);
    }

    #[test]
    fn a_folder_that_does_not_exist_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        assert!(facts(folder.path()).unwrap().is_folder);
        let missing = folder.path().join("no");
        let error = facts(&missing).err().unwrap();
        assert!(cannot_inspect(&missing, &error).found.ends_with("does not exist"));
    }
}
