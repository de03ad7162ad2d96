//! Servers and a daemon that several tests use. Tests leave objects there, some of them pinned, but
//! the servers work as before. They end with the process of the tests: a static value is never
//! dropped.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::{
    daemon::{LoggedDaemon, spawn_shared},
    spread::SpreadServer,
};

/// Locks the shared server with `devices` workers (at most three), which divide each call. Tests
/// that share it take turns: each expects that all GPUs are idle.
pub fn spread_server(devices: usize) -> Option<MutexGuard<'static, SpreadServer>> {
    const NAMES: [&str; 3] = ["shared-one", "shared-two", "shared-three"];
    static SERVERS: [OnceLock<Option<Mutex<SpreadServer>>>; 3] = [const { OnceLock::new() }; 3];
    let start = || {
        let server = SpreadServer::start(NAMES[devices - 1], devices as u32)?;
        server.folders().into_iter().for_each(remove_at_the_end);
        Some(Mutex::new(server))
    };
    let server = SERVERS[devices - 1].get_or_init(start).as_ref()?;
    Some(server.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes a folder after the end of this process, which closes the shell's pipe.
fn remove_at_the_end(folder: &Path) {
    static SHELLS: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "read _; rm -rf \"$0\""]).arg(folder).stdin(Stdio::piped());
    SHELLS.lock().unwrap().push(shell.spawn().unwrap());
}

/// A daemon with workers on two emulated devices, or on all GPUs. It also listens on a Unix socket.
pub struct SharedDaemon {
    pub target: String,
    pub socket: PathBuf,
    /// Holds the pipe whose closing ends the daemon.
    _daemon: LoggedDaemon,
}

pub fn daemon() -> &'static SharedDaemon {
    static DAEMON: OnceLock<SharedDaemon> = OnceLock::new();
    DAEMON.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let socket = folder.join("capstan.sock");
        let listen = ["--engine", "cuda", "--unix-socket", socket.to_str().unwrap()];
        // On a loaded machine, work on emulated devices takes longer than the default limit.
        let patient = ["--cuda-timeout-ms", "300000"];
        let flags = [&listen[..], &patient].concat();
        let daemon = spawn_shared(&folder, &flags, &[("EMU_DEVICES", "2")]);
        daemon.wait_until_gpus_serve();
        SharedDaemon { target: daemon.target(), socket, _daemon: daemon }
    })
}
