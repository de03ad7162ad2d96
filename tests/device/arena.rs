//! Leases of device memory are zeroed, bounded and reusable.

use std::{thread, time::Duration};

use capstan::device::{self, ALIGN, DeviceFault, FaultClass, OpenOptions};
use rand::{Rng as _, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::{
    emulated,
    rig::{DeviceRig, control, each_seed, first_device, on_emulated_driver, options},
};

#[test]
fn new_leases_are_zeroed() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        let (first, second) = (rig.stream(), rig.stream());
        for round in 0..4 {
            // The arena hands out the same memory again, on the other stream.
            let (stream, other) =
                if round % 2 == 0 { (&first, &second) } else { (&second, &first) };
            let lease = rig.upload(stream, &vec![0xa5; 100_000]);
            drop(lease);
            let lease = rig.gpu.arena().lease(other, 100_000).unwrap();
            assert!(rig.download(other, &lease).iter().all(|&byte| byte == 0), "round {round}");
        }
    });
}

#[test]
fn reuse_waits_for_other_streams_that_used_the_lease() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        let (owner, guest, reader) = (rig.stream(), rig.stream(), rig.stream());
        let lease = rig.gpu.arena().lease(&owner, 50_000).unwrap();
        // Write on another stream, do not wait for it, and drop the lease at once.
        let mut upload = rig.gpu.ring().upload(&guest, lease.all());
        upload.write(&vec![0x5a; 50_000]).unwrap();
        drop(upload);
        drop(lease);
        let lease = rig.gpu.arena().lease(&reader, 50_000).unwrap();
        assert!(rig.download(&reader, &lease).iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_full_arena_refuses_a_lease_and_stays_usable() {
    let rig = DeviceRig::new();
    let (arena, stream) = (rig.gpu.arena(), rig.stream());
    let whole = arena.bytes();
    assert_eq!(arena.free_bytes(), whole);
    let half = arena.lease(&stream, whole / 2).unwrap();
    let error = arena.lease(&stream, whole).err().unwrap();
    let DeviceFault::OutOfMemory { requested_bytes, free_bytes, .. } = error else {
        panic!("{error}")
    };
    assert!(requested_bytes == whole && free_bytes < whole);
    assert_eq!(error.class(), FaultClass::Exhausted);
    assert!(arena.lease(&stream, u64::MAX).is_err());
    assert!(rig.gpu.context().is_alive());
    drop(half);
    assert_eq!(arena.free_bytes(), whole);
    drop(arena.lease(&stream, whole).unwrap());
    assert_eq!(rig.faults.lock().unwrap().len(), 2);
}

#[test]
fn refused_calls_neither_withhold_memory_nor_leave_data_in_it() {
    const BYTES: usize = 400 * ALIGN as usize;
    on_emulated_driver(Duration::from_secs(60), |rig| {
        each_seed(rig, |rig| {
            let (arena, owner, guest) = (rig.gpu.arena(), rig.stream(), rig.stream());
            // All leases get the same memory.
            let _others = arena.lease(&owner, arena.bytes() - BYTES as u64).unwrap();
            for (faults, calls) in [
                // The first wait is that of its return, the second one that of the next lease.
                ("cuStreamWaitEvent:1:2", 1),
                ("cuStreamWaitEvent:2:2", 2),
                ("cuEventCreate:1:2", 1),
                ("cuEventRecord:1:2", 1),
                ("memset:1:2", 1),
                ("memset:1:2,memset:2:2", 2),
            ] {
                let lease = arena.lease(&owner, BYTES as u64).unwrap();
                let mut upload = rig.gpu.ring().upload(&guest, lease.all());
                upload.write(&vec![0xa5; BYTES]).unwrap();
                drop(upload);
                control::fault(faults);
                drop(lease);
                drop(arena.lease(&guest, BYTES as u64));
                assert!(control::calls() >= calls, "{faults}");
                control::fault("");
                let lease = arena.lease(&guest, BYTES as u64).unwrap();
                let is_zero = rig.download(&guest, &lease).iter().all(|byte| *byte == 0);
                assert!(is_zero, "{faults}");
                drop(lease);
                assert_eq!(arena.free_bytes(), BYTES as u64, "{faults}");
            }
        });
    });
}

#[test]
fn freed_leases_coalesce() {
    let rig = DeviceRig::new();
    let (arena, stream) = (rig.gpu.arena(), rig.stream());
    let mut rng = StdRng::seed_from_u64(5);
    let mut leases = Vec::new();
    while arena.free_bytes() > arena.bytes() / 4 {
        let bytes = rng.random_range(0..arena.bytes() / 50);
        let Ok(lease) = arena.lease(&stream, bytes) else { break };
        assert_eq!(lease.bytes(), bytes);
        leases.push(lease);
    }
    leases.shuffle(&mut rng);
    leases.truncate(leases.len() / 2);
    drop(leases);
    assert_eq!(arena.free_bytes(), arena.bytes());
    drop(arena.lease(&stream, arena.bytes() / ALIGN * ALIGN).unwrap());
}

#[test]
fn an_arena_waits_for_memory_that_is_freed_soon() {
    if emulated::driver().is_none() {
        return println!("skipped: another process may use the GPU");
    }
    let rig = DeviceRig::new();
    let open = |memory_percent, memory_wait| {
        let (ample, _) = options(Duration::from_secs(60));
        let ample = OpenOptions { memory_percent, memory_wait, ..ample };
        device::open(&first_device(), &ample).unwrap().gpus.remove(0)
    };
    let first = open(60, Duration::ZERO);
    let small = open(60, Duration::ZERO);
    assert!(small.arena().bytes() < first.arena().bytes() / 2);
    drop(small);
    let bytes = thread::scope(|scope| {
        let second = scope.spawn(|| open(60, Duration::from_secs(600)).arena().bytes());
        thread::sleep(Duration::from_millis(200));
        assert!(!second.is_finished());
        let bytes = first.arena().bytes();
        drop(first);
        assert_eq!(second.join().unwrap(), bytes);
        bytes
    });
    assert!(bytes > rig.gpu.arena().bytes());
}
