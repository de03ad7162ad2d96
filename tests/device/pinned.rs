//! Direct copies from and to pinned memory; other memory is refused.

use std::{iter, sync::Arc, time::Duration};

use capstan::{
    buffer::{ByteSource, PayloadPool, PayloadView, UploadBuffer},
    curve::{Fr, layout::fr_as_bytes_mut, scalars::ScalarEncoding},
    device::{FaultClass, receive, send},
    engine::{EncodedScalars, JobControl, MsmNttEngine, NttRows, cpu::ArkworksEngine},
    region::SharedMemory,
};

use crate::{
    rig::{DeviceRig, control, each_seed, on_emulated_driver},
    ring::noise,
    transforms,
};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn pieces_are_copied_in_order() {
    let rig = DeviceRig::new();
    let memory = rig.gpu.context().pin(3 << 20).unwrap();
    assert!(memory.iter().all(|byte| *byte == 0));
    each_seed(&rig, |rig| {
        let stream = rig.stream();
        let sent = noise(5, 1 << 20);
        let (from, to) = memory.split_at_mut(1 << 20);
        from.copy_from_slice(&sent);
        let cuts = [0, 1, 4096, 70_000, 70_000, 1 << 20];
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &from[cut[0]..cut[1]]).collect();
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        send(&stream, lease.all(), &pieces).unwrap();
        assert!(rig.download(&stream, &lease) == sent);
        // Receive into every other KiB.
        let mut pieces: Vec<_> = to.chunks_mut(1024).step_by(2).collect();
        receive(&stream, lease.all(), &mut pieces).unwrap();
        let back: Vec<u8> = to.chunks(1024).step_by(2).flatten().copied().collect();
        assert!(back == sent);
    });
}

/// Devices read and write memory that another process has mapped, until it is unpinned.
#[test]
fn shared_memory_is_copied_directly_while_it_is_pinned() {
    let rig = DeviceRig::new();
    let memory = Arc::new(SharedMemory::create(2 << 20).unwrap());
    for _ in 0..2 {
        let pinned = rig.gpu.context().pin_shared(memory.clone()).unwrap();
        each_seed(&rig, |rig| {
            let (stream, sent) = (rig.stream(), noise(7, 1 << 20));
            memory.write(100, &sent);
            let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
            send(&stream, lease.all(), &[memory.device_source(100, 1 << 20)]).unwrap();
            assert!(rig.download(&stream, &lease) == sent);
            memory.write(100, &vec![0; 1 << 20]);
            receive(&stream, lease.all(), &mut [memory.device_destination(99, 1 << 20)]).unwrap();
            let mut received = vec![0; 1 << 20];
            memory.read(99, &mut received);
            assert!(received == sent);
        });
        drop(pinned);
        let stream = rig.stream();
        let lease = rig.gpu.arena().lease(&stream, 4096).unwrap();
        let refused = send(&stream, lease.all(), &[memory.device_source(0, 4096)]).unwrap_err();
        assert!(refused.to_string().contains("not pinned"), "{refused}");
    }
}

/// If the driver pins no shared memory, the device stays usable.
#[test]
fn a_refused_pin_harms_nothing() {
    on_emulated_driver(PATIENCE, |rig| {
        let memory = Arc::new(SharedMemory::create(2 << 20).unwrap());
        control::fault("cuMemHostRegister:1:999");
        assert!(rig.gpu.context().pin_shared(memory.clone()).is_err());
        assert!(rig.gpu.context().is_alive());
        drop(rig.gpu.context().pin_shared(memory).unwrap());
    });
}

/// If no event can mark the end of a copy, the borrow of the memory still ends after the copy.
#[test]
fn a_send_waits_for_its_copies_if_it_gets_no_event() {
    on_emulated_driver(PATIENCE, |rig| {
        let memory = rig.gpu.context().pin(1 << 20).unwrap();
        let (stream, sent) = (rig.stream(), noise(6, 1 << 20));
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        memory.copy_from_slice(&sent);
        control::fault("cuEventCreate:1:2");
        let error = send(&stream, lease.all(), &[memory]).unwrap_err();
        assert_eq!(error.class(), FaultClass::Exhausted, "{error}");
        memory.fill(0);
        assert!(
            rig.download(&stream, &lease) == sent,
            "the copy read bytes written after the send"
        );
    });
}

#[test]
fn unpinned_memory_and_wrong_lengths_are_refused() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let memory = rig.gpu.context().pin(4096).unwrap();
    let lease = rig.gpu.arena().lease(&stream, 4096).unwrap();
    let mut heap = vec![0; 4096];
    for (error, why) in [
        (send(&stream, lease.all(), &[&memory[..4095], &heap[..1]]), "not pinned"),
        (send(&stream, lease.all(), &[&memory[1..]]), "4095 bytes"),
        (receive(&stream, lease.all(), &mut [&mut heap]), "not pinned"),
        (receive(&stream, lease.all(), &mut []), "0 bytes"),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.class(), FaultClass::Misuse);
        assert!(error.to_string().contains(why), "{error}");
    }
    send(&stream, lease.all(), &[memory]).unwrap();
}

/// The payload's end is not in pinned memory. Rows do not start at segment boundaries.
#[test]
fn transforms_read_and_write_partly_pinned_payloads() {
    const LG_N: u32 = 12;
    const COUNT: usize = 130;
    let rig = DeviceRig::new();
    let engine = transforms::engine(&rig);
    engine.pin(48 << 20);
    let pool = PayloadPool::new(0, engine.take_pinned_memory());
    let mut rows = transforms::rows(LG_N, COUNT);
    let bytes = (COUNT as u64) << (LG_N + 5);
    let (input, output) = (
        UploadBuffer::new(&pool, bytes + 96, vec![]),
        UploadBuffer::new(&pool, bytes + 32, vec![]),
    );
    let from = PayloadView::starting_at(&input, 96);
    for (row, at) in iter::zip(&mut rows, (96..).step_by(32 << LG_N)) {
        input.write(at, fr_as_bytes_mut(row)).unwrap();
    }
    input.write(0, &[0; 96]).unwrap();
    let held = from.lock_pinned(0..bytes).map(|held| held.bytes());
    assert_eq!(held, Some((16 << 20) - 96), "one segment is in pinned memory");
    let plan = transforms::plan(LG_N, 0b0110);
    let encoding = ScalarEncoding::Montgomery;
    let given = NttRows {
        input: EncodedScalars::new(encoding, COUNT << LG_N, &from),
        count: COUNT,
        row_length: 1 << LG_N,
        encoding,
        output: &PayloadView::starting_at(&output, 32),
        check_on_device: true,
    };
    let executor = engine.ntt(&plan, &given, &JobControl::default()).unwrap();
    assert_eq!((executor.engine, executor.checked_on_device), ("cuda", true));
    assert!(output.has_received(32..bytes + 32));
    let oracle = ArkworksEngine::new(2).unwrap();
    oracle.ntt_in_place(&plan, &mut rows, &JobControl::default()).unwrap();
    for (row, at) in iter::zip(&rows, (32..).step_by(32 << LG_N)) {
        let mut found = vec![Fr::from(0); 1 << LG_N];
        output.read(at, fr_as_bytes_mut(&mut found));
        assert!(found == *row, "the row at {at}");
    }
}
