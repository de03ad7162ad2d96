//! Loading of modules and typed kernels, and timed events.

use capstan::device::{
    BlockShape, DeviceFault, DeviceLimits, DevicePtr, GpuUnavailable, KernelModule,
    KernelParameters,
};

use crate::rig::DeviceRig;

type Words = (u32, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>);

fn refused<P: KernelParameters>(module: &KernelModule, name: &str, block: BlockShape) -> String {
    match module.kernel::<P>(name, block) {
        Err(DeviceFault::KernelMismatch { kernel, problem }) => {
            assert_eq!(kernel, name);
            problem
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} was loaded"),
    }
}

#[test]
fn mismatched_kernels_are_refused_at_load() {
    let rig = DeviceRig::new();
    let context = rig.gpu.context();
    let Err(GpuUnavailable::Device { fault, .. }) = KernelModule::load(context, "no/such") else {
        panic!("a module that does not exist was loaded")
    };
    assert!(matches!(fault, DeviceFault::KernelMismatch { .. }), "{fault}");
    let module = KernelModule::load(context, "selftest").unwrap();
    module.kernel::<Words>("selftest_words", BlockShape::threads(128)).unwrap();
    refused::<Words>(&module, "no_such", BlockShape::threads(128));
    refused::<Words>(&module, "selftest\0words", BlockShape::threads(128));
    // A kernel of another module.
    refused::<Words>(&module, "g1_check_points", BlockShape::threads(128));
    for threads in [0, 129, 2048] {
        let problem = refused::<Words>(&module, "selftest_words", BlockShape::threads(threads));
        assert!(problem.contains("threads"), "{problem}");
    }
    let block = BlockShape { threads: 128, shared_bytes: 1 << 20 };
    let problem = refused::<Words>(&module, "selftest_words", block);
    assert!(problem.contains("shared memory"), "{problem}");
    let problem =
        refused::<(u32, DevicePtr<u32>)>(&module, "selftest_words", BlockShape::threads(128));
    assert!(problem.contains("parameters"), "{problem}");
    assert!(context.is_alive());
}

#[test]
fn timed_events_measure_the_work_between_them() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let begun = stream.record_timed().unwrap();
    let lease = rig.upload(&stream, &vec![7; 1 << 20]);
    let ended = stream.record_timed().unwrap();
    ended.synchronize().unwrap();
    assert!(begun.is_reached().unwrap() && ended.is_reached().unwrap());
    // A missing measurement would give zero.
    assert!(ended.elapsed_since(&begun).unwrap().as_nanos() > 0);
    drop(lease);
}

#[test]
fn blocks_are_bounded_by_threads_shared_memory_and_their_number() {
    let limits = DeviceLimits::H200;
    let blocks =
        |threads, shared_bytes| limits.resident_blocks(BlockShape { threads, shared_bytes });
    assert_eq!(blocks(1024, 0), 2);
    assert_eq!(blocks(1024, 113 << 10), 2);
    assert_eq!(blocks(1024, 114 << 10), 1);
    assert_eq!(blocks(128, 227 << 10), 1);
    assert_eq!(blocks(128, 228 << 10), 0);
    assert_eq!(blocks(32, 0), 32);
    assert_eq!(limits.resident_threads(BlockShape::threads(128), 2), 132 * 256);
}
