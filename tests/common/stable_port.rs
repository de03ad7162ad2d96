//! Ports that are known before a program listens on them: for daemons that restart at the same
//! address, and for configuration files. All other tests use port 0 and the address in the log.
#![allow(dead_code)] // no test crate uses everything

use std::{
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    sync::Mutex,
};

/// The ports, divided by ten. They are below the ports that systems give to connections: a
/// connection could take one during a restart.
const TENS: Range<u16> = 2000..3200;

/// The ports of this process.
struct OwnPorts {
    /// Each keeps other processes away from the nine ports below its own: a process that uses them
    /// must listen on the guard's port.
    guards: Vec<TcpListener>,
    /// Claimed ports that no test uses yet.
    left: Range<u16>,
}

static OWN: Mutex<OwnPorts> = Mutex::new(OwnPorts { guards: Vec::new(), left: 0..0 });

/// A port that nothing listens on, and that no other call of this function returns, in this process
/// or in others that run at the same time.
pub fn stable_port() -> u16 {
    let mut own = OWN.lock().unwrap();
    loop {
        if let Some(port) = own.left.next() {
            return port;
        }
        let first = own.claim();
        own.left = first..first + 9;
    }
}

/// Like [`stable_port`], for nine consecutive ports. Returns the first one, whose last digit is 0.
pub fn claim_nine_ports() -> u16 {
    OWN.lock().unwrap().claim()
}

impl OwnPorts {
    fn claim(&mut self) -> u16 {
        // Processes begin at different ports, so that few of them try the same ones.
        let begin = std::process::id() as usize % TENS.len();
        for tens in TENS.cycle().skip(begin).take(TENS.len()) {
            let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
            let first = 10 * tens;
            let Ok(guard) = listen(first + 9) else { continue };
            // Programs that are not tests may listen on some of them.
            if (first..first + 9).all(|port| listen(port).is_ok()) {
                self.guards.push(guard);
                return first;
            }
        }
        panic!("the ports of {TENS:?} tens are taken");
    }
}

#[test]
fn a_port_is_returned_once_and_guarded_against_other_processes() {
    let nine = claim_nine_ports();
    let mut ports: Vec<_> = (0..20).map(|_| stable_port()).collect();
    ports.extend(nine..nine + 9);
    for &port in &ports {
        let guard = port / 10 * 10 + 9;
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, guard));
        assert!(other.is_err(), "another process can claim {port}");
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 29, "a port was returned twice");
}
