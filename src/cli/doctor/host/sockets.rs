//! Whether Unix sockets can be made or are served, and by which process.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::net::SocketAddrUnix;
use tokio::net::UnixStream;

use crate::{
    doctor::{
        files::{folder_of, is_open_to_all},
        finding::DoctorFinding,
    },
    server::ServerSettings,
};

/// The daemon that serves a configured socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaemonProcess {
    pub id: u32,
    pub user: u32,
}

enum SocketState {
    /// Without the process if it is in another namespace of processes.
    Served(Option<DaemonProcess>),
    /// A daemon that was killed left it behind.
    LeftBehind,
    Absent,
    NoFolder,
    TooLong,
    NotASocket,
    Forbidden,
    Failed(io::Error),
}

struct SocketFacts {
    setting: &'static str,
    path: PathBuf,
    /// The mode of its folder, if there is one.
    folder_mode: Option<u32>,
    state: SocketState,
}

pub struct CheckedSockets {
    pub findings: Vec<DoctorFinding>,
    /// The daemon that serves one of them.
    pub daemon: Option<DaemonProcess>,
}

pub async fn check(settings: &ServerSettings) -> CheckedSockets {
    let ServerSettings { unix_socket, admin_socket, .. } = settings;
    let sockets = [
        ("unix_socket", unix_socket.clone()),
        ("unix_socket", settings.region_socket()),
        ("admin_socket", admin_socket.clone()),
    ];
    let mut checked = CheckedSockets { findings: Vec::new(), daemon: None };
    for (setting, path) in sockets {
        let Some(path) = path else { continue };
        let state = state(&path).await;
        if let SocketState::Served(Some(process)) = state {
            checked.daemon = Some(process);
        }
        let folder_mode = fs::metadata(folder_of(&path)).ok().map(|folder| folder.mode());
        checked.findings.push(finding(&SocketFacts { setting, path, folder_mode, state }));
    }
    checked
}

async fn state(path: &Path) -> SocketState {
    if SocketAddrUnix::new(path).is_err() {
        return SocketState::TooLong;
    }
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => return SocketState::NotASocket,
        Ok(_) => {}
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound if folder_of(path).is_dir() => SocketState::Absent,
                io::ErrorKind::NotFound => SocketState::NoFolder,
                io::ErrorKind::PermissionDenied => SocketState::Forbidden,
                _ => SocketState::Failed(error),
            };
        }
    }
    match UnixStream::connect(path).await {
        Ok(stream) => {
            let peer = stream.peer_cred().ok();
            SocketState::Served(peer.and_then(|peer| {
                let id = u32::try_from(peer.pid()?).ok().filter(|id| *id > 0)?;
                Some(DaemonProcess { id, user: peer.uid() })
            }))
        }
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => SocketState::LeftBehind,
            io::ErrorKind::PermissionDenied => SocketState::Forbidden,
            _ => SocketState::Failed(error),
        },
    }
}

fn finding(facts: &SocketFacts) -> DoctorFinding {
    const CHECK: &str = "sockets";
    let SocketFacts { setting, path, folder_mode, state } = facts;
    let (path, folder) = (path.display(), folder_of(path));
    let about = |text: &str| format!("{setting} {path} {text}");
    if folder_mode.is_some_and(is_open_to_all) {
        let fix = format!("chmod o-w {}", folder.display());
        return DoctorFinding::problem(CHECK, about("can be replaced by every user"), fix);
    }
    let ok = |text: &str| DoctorFinding::ok(CHECK, about(text));
    let problem = |text: &str, fix: &str| DoctorFinding::problem(CHECK, about(text), fix);
    match state {
        SocketState::Served(Some(daemon)) => ok(&format!("is served by process {}", daemon.id)),
        SocketState::Served(None) => ok("is served by a process of another namespace"),
        SocketState::LeftBehind => ok("is left from a killed daemon; the next one replaces it"),
        SocketState::Absent => ok("can be made; no daemon serves it"),
        SocketState::NoFolder => DoctorFinding::warning(
            CHECK,
            about("has no folder"),
            format!(
                "make {} for the daemon's user; the systemd unit makes /run/capstan when it starts",
                folder.display()
            ),
        ),
        SocketState::TooLong => problem("is too long", "use a path of at most 107 bytes"),
        SocketState::NotASocket => {
            problem("is not a socket", "remove the file, or use another path")
        }
        SocketState::Forbidden => DoctorFinding::warning(
            CHECK,
            about("does not let this user connect"),
            "run this as root, or add the user to the socket's group (unix_mode)",
        ),
        SocketState::Failed(error) => {
            problem(&format!("does not answer: {error}"), "see the daemon's log, and restart it")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::doctor::finding::Severity;

    fn severity(state: SocketState, folder_mode: u32) -> Severity {
        let setting = "unix_socket";
        let path = PathBuf::from("/run/capstan/x.sock");
        finding(&SocketFacts { setting, path, folder_mode: Some(folder_mode), state }).severity
    }

    #[test]
    fn each_state_of_a_socket_has_a_finding() {
        let daemon = DaemonProcess { id: 7, user: 1 };
        for (state, expected) in [
            (SocketState::Served(Some(daemon)), Severity::Ok),
            (SocketState::Served(None), Severity::Ok),
            (SocketState::LeftBehind, Severity::Ok),
            (SocketState::Absent, Severity::Ok),
            (SocketState::NoFolder, Severity::Warning),
            (SocketState::Forbidden, Severity::Warning),
            (SocketState::TooLong, Severity::Problem),
            (SocketState::NotASocket, Severity::Problem),
            (SocketState::Failed(io::ErrorKind::Other.into()), Severity::Problem),
        ] {
            assert_eq!(severity(state, 0o755), expected);
        }
        assert_eq!(severity(SocketState::Served(Some(daemon)), 0o777), Severity::Problem);
        assert_eq!(severity(SocketState::Absent, 0o1777), Severity::Ok);
    }

    #[tokio::test]
    async fn the_process_behind_a_socket_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        assert!(matches!(state(&path).await, SocketState::Absent));
        assert!(matches!(state(&folder.path().join("no/x.sock")).await, SocketState::NoFolder));
        let listener = UnixListener::bind(&path).unwrap();
        let SocketState::Served(Some(daemon)) = state(&path).await else { panic!("not served") };
        assert_eq!(daemon.id, std::process::id());
        drop(listener);
        assert!(matches!(state(&path).await, SocketState::LeftBehind));
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(matches!(state(&folder.path().join("file")).await, SocketState::NotASocket));
        let long = folder.path().join("x".repeat(108));
        assert!(matches!(state(&long).await, SocketState::TooLong));
    }
}
