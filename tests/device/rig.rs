//! An open device, for one test at a time.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use capstan::{
    device::{
        self, DeviceFault, DeviceLease, DevicePolicy, DeviceSelection, Gpu, GpuUnavailable,
        LeaseGate, OpenOptions, Stream, UnusableDevice,
    },
    engine::CancellationGate,
};

use crate::emulated;

/// Seeds of the emulated driver's schedules; 0 is the natural order.
const SEEDS: [u64; 4] = [0, 1, 2, 0xfeed];

/// Long enough for the self-test on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Refuses one lease.
#[derive(Clone, Default)]
pub struct LeaseRefusal(Arc<AtomicU64>);

impl LeaseRefusal {
    /// Refuses the `nth` lease from now, once; 0 refuses none.
    pub fn arm(&self, nth: u64) {
        self.0.store(nth, Ordering::Release);
    }

    /// Whether the lease was refused, or none is to be.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    fn gate(&self) -> LeaseGate {
        let left = self.0.clone();
        let next = |left: u64| left.checked_sub(1);
        Arc::new(move || left.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) != Ok(1))
    }
}

/// Refuses all checks of jobs but the first ones.
#[derive(Clone)]
pub struct CheckLimit(Arc<AtomicU64>);

impl CheckLimit {
    /// Limits nothing.
    pub fn new() -> Self {
        Self(Arc::new(u64::MAX.into()))
    }

    /// Passes the next `checks` checks only.
    pub fn set(&self, checks: u64) {
        self.0.store(checks, Ordering::Release);
    }

    pub fn gate(&self) -> CancellationGate {
        let left = self.0.clone();
        let next = |left: u64| left.checked_sub(1);
        Arc::new(move || left.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok())
    }
}

/// A device, and the faults that it reported.
pub struct DeviceRig {
    pub gpu: Gpu,
    pub lease_refusal: LeaseRefusal,
    pub faults: Arc<Mutex<Vec<DeviceFault>>>,
    /// Index of the current schedule's seed; `SEEDS.len()` outside of [`each_seed`].
    seed_index: AtomicUsize,
    _exclusive: MutexGuard<'static, ()>,
}

pub fn options(timeout: Duration) -> (OpenOptions, Arc<Mutex<Vec<DeviceFault>>>) {
    let faults = Arc::<Mutex<Vec<_>>>::default();
    let told = faults.clone();
    let on_fault = Arc::new(move |fault: &DeviceFault| told.lock().unwrap().push(fault.clone()));
    // Sanitizers track each byte, so use little memory: some 50 MB, and 1.4 GB on an H200.
    let memory_percent = if emulated::driver().is_some() { 5 } else { 1 };
    let policy =
        DevicePolicy { shared_bytes_max: emulated::shared_bytes_max(), ..DevicePolicy::default() };
    let memory_wait = Duration::ZERO;
    let arena_bytes_min = None;
    let options =
        OpenOptions { memory_percent, memory_wait, arena_bytes_min, timeout, on_fault, policy };
    (options, faults)
}

/// Why device 0, the only wanted one, was left out.
pub fn fault_of_device_0(unusable: &GpuUnavailable) -> &DeviceFault {
    match unusable.left_out() {
        [UnusableDevice { index: 0, reason: GpuUnavailable::Device { index: 0, fault } }] => fault,
        _ => panic!("{unusable:?}"),
    }
}

pub fn first_device() -> DeviceSelection {
    DeviceSelection { driver: emulated::driver(), devices: vec![0] }
}

impl DeviceRig {
    pub fn new() -> Self {
        Self::with_timeout(TIMEOUT)
    }

    pub fn with_timeout(timeout: Duration) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut options, faults) = options(timeout);
        let lease_refusal = LeaseRefusal::default();
        options.policy.lease_gate = lease_refusal.gate();
        let gpu = device::open(&first_device(), &options).unwrap().gpus.remove(0);
        Self { gpu, lease_refusal, faults, seed_index: SEEDS.len().into(), _exclusive: turn }
    }

    /// Whether to run `case` now: cases that are slow on the emulated driver run under one schedule
    /// each. A GPU runs all of them.
    pub fn runs_case(&self, case: usize) -> bool {
        let order = self.seed_index.load(Ordering::Relaxed);
        order == SEEDS.len() || case % SEEDS.len() == order
    }

    pub fn stream(&self) -> Stream {
        Stream::new(self.gpu.context()).unwrap()
    }

    pub fn upload(&self, stream: &Stream, bytes: &[u8]) -> DeviceLease {
        let lease = self.gpu.arena().lease(stream, bytes.len() as u64).unwrap();
        self.gpu.ring().upload(stream, lease.all()).write(bytes).unwrap();
        lease
    }

    pub fn download(&self, stream: &Stream, lease: &DeviceLease) -> Vec<u8> {
        let mut out = Vec::new();
        let take = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok::<_, DeviceFault>(())
        };
        self.gpu.ring().download(stream, lease.all(), take).unwrap();
        out
    }
}

/// Runs `test` under each schedule of the emulated driver; once on a GPU.
pub fn each_seed(rig: &DeviceRig, mut test: impl FnMut(&DeviceRig)) {
    if emulated::driver().is_none() {
        return test(rig);
    }
    for (order, seed) in SEEDS.into_iter().enumerate() {
        println!("seed {seed}");
        control::seed(seed);
        rig.seed_index.store(order, Ordering::Relaxed);
        test(rig);
    }
    rig.seed_index.store(SEEDS.len(), Ordering::Relaxed);
    control::seed(0);
}

/// Runs `test` on the emulated driver only, and resets the driver afterwards.
pub fn on_emulated_driver(timeout: Duration, test: impl Fn(&DeviceRig)) {
    if emulated::driver().is_none() {
        println!("skipped: faults are not injected into a GPU");
        return;
    }
    let rig = DeviceRig::with_timeout(timeout);
    test(&rig);
    let DeviceRig { gpu, _exclusive: turn, .. } = rig;
    drop(gpu);
    control::reset();
    drop(turn);
}

/// Functions that the emulated driver adds to CUDA's.
#[allow(unsafe_code)]
pub mod control {
    use std::ffi::{CString, c_char, c_long};

    use libloading::{Library, Symbol};

    use crate::emulated;

    fn with<F, R>(name: &[u8], call: impl FnOnce(Symbol<'_, F>) -> R) -> R {
        // SAFETY: the library is loaded already, and has these functions with these types.
        unsafe {
            let library = Library::new(emulated::driver().unwrap()).unwrap();
            call(library.get(name).unwrap())
        }
    }

    pub fn seed(seed: u64) {
        // SAFETY: takes an integer.
        let call = |f: Symbol<'_, unsafe extern "C" fn(u64)>| unsafe { f(seed) };
        with(b"capstan_emulated_seed\0", call);
    }

    /// `<call>:<nth>:<code>`.
    pub fn fault(text: &str) {
        let text = CString::new(text).unwrap();
        // SAFETY: takes a string, and keeps no pointer to it.
        let call = |f: Symbol<'_, unsafe extern "C" fn(*const c_char)>| unsafe { f(text.as_ptr()) };
        with(b"capstan_emulated_fault\0", call);
    }

    /// How many calls of the first planned fault there were.
    pub fn calls() -> u64 {
        // SAFETY: takes nothing, and returns an integer.
        let call = |f: Symbol<'_, unsafe extern "C" fn() -> c_long>| unsafe { f() };
        with(b"capstan_emulated_calls\0", call).try_into().unwrap()
    }

    pub fn reset() {
        // SAFETY: nothing uses the device any longer.
        let call = |f: Symbol<'_, unsafe extern "C" fn()>| unsafe { f() };
        with(b"capstan_emulated_reset\0", call);
    }
}
