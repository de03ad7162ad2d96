//! Uploads through the pinned ring: the link alone, and with copies into the ring by many threads.

use std::time::Instant;

use capstan::device::DeviceFault;
use rayon::prelude::*;

use crate::{
    record::{RateFigure, Record},
    rig::{BenchRig, Random},
};

/// Bytes per task of the copying threads.
const GRAIN: usize = 256 << 10;

/// Measures by the host's clock, from the first byte until the last one has arrived.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let bytes: usize = rig.size(4 << 30, 32 << 20);
    let lease = rig.lease::<u8>(bytes);
    let mut random = Random(5);
    let source: Vec<u64> = (0..rig.size(1 << 25, 1 << 20)).map(|_| random.next()).collect();
    let source: &[u8] = bytemuck::cast_slice(&source);
    let run = |copies: bool| {
        let begun = Instant::now();
        let mut upload = rig.gpu.ring().upload(&rig.stream, lease.all());
        let mut done = 0;
        let fill = |chunks: &mut [&mut [u8]]| {
            for chunk in chunks {
                let from = done % source.len();
                if copies {
                    let pieces = source[from..from + chunk.len()].par_chunks(GRAIN);
                    chunk.par_chunks_mut(GRAIN).zip(pieces).for_each(|(to, from)| {
                        to.copy_from_slice(from);
                    });
                }
                done += chunk.len();
            }
            Ok::<_, DeviceFault>(())
        };
        upload.fill_idle_chunks(bytes, fill).expect("an upload");
        rig.stream.synchronize().expect("all arrives");
        begun.elapsed()
    };
    let figure = |copies: bool, how: &str| {
        let times = (0..=rig.repeats).map(|_| run(copies)).skip(1).collect();
        let count = bytes as u64;
        RateFigure { op: "upload", mode: "device", count, times, unit: "GB/s", details: how.into() }
    };
    record.record_rate(&figure(false, "the ring's old content"));
    record.print_rate(&figure(true, "copied into the ring by all threads"));
    let all = lease.all::<u8>();
    for at in [0, bytes / 2, bytes - (1 << 20)] {
        let found = rig.get(all.slice(at, 1 << 20).expect("inside"));
        let from = at % source.len();
        assert!(found == source[from..from + found.len()], "wrong bytes at {at}");
    }
}
