//! Several daemons: behind a balancer that chooses one for each call, and as a fleet. Results are
//! compared with arkworks.

mod affinity;
mod balancer;
mod fleet;
mod lost_servers;
mod put_again;
mod rig;
mod wrong_affinity;

use crate::{daemon_process, msm_inputs, sparse_inputs, stable_port, sweep};
