//! Injected faults: which call reports them, and how long they last.

use std::{thread, time::Duration};

use cudarc::driver::{CudaContext, result};

use crate::{
    arguments,
    rig::{DeviceWords, EmulatedGpu, error_code, kernel},
};

#[test]
fn only_the_chosen_allocation_fails() {
    let gpu = EmulatedGpu::new(0);
    gpu.fault("allocation:3:2");
    let codes: Vec<_> = (0..5).map(|_| error_code(&DeviceWords::new(1))).collect();
    assert_eq!(codes, [0, 0, 2, 0, 0]);
    gpu.fault("cuMemAlloc:1:2,cuMemAllocAsync:1:2");
    assert_eq!(error_code(&DeviceWords::new(1)), 2);
    let stream = gpu.stream();
    // SAFETY: nothing is allocated.
    assert_eq!(error_code(&unsafe { result::malloc_async(stream.cu_stream(), 4) }), 2);
}

/// As on a GPU, the launch succeeds, and every later call reports the fault.
#[test]
fn a_kernel_fault_is_reported_late_and_sticks_until_the_reset() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words) = (gpu.stream(), gpu.words(4));
    let scale = gpu.kernel("memory", "scale");
    gpu.fault("launch:2:700");
    for _ in 0..2 {
        scale.launch(&stream, (1, 4, 0), arguments![words.address, 4u32, 1u32]).unwrap();
    }
    assert_eq!(error_code(&stream.synchronize()), 700);
    assert_eq!(error_code(&words.read(&stream)), 700);
    assert_eq!(error_code(&DeviceWords::new(1)), 700);
    assert_eq!(error_code(&words.free()), 700);
    gpu.reset();
    let context = CudaContext::new(0).unwrap();
    DeviceWords::new(1).unwrap();
    context.synchronize().unwrap();
}

#[test]
fn a_fault_of_an_event_is_reported_by_the_call_that_waits() {
    let gpu = EmulatedGpu::new(0);
    let stream = gpu.stream();
    gpu.fault("cuEventRecord:2:700");
    stream.record_event(None).unwrap();
    stream.synchronize().unwrap();
    stream.record_event(None).unwrap();
    assert_eq!(error_code(&stream.synchronize()), 700);
    gpu.reset();
}

#[test]
fn a_refused_launch_does_not_stick() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words) = (gpu.stream(), gpu.words(4));
    words.zero(&stream).unwrap();
    let scale = gpu.kernel("memory", "scale");
    gpu.fault("scale:1:701");
    let given = arguments![words.address, 4u32, 1u32];
    assert_eq!(error_code(&scale.launch(&stream, (1, 4, 0), given)), 701);
    scale.launch(&stream, (1, 4, 0), given).unwrap();
    assert_eq!(words.read(&stream).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn copies_and_module_loads_can_fail() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words) = (gpu.stream(), gpu.words(4));
    gpu.fault("cuModuleLoadData:1:209,copy:2:214");
    assert_eq!(error_code(&kernel("memory", "scale")), 209);
    kernel("memory", "scale").unwrap();
    words.write(&stream, &[1; 4]).unwrap();
    let second = words.write(&stream, &[2; 4]);
    assert_eq!(error_code(&second.and_then(|()| stream.synchronize())), 214);
}

#[test]
fn a_flipped_bit_is_not_reported() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words, other) = (gpu.stream(), gpu.words(4), gpu.words(1));
    words.zero(&stream).unwrap();
    let scale = gpu.kernel("memory", "scale");
    let next = gpu.kernel("memory", "next");
    gpu.fault("scale:2:flip,next:1:flip1,copy:2:flip");
    for _ in 0..3 {
        scale.launch(&stream, (1, 4, 0), arguments![words.address, 4u32, 2u32]).unwrap();
    }
    // 0 1 2 3; then 0 3 6 9 with the first bit flipped: 1 3 6 9; then twice each plus its index.
    assert_eq!(words.read(&stream).unwrap(), [2, 7, 14, 21]);
    next.launch(&stream, (1, 1, 0), arguments![other.address, words.address]).unwrap();
    // `copy:2:flip` changes the copy's destination only, `next:1:flip1` the kernel's input.
    assert_eq!(other.read(&stream).unwrap(), [3 ^ 1]);
    assert_eq!((other.read(&stream).unwrap(), words.read(&stream).unwrap()[0]), (vec![3], 3));
}

#[test]
fn any_call_of_a_device_can_fail_and_any_byte_can_be_flipped() {
    let gpu = EmulatedGpu::new(0);
    gpu.fault("any@1:1:2,any@0:2:2");
    let all: Vec<_> = (0..3).map(|_| DeviceWords::new(1)).collect();
    assert_eq!(all.iter().map(error_code).collect::<Vec<_>>(), [0, 2, 0]);
    let (stream, words) = (gpu.stream(), gpu.words(4));
    words.zero(&stream).unwrap();
    let scale = gpu.kernel("memory", "scale");
    gpu.fault("scale:1:flip0+8");
    scale.launch(&stream, (1, 4, 0), arguments![words.address, 4u32, 2u32]).unwrap();
    assert_eq!(words.read(&stream).unwrap(), [0, 1, 2 ^ 1, 3]);
}

#[test]
fn unknown_modules_and_kernels_are_refused() {
    let _gpu = EmulatedGpu::new(0);
    assert_eq!(error_code(&kernel("no/such", "scale")), 209);
    assert_eq!(error_code(&kernel("memory", "no_such")), 500);
    assert_eq!(error_code(&kernel("threads", "scale")), 500);
}

#[test]
fn a_launch_hangs_until_the_device_is_reset() {
    for seed in [0, 1] {
        let gpu = EmulatedGpu::new(seed);
        let (stream, other) = (gpu.stream(), gpu.stream());
        let words = gpu.words(4);
        let scale = gpu.kernel("memory", "scale");
        gpu.fault("scale:1:hang");
        scale.launch(&stream, (1, 4, 0), arguments![words.address, 4u32, 1u32]).unwrap();
        let event = stream.record_event(None).unwrap();
        // Other streams still run, and the event is not complete.
        let others = gpu.words(1);
        others.zero(&other).unwrap();
        assert_eq!(others.read(&other).unwrap(), [0]);
        for _ in 0..100 {
            assert!(!event.try_is_complete().unwrap());
        }
        let context = gpu.context.clone();
        let waiter = thread::spawn(move || {
            context.bind_to_thread().unwrap();
            error_code(&stream.synchronize())
        });
        thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        gpu.reset();
        assert_ne!(waiter.join().unwrap(), 0);
    }
}
