//! The device layer, the engine with GPUs and the daemon: on a GPU if the machine has one, else on
//! the emulated driver.
#![cfg(feature = "server")]

mod arena;
#[path = "../groth16/circuit.rs"]
#[allow(dead_code)] // other suites use more
mod circuit;
#[cfg(feature = "cli")]
#[path = "../../examples/common/mod.rs"]
mod common;
mod daemon;
mod daemon_jobs;
mod damaged_tables;
mod early_points;
mod elimination_faults;
mod eliminations;
mod eliminations_in_blocks;
#[path = "../common/emulated.rs"]
mod emulated;
mod ending_workers;
mod fault_file;
mod faults;
mod faulty_daemon;
mod hostile_regions;
mod kernels;
#[cfg(feature = "cli")]
mod killed_client;
mod known_msms;
#[path = "../rig/presets.rs"]
mod limits;
mod matrices;
mod msm;
mod msm_faults;
mod msm_passes;
mod ntt_faults;
#[cfg(feature = "cli")]
mod observability;
#[cfg(feature = "cli")]
mod pi;
mod pinned;
mod points;
mod product_faults;
mod program_faults;
mod proofs;
mod real_faults;
mod refusal;
mod regions;
mod residency;
#[cfg(feature = "cli")]
mod residency_of_tenants;
mod rig;
mod ring;
mod seeded_faults;
mod self_test;
mod shared;
mod small_msms;
#[cfg(feature = "cli")]
mod spread;
#[cfg(feature = "cli")]
mod spread_faults;
#[cfg(feature = "cli")]
mod spread_losses;
#[cfg(feature = "cli")]
mod spread_refusals;
#[cfg(feature = "cli")]
mod spread_rows;
mod start_faults;
#[path = "../common/sweep.rs"]
mod sweep;
mod transforms;
mod unusable;
#[path = "../common/vec_sink.rs"]
mod vec_sink;
#[path = "../rig/mod.rs"]
mod wire;
mod worker_faults;
mod workers;
mod yielding;
