//! Uploads and downloads through the ring of pinned memory.

use std::{sync::Barrier, thread, time::Duration};

use capstan::device::{CopySession, DeviceFault, FaultClass};
use rand::{RngCore, SeedableRng, rngs::StdRng};

use crate::rig::{DeviceRig, control, each_seed, on_emulated_driver};

const PATIENCE: Duration = Duration::from_secs(60);

pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    StdRng::seed_from_u64(seed).fill_bytes(&mut noise);
    noise
}

#[test]
fn data_larger_than_the_ring_round_trips() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        let stream = rig.stream();
        let chunk = rig.gpu.ring().chunk_bytes();
        for bytes in [0, 1, 255, chunk, chunk + 1, 9 * chunk + 12_345] {
            let sent = noise(bytes as u64, bytes);
            let lease = rig.upload(&stream, &sent);
            assert!(rig.download(&stream, &lease) == sent, "{bytes} bytes");
        }
    });
}

#[test]
fn concurrent_uploads_do_not_mix() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let stream = rig.stream();
                    let sent = noise(seed, 5 * rig.gpu.ring().chunk_bytes() / 2);
                    let lease = rig.gpu.arena().lease(&stream, sent.len() as u64).unwrap();
                    let mut upload = rig.gpu.ring().upload(&stream, lease.all());
                    for part in sent.chunks(1_000_003) {
                        upload.write(part).unwrap();
                    }
                    assert!(rig.download(&stream, &lease) == sent, "thread {seed}");
                });
            }
        });
    });
}

#[test]
fn another_stream_can_wait_for_an_upload() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        let (copies, compute) = (rig.stream(), rig.stream());
        let sent = noise(9, 3 << 20);
        let lease = rig.gpu.arena().lease(&copies, sent.len() as u64).unwrap();
        let mut upload = rig.gpu.ring().upload(&copies, lease.all());
        upload.write(&sent).unwrap();
        compute.wait_event(&copies.record().unwrap()).unwrap();
        assert!(rig.download(&compute, &lease) == sent);
    });
}

/// Wiping is slower than the link, so it happens once, at the end of a job: the job's next upload
/// gets its chunks unwiped.
#[test]
fn chunks_are_wiped_at_the_end_of_a_job() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let bytes = 8 * rig.gpu.ring().chunk_bytes();
    let lease = rig.gpu.arena().lease(&stream, bytes as u64).unwrap();
    let found = |copies: &CopySession| {
        let (mut first, mut largest) = (Vec::new(), 0);
        let fill = |chunks: &mut [&mut [u8]]| {
            largest = largest.max(chunks.len());
            for chunk in chunks {
                first.push(chunk[0]);
                chunk.fill(7);
            }
            Ok::<_, DeviceFault>(())
        };
        copies.upload(&stream, lease.all()).fill_idle_chunks(bytes, fill).unwrap();
        stream.synchronize().unwrap();
        assert!(largest > 1, "chunks were filled one by one");
        first
    };
    let copies = rig.gpu.ring().session();
    assert_eq!(found(&copies), [0; 8]);
    assert_eq!(found(&copies), [7; 8]);
    drop(copies);
    assert_eq!(found(&rig.gpu.ring().session()), [0; 8]);
}

/// If no event can mark the end of a copy, its chunk is still not wiped before the copy ends.
#[test]
fn wiping_does_not_overtake_a_copy_without_an_event() {
    on_emulated_driver(PATIENCE, |rig| {
        let (stream, sent) = (rig.stream(), noise(4, 1 << 20));
        let lease = rig.gpu.arena().lease(&stream, sent.len() as u64).unwrap();
        for call in ["cuEventCreate", "cuEventRecord"] {
            let copies = rig.gpu.ring().session();
            control::fault(&format!("{call}:1:2"));
            let error = copies.upload(&stream, lease.all()).write(&sent).unwrap_err();
            assert_eq!(error.class(), FaultClass::Exhausted, "{call}: {error}");
            drop(copies);
            assert!(rig.download(&stream, &lease) == sent, "{call}: the copy read wiped bytes");
        }
    });
}

#[test]
fn writing_beyond_the_end_is_refused() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let lease = rig.gpu.arena().lease(&stream, 100).unwrap();
    let mut upload = rig.gpu.ring().upload(&stream, lease.all());
    upload.write(&[1; 60]).unwrap();
    let error = upload.write(&[2; 41]).unwrap_err();
    assert_eq!(error.class(), FaultClass::Misuse);
    upload.write(&[3; 40]).unwrap();
    drop(upload);
    assert_eq!(rig.download(&stream, &lease), [[1; 60].as_slice(), &[3; 40]].concat());
}

#[test]
fn an_error_of_the_consumer_stops_the_download() {
    let rig = DeviceRig::new();
    let stream = rig.stream();
    let sent = noise(3, 10 * rig.gpu.ring().chunk_bytes());
    let lease = rig.upload(&stream, &sent);
    let mut taken = 0;
    let stop = |bytes: &[u8]| {
        taken += bytes.len();
        Err(DeviceFault::WrongResult("enough".into()))
    };
    let error = rig.gpu.ring().download(&stream, lease.all(), stop).unwrap_err();
    assert_eq!(
        (error, taken),
        (DeviceFault::WrongResult("enough".into()), rig.gpu.ring().chunk_bytes())
    );
    assert!(rig.download(&stream, &lease) == sent, "the ring lost a chunk");
}

#[test]
fn a_wait_for_chunks_ends() {
    on_emulated_driver(Duration::from_secs(5), |rig| {
        let (ring, arena) = (rig.gpu.ring(), rig.gpu.arena());
        // Two uploads hold half of the chunks each until the third one has given up.
        let (are_held, is_over) = (Barrier::new(3), Barrier::new(3));
        let half = 4 * ring.chunk_bytes();
        let hold = || {
            let stream = rig.stream();
            let lease = arena.lease(&stream, half as u64).unwrap();
            let mut upload = ring.upload(&stream, lease.all());
            let _disabled = upload.fill_idle_chunks(half, |chunks| {
                assert_eq!(chunks.len(), 4);
                are_held.wait();
                is_over.wait();
                Ok::<_, DeviceFault>(())
            });
        };
        thread::scope(|scope| {
            scope.spawn(hold);
            scope.spawn(hold);
            let stream = rig.stream();
            let lease = arena.lease(&stream, 1).unwrap();
            are_held.wait();
            let given_up = ring.upload(&stream, lease.all()).write(&[1]);
            is_over.wait();
            assert!(matches!(given_up, Err(DeviceFault::Hang(_))), "{given_up:?}");
        });
    });
}
