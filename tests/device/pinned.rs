//! Direct copies from and to pinned memory; other memory is refused.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use capstan::{
    buffer::{ByteSource, PayloadPool, PayloadView, UploadBuffer},
    curve::{Fr, layout::fr_as_bytes_mut, scalars::ScalarEncoding},
    device::{self, DeviceFault, DeviceSlice, FaultClass, Stream, receive},
    engine::{EncodedScalars, JobControl, MsmNttEngine, NttRows, cpu::ArkworksEngine},
    region::{DeviceAccess, DeviceBytes, SharedMemory},
};

use crate::{
    rig::{DeviceRig, control, each_seed, on_emulated_driver},
    ring::noise,
    transforms,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Memory that is pinned until the second value is dropped.
fn pinned(rig: &DeviceRig, bytes: usize) -> (Arc<SharedMemory>, impl Sized) {
    let memory = Arc::new(SharedMemory::create(bytes).unwrap());
    let pinning = rig.gpu.context().pin_shared(memory.clone(), bytes).unwrap();
    assert_eq!(memory.pinned_bytes(), bytes);
    (memory, pinning)
}

fn send(
    stream: &Stream,
    to: DeviceSlice<'_, u8>,
    from: &[DeviceBytes<'_>],
) -> Result<(), DeviceFault> {
    device::send(stream, to, from, || Ok(()))
}

#[test]
fn pieces_are_copied_in_order() {
    let rig = DeviceRig::new();
    let (memory, _pinning) = pinned(&rig, 3 << 20);
    each_seed(&rig, |rig| {
        let stream = rig.stream();
        let sent = noise(5, 1 << 20);
        memory.write(0, &sent);
        let cuts = [0, 1, 4096, 70_000, 70_000, 1 << 20];
        let cuts = cuts.windows(2);
        let pieces: Vec<_> = cuts.map(|cut| memory.for_device(cut[0], cut[1] - cut[0])).collect();
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        send(&stream, lease.all(), &pieces).unwrap();
        assert!(rig.download(&stream, &lease) == sent);
        // Receive into every other KiB.
        let starts = ((1 << 20)..(3 << 20)).step_by(2048);
        let pieces: Vec<_> = starts.clone().map(|start| memory.for_device(start, 1024)).collect();
        receive(&stream, lease.all(), &pieces).unwrap();
        let mut back = Vec::new();
        starts.for_each(|start| memory.append_to(&mut back, start, 1024));
        assert!(back == sent);
    });
}

/// One call of the driver pins at most 256 MiB.
#[test]
fn a_piece_may_span_memory_that_two_calls_have_pinned() {
    const BORDER: usize = 256 << 20;
    on_emulated_driver(PATIENCE, |rig| {
        let memory =
            Arc::new(SharedMemory::create_sparse(2 * BORDER, 0, DeviceAccess::ReadWrite).unwrap());
        let context = rig.gpu.context();
        let pinning = context.pin_shared(memory.clone(), 2 * BORDER).unwrap();
        assert!(memory.pinned_bytes() >= BORDER);
        let begun = Instant::now();
        while memory.pinned_bytes() < 2 * BORDER {
            assert!(begun.elapsed() < PATIENCE, "the rest is not pinned");
            thread::sleep(Duration::from_millis(1));
        }
        let (stream, sent) = (rig.stream(), noise(8, 1 << 20));
        let start = BORDER - 70_000;
        memory.write(start, &sent);
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        send(&stream, lease.all(), &[memory.for_device(start, 1 << 20)]).unwrap();
        assert!(rig.download(&stream, &lease) == sent);
        drop(pinning);
        assert_eq!(memory.pinned_bytes(), 0);
        // Dropped while the rest is pinned. Pages that stay pinned could not be pinned again.
        for _ in 0..2 {
            drop(context.pin_shared(memory.clone(), 2 * BORDER).unwrap());
            assert_eq!(memory.pinned_bytes(), 0);
            let gone = send(&stream, lease.all(), &[memory.for_device(start, 1 << 20)]);
            assert!(gone.unwrap_err().to_string().contains("not pinned"));
        }
        // The driver refuses the second call.
        control::fault("cuMemHostRegister:2:2");
        let _pinning = context.pin_shared(memory.clone(), 2 * BORDER).unwrap();
        // It comes meanwhile.
        for _ in 0..100 {
            assert_eq!(memory.pinned_bytes(), BORDER);
            thread::sleep(Duration::from_millis(2));
        }
        let beyond = send(&stream, lease.all(), &[memory.for_device(start, 1 << 20)]);
        assert!(beyond.unwrap_err().to_string().contains("not pinned"));
    });
}

/// Devices read and write memory that another process has mapped, until it is unpinned.
#[test]
fn shared_memory_is_copied_directly_while_it_is_pinned() {
    let rig = DeviceRig::new();
    let memory = Arc::new(SharedMemory::create(2 << 20).unwrap());
    for _ in 0..2 {
        let pinned = rig.gpu.context().pin_shared(memory.clone(), 2 << 20).unwrap();
        each_seed(&rig, |rig| {
            let (stream, sent) = (rig.stream(), noise(7, 1 << 20));
            memory.write(100, &sent);
            let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
            send(&stream, lease.all(), &[memory.for_device(100, 1 << 20)]).unwrap();
            assert!(rig.download(&stream, &lease) == sent);
            memory.write(100, &vec![0; 1 << 20]);
            receive(&stream, lease.all(), &[memory.for_device(99, 1 << 20)]).unwrap();
            let mut received = vec![0; 1 << 20];
            memory.read(99, &mut received);
            assert!(received == sent);
        });
        drop(pinned);
        let stream = rig.stream();
        let lease = rig.gpu.arena().lease(&stream, 4096).unwrap();
        let refused = send(&stream, lease.all(), &[memory.for_device(0, 4096)]).unwrap_err();
        assert!(refused.to_string().contains("not pinned"), "{refused}");
    }
}

/// If the driver pins no shared memory, the device stays usable.
#[test]
fn a_refused_pin_harms_nothing() {
    on_emulated_driver(PATIENCE, |rig| {
        let memory = Arc::new(SharedMemory::create(2 << 20).unwrap());
        control::fault("cuMemHostRegister:1:999");
        assert!(rig.gpu.context().pin_shared(memory.clone(), 2 << 20).is_err());
        assert!(rig.gpu.context().is_alive());
        drop(rig.gpu.context().pin_shared(memory, 2 << 20).unwrap());
    });
}

/// If no event can mark the end of a copy, the borrow of the memory still ends after the copy.
#[test]
fn a_send_waits_for_its_copies_if_it_gets_no_event() {
    on_emulated_driver(PATIENCE, |rig| {
        let (memory, _pinning) = pinned(rig, 1 << 20);
        let (stream, sent) = (rig.stream(), noise(6, 1 << 20));
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        memory.write(0, &sent);
        control::fault("cuEventCreate:1:2");
        let error = send(&stream, lease.all(), &[memory.for_device(0, 1 << 20)]).unwrap_err();
        assert_eq!(error.class(), FaultClass::Exhausted, "{error}");
        memory.wipe(0, 1 << 20);
        assert!(
            rig.download(&stream, &lease) == sent,
            "the copy read bytes written after the send"
        );
    });
}

/// The borrow of the memory ends after the copy, whatever the caller does meanwhile.
#[test]
fn a_send_waits_for_its_copies_if_the_work_meanwhile_fails() {
    on_emulated_driver(PATIENCE, |rig| {
        let (memory, _pinning) = pinned(rig, 1 << 20);
        let (stream, sent) = (rig.stream(), noise(7, 1 << 20));
        let lease = rig.gpu.arena().lease(&stream, 1 << 20).unwrap();
        let send = |meanwhile: &dyn Fn() -> Result<u8, DeviceFault>| {
            memory.write(0, &sent);
            let source = [memory.for_device(0, 1 << 20)];
            let send = || device::send(&stream, lease.all(), &source, meanwhile);
            let done = catch_unwind(AssertUnwindSafe(send));
            memory.wipe(0, 1 << 20);
            assert!(rig.download(&stream, &lease) == sent, "the copy read bytes written after it");
            done
        };
        let fault =
            || DeviceFault::KernelMismatch { kernel: "work".into(), problem: "it fails".into() };
        assert!(matches!(send(&|| Ok(7)), Ok(Ok(7))));
        let error = send(&|| Err(fault())).expect("no panic").unwrap_err();
        assert_eq!(error.to_string(), fault().to_string());
        send(&|| panic!("the work panics")).expect_err("the panic goes on");
    });
}

#[test]
fn unpinned_memory_and_wrong_lengths_are_refused() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let (memory, _pinning) = pinned(&rig, 4096);
    let lease = rig.gpu.arena().lease(&stream, 4096).unwrap();
    let other = SharedMemory::create(4096).unwrap();
    for (error, why) in [
        (
            send(&stream, lease.all(), &[memory.for_device(0, 4095), other.for_device(0, 1)]),
            "not pinned",
        ),
        (send(&stream, lease.all(), &[memory.for_device(1, 4095)]), "4095 bytes"),
        (receive(&stream, lease.all(), &[other.for_device(0, 4096)]), "not pinned"),
        (receive(&stream, lease.all(), &[]), "0 bytes"),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.class(), FaultClass::Misuse);
        assert!(error.to_string().contains(why), "{error}");
    }
    send(&stream, lease.all(), &[memory.for_device(0, 4096)]).unwrap();
}

/// The payloads' ends are not in pinned memory. Rows do not start at the borders of blocks.
#[test]
fn transforms_read_and_write_partly_pinned_payloads() {
    const LG_N: u32 = 12;
    const COUNT: usize = 130;
    /// One and a half blocks.
    const PINNED: usize = 24 << 20;
    let rig = DeviceRig::new();
    let engine = transforms::engine(&rig);
    let pool = PayloadPool::new(0, PINNED as u64).unwrap();
    pool.hold_pinning(engine.pin_memory(pool.memory(), PINNED).unwrap());
    let mut rows = transforms::rows(LG_N, COUNT);
    let bytes = (COUNT as u64) << (LG_N + 5);
    let (input, output) = (
        UploadBuffer::new(&pool, bytes + 96, vec![]),
        UploadBuffer::new(&pool, bytes + 32, vec![]),
    );
    // The first block, all of which is pinned.
    output.place(0..1).unwrap();
    let from = PayloadView::starting_at(&input, 96);
    for (row, at) in iter::zip(&mut rows, (96..).step_by(32 << LG_N)) {
        input.write(at, fr_as_bytes_mut(row)).unwrap();
    }
    input.write(0, &[0; 96]).unwrap();
    let direct = from.device_source(0..bytes).map(|slices| slices.bytes());
    assert_eq!(direct, Some((8 << 20) - 96), "half of the input's first block is pinned");
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
