//! Several daemons: behind a balancer that chooses one for each call, and as a fleet. Results are
//! compared with arkworks.
#![cfg(all(feature = "client", feature = "server"))]

mod affinity;
mod balancer;
#[path = "../common/daemon_process.rs"]
mod daemon_process;
mod fleet;
mod lost_servers;
#[path = "../common/msm_inputs.rs"]
mod msm_inputs;
mod put_again;
mod rig;
#[path = "../common/sparse_inputs.rs"]
mod sparse_inputs;
#[path = "../common/stable_port.rs"]
mod stable_port;
#[path = "../common/sweep.rs"]
mod sweep;
mod wrong_affinity;
