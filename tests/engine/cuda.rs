//! The engine with GPUs: the machine's own, else an emulated one.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use capstan::{
    device::{self, Fault, Options, Wanted},
    engine::{
        cpu::CpuEngine,
        cuda::{CudaEngine, Least},
    },
};

use crate::{FAR, Reach, emulated};

/// One for all tests, which it serves at once. It leaves nothing to the CPU.
pub fn engine() -> &'static CudaEngine {
    static ENGINE: OnceLock<CudaEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let wanted = Wanted { driver: emulated::driver(), devices: vec![0] };
        let options = Options {
            memory_percent: if emulated::driver().is_some() { 60 } else { 10 },
            patience: Duration::from_secs(300),
            on_fault: Arc::new(|fault: &Fault| eprintln!("{fault}")),
        };
        let gpus = device::open(&wanted, &options).unwrap();
        CudaEngine::new(CpuEngine::new(1).unwrap(), gpus, Least::default()).unwrap()
    })
}

/// The emulated device takes a second for what a GPU does in a millisecond.
pub fn reach() -> Reach {
    if emulated::driver().is_none() {
        return FAR;
    }
    Reach { lg_g1: 9, lg_g2: 6, lg_ntt: 12, every: 3 }
}
