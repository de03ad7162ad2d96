//! Several devices, each with its own memory, peer access and events across devices.

use cudarc::driver::{CudaContext, result, sys};

use crate::{
    arguments,
    rig::{DEVICES, DeviceWords, EmulatedGpu, MEMORY_MIB, SEEDS, error_code, kernel},
};

#[test]
fn number_and_memory_of_devices_follow_the_settings() {
    let gpu = EmulatedGpu::new(0);
    assert_eq!(CudaContext::device_count().unwrap(), DEVICES as i32);
    assert_eq!(gpu.context.compute_capability().unwrap(), (9, 0));
    assert_eq!(gpu.context.total_mem().unwrap(), MEMORY_MIB << 20);
    assert_eq!(error_code(&CudaContext::new(DEVICES).map(|_| ())), 101);
    let uuids: Vec<_> =
        (0..DEVICES).map(|i| CudaContext::new(i).unwrap().uuid().unwrap().bytes).collect();
    assert!(uuids[0] != uuids[1] && uuids[1] != uuids[2]);
}

#[test]
fn memory_of_another_device_needs_peer_access() {
    for (peer, want) in [(false, 700), (true, 0)] {
        let gpu = EmulatedGpu::new(0);
        let words = gpu.words(4);
        words.zero(&gpu.stream()).unwrap();
        gpu.context.synchronize().unwrap();
        let second = CudaContext::new(1).unwrap();
        if peer {
            // SAFETY: the context is retained.
            unsafe { sys::cuCtxEnablePeerAccess(gpu.context.cu_ctx(), 0) }.result().unwrap();
        }
        let stream = second.new_stream().unwrap();
        let scale = crate::rig::RawKernel(kernel("memory", "scale").unwrap());
        scale.launch(&stream, (1, 4, 0), arguments![words.address, 4u32, 1u32]).unwrap();
        assert_eq!(error_code(&stream.synchronize()), want);
        // The other devices still work.
        gpu.context.synchronize().unwrap();
    }
}

#[test]
fn events_order_peer_copies() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let first = gpu.stream();
        let from = gpu.words(1000);
        from.zero(&first).unwrap();
        let scale = gpu.kernel("memory", "scale");
        scale.launch(&first, (4, 256, 0), arguments![from.address, 1000u32, 1u32]).unwrap();
        let done = first.record_event(None).unwrap();

        let context = CudaContext::new(1).unwrap();
        let second = context.new_stream().unwrap();
        let to = DeviceWords::new(1000).unwrap();
        second.wait(&done).unwrap();
        let contexts = (context.cu_ctx(), gpu.context.cu_ctx());
        // SAFETY: both ranges are live until the copy is done.
        unsafe {
            sys::cuMemcpyPeerAsync(
                to.address,
                contexts.0,
                from.address,
                contexts.1,
                4000,
                second.cu_stream(),
            )
        }
        .result()
        .unwrap();
        assert_eq!(to.read(&second).unwrap(), (0..1000).collect::<Vec<u32>>(), "seed {seed}");
    }
}

#[test]
fn dropping_the_last_owner_of_a_context_frees_its_memory() {
    let gpu = EmulatedGpu::new(0);
    let second = CudaContext::new(1).unwrap();
    DeviceWords::new(1 << 20).unwrap();
    assert_eq!(second.mem_get_info().unwrap().0, (MEMORY_MIB - 4) << 20);
    drop(second);
    assert_eq!(error_code(&result::mem_get_info()), 709);
    let second = CudaContext::new(1).unwrap();
    assert_eq!(second.mem_get_info().unwrap().0, MEMORY_MIB << 20);
    gpu.context.bind_to_thread().unwrap();
}
