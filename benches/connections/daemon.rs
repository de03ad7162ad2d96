//! The daemon in a child process.

use std::{
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
};

pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts a daemon with this limit on connections, and waits until it is ready.
    pub fn start(connections: usize) -> Self {
        let connections = connections.to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_capstand"))
            .env_clear()
            .args(["--config", "/dev/null", "--listen", "127.0.0.1:0", "--engine", "cpu"])
            .args(["--metrics-listen", "none", "--connections-max", &connections])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the daemon is built");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains(" ready ") {
            line.clear();
            assert!(log.read_line(&mut line).expect("a log") > 0, "the daemon ended");
        }
        let address = line.split("tcp=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address = address.and_then(|text| text.parse().ok()).expect("an address");
        thread::spawn(move || io::copy(&mut log, &mut io::sink()));
        Self { child, address }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
