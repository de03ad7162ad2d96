//! Injected faults: which ones a device survives, and how they are reported.

use std::time::Duration;

use capstan::{
    device::{
        self, BlockShape, DeviceFault, DeviceLease, DevicePtr, FaultClass, Kernel, KernelModule,
        Stream,
    },
    error::{EngineError, Limit},
};

use crate::rig::{
    DeviceRig, control, fault_of_device_0, first_device, on_emulated_driver, options,
};

const PATIENCE: Duration = Duration::from_secs(60);

type Parameters =
    (u32, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>);

/// A kernel, its stream and its memory.
struct WordsKernel {
    stream: Stream,
    kernel: Kernel<Parameters>,
    lease: DeviceLease,
}

impl WordsKernel {
    fn new(rig: &DeviceRig) -> Self {
        let stream = rig.stream();
        let module = KernelModule::load(rig.gpu.context(), "selftest").unwrap();
        let kernel = module.kernel("selftest_words", BlockShape::threads(128)).unwrap();
        let lease = rig.upload(&stream, &[0; 4 * 24]);
        Self { stream, kernel, lease }
    }

    fn launch(&self) -> Result<(), DeviceFault> {
        let all = self.lease.all();
        self.kernel.launch(&self.stream, 1, (1, all, all, all, all, all))
    }
}

#[test]
fn opening_reports_a_lack_of_memory() {
    on_emulated_driver(PATIENCE, |_| {
        for call in ["cuMemAlloc", "cuMemHostAlloc"] {
            control::fault(&format!("{call}:1:2"));
            let (options, _) = options(PATIENCE);
            let Err(unusable) = device::open(&first_device(), &options) else {
                panic!("{call}: opened without memory")
            };
            let fault = fault_of_device_0(&unusable);
            assert_eq!(fault.class(), FaultClass::Exhausted, "{fault}");
            control::fault("");
        }
    });
}

#[test]
fn a_lack_of_launch_resources_fails_one_launch_only() {
    on_emulated_driver(PATIENCE, |rig| {
        let words = WordsKernel::new(rig);
        control::fault("cuLaunchKernel:1:701");
        let fault = words.launch().unwrap_err();
        assert_eq!(fault.class(), FaultClass::Exhausted, "{fault}");
        words.launch().unwrap();
        words.stream.synchronize().unwrap();
        assert!(rig.gpu.context().is_alive());
    });
}

#[test]
fn a_sticky_fault_ends_the_device_and_is_reported_once() {
    on_emulated_driver(PATIENCE, |rig| {
        let words = WordsKernel::new(rig);
        control::fault("cuLaunchKernel:1:700");
        // The emulated driver reports it where the work runs: in the launch or in the wait.
        let met = words.launch().and_then(|()| words.stream.synchronize()).unwrap_err();
        assert!(matches!(met, DeviceFault::Driver { code: 700, .. }), "{met}");
        assert!(!rig.gpu.context().is_alive());
        assert_eq!(words.stream.synchronize(), Err(DeviceFault::Disabled));
        assert_eq!(rig.gpu.arena().lease(&words.stream, 1).err(), Some(DeviceFault::Disabled));
        assert_eq!(*rig.faults.lock().unwrap(), [met]);
    });
}

/// On a GPU, a kernel that does not wait would sometimes read data before it is written.
#[test]
fn a_kernel_launched_early_must_wait_for_its_predecessor() {
    on_emulated_driver(PATIENCE, |rig| {
        let mut words = WordsKernel::new(rig);
        words.kernel = words.kernel.with_pdl();
        let met = words.launch().and_then(|()| words.stream.synchronize()).unwrap_err();
        assert!(matches!(met, DeviceFault::Driver { code: 710, .. }), "{met}");
    });
}

#[test]
fn a_hanging_kernel_fails_at_the_deadline() {
    on_emulated_driver(Duration::from_secs(5), |rig| {
        let words = WordsKernel::new(rig);
        control::fault("cuLaunchKernel:1:hang");
        words.launch().unwrap();
        let fault = words.stream.synchronize().unwrap_err();
        assert_eq!(fault, DeviceFault::Hang(Duration::from_secs(5)));
        assert_eq!(fault.class(), FaultClass::Fatal);
        assert!(!rig.gpu.context().is_alive());
    });
}

/// The device may work for another job first, whose time must not count.
#[test]
fn a_wait_is_longer_while_others_wait() {
    const LIMIT: Duration = Duration::from_secs(5);
    on_emulated_driver(LIMIT, |rig| {
        let words = WordsKernel::new(rig);
        let _others = [(); 2].map(|()| rig.gpu.context().begin_wait());
        control::fault("cuLaunchKernel:1:hang");
        words.launch().unwrap();
        assert_eq!(words.stream.synchronize().unwrap_err(), DeviceFault::Hang(3 * LIMIT));
    });
}

#[test]
fn only_listed_errors_leave_the_device_usable() {
    let driver = |code| DeviceFault::Driver { call: "cuLaunchKernel", name: "X".into(), code };
    for code in 1..1000 {
        let expected = match code {
            2 | 701 => FaultClass::Exhausted,
            1 | 500 => FaultClass::Misuse,
            _ => FaultClass::Fatal,
        };
        assert_eq!(driver(code).class(), expected, "{code}");
    }
    assert_eq!(DeviceFault::Hang(Duration::ZERO).class(), FaultClass::Fatal);
    assert_eq!(EngineError::from(driver(700)), EngineError::DeviceLost);
    for (requested_bytes, retry_after) in [(9, Some(Duration::from_millis(500))), (10, None)] {
        let full = DeviceFault::OutOfMemory { requested_bytes, free_bytes: 0, total_bytes: 9 };
        assert_eq!(
            EngineError::from(full),
            EngineError::Exhausted { limit: Limit::DeviceMemory, retry_after }
        );
    }
}
