//! Injected faults: which ones a device survives, and how they are reported.

use std::time::Duration;

use capstan::device::{self, Block, Class, Fault, Kernel, Lease, Module, Ptr, Stream};

use crate::rig::{Rig, control, fault_of_device_0, options, wanted, with_faults};

const PATIENCE: Duration = Duration::from_secs(60);

type Parameters = (u32, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>, Ptr<u32>);

/// A kernel, its stream and its memory.
struct Words {
    stream: Stream,
    kernel: Kernel<Parameters>,
    lease: Lease,
}

impl Words {
    fn new(rig: &Rig) -> Self {
        let stream = rig.stream();
        let module = Module::load(rig.gpu.context(), "selftest").unwrap();
        let kernel = module.kernel("selftest_words", Block::of(128)).unwrap();
        let lease = rig.put(&stream, &[0; 4 * 24]);
        Self { stream, kernel, lease }
    }

    fn launch(&self) -> Result<(), Fault> {
        let all = self.lease.all();
        self.kernel.launch(&self.stream, 1, (1, all, all, all, all, all))
    }
}

#[test]
fn opening_reports_a_lack_of_memory() {
    with_faults(PATIENCE, |_| {
        for call in ["cuMemAlloc", "cuMemHostAlloc"] {
            control::fault(&format!("{call}:1:2"));
            let (options, _) = options(PATIENCE);
            let Err(unusable) = device::open(&wanted(), &options) else {
                panic!("{call}: opened without memory")
            };
            let fault = fault_of_device_0(&unusable);
            assert_eq!(fault.class(), Class::Exhausted, "{fault}");
            control::fault("");
        }
    });
}

#[test]
fn a_lack_of_launch_resources_fails_one_launch_only() {
    with_faults(PATIENCE, |rig| {
        let words = Words::new(rig);
        control::fault("cuLaunchKernel:1:701");
        let fault = words.launch().unwrap_err();
        assert_eq!(fault.class(), Class::Exhausted, "{fault}");
        words.launch().unwrap();
        words.stream.synchronize().unwrap();
        assert!(rig.gpu.context().is_alive());
    });
}

#[test]
fn a_sticky_fault_ends_the_device_and_is_reported_once() {
    with_faults(PATIENCE, |rig| {
        let words = Words::new(rig);
        control::fault("cuLaunchKernel:1:700");
        // The emulated driver reports it where the work runs: in the launch or in the wait.
        let met = words.launch().and_then(|()| words.stream.synchronize()).unwrap_err();
        assert!(matches!(met, Fault::Driver { code: 700, .. }), "{met}");
        assert!(!rig.gpu.context().is_alive());
        assert_eq!(words.stream.synchronize(), Err(Fault::Disabled));
        assert_eq!(rig.gpu.arena().lease(&words.stream, 1).err(), Some(Fault::Disabled));
        assert_eq!(*rig.faults.lock().unwrap(), [met]);
    });
}

/// On a GPU, a kernel that does not wait would sometimes read data before it is written.
#[test]
fn a_kernel_launched_early_must_wait_for_its_predecessor() {
    with_faults(PATIENCE, |rig| {
        let mut words = Words::new(rig);
        words.kernel = words.kernel.starting_early();
        let met = words.launch().and_then(|()| words.stream.synchronize()).unwrap_err();
        assert!(matches!(met, Fault::Driver { code: 710, .. }), "{met}");
    });
}

#[test]
fn a_hanging_kernel_fails_at_the_deadline() {
    with_faults(Duration::from_secs(5), |rig| {
        let words = Words::new(rig);
        control::fault("cuLaunchKernel:1:hang");
        words.launch().unwrap();
        let fault = words.stream.synchronize().unwrap_err();
        assert_eq!(fault, Fault::Hang(Duration::from_secs(5)));
        assert_eq!(fault.class(), Class::Fatal);
        assert!(!rig.gpu.context().is_alive());
    });
}
