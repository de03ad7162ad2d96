//! Several daemons behind a balancer that chooses one for each call. Results are compared with
//! arkworks.
#![cfg(all(feature = "client", feature = "server"))]

mod affinity;
mod balancer;
#[path = "../common/daemon_process.rs"]
mod daemon_process;
mod put_again;
mod rig;
#[path = "../common/stable_port.rs"]
mod stable_port;
mod wrong_affinity;
