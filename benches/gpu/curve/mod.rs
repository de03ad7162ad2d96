//! Additions of points: batched affine additions with a shared inversion, and XYZZ += affine.

mod batched;
mod xyzz;

use ark_bls12_381::{G1Projective, G2Projective};

use crate::{points::KnownPoints, record::Record, rig::BenchRig};

/// Bytes of a piece (`Quad`) of scratch memory.
const PIECE: usize = 16;

/// The top bit of a reference: the point is subtracted.
const SIGN: u32 = 1 << 31;

/// Points of the large table: 12 tables of 2^24 points, 19 GB in G1.
const LARGE: usize = 12 << 24;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let points = KnownPoints::<G1Projective>::new(rig.size(1 << 20, 1 << 8));
    record.record_best(batched::neighbours(rig, &points, &batched::G1));
    let size = rig.size(1 << 24, 1 << 9);
    let small = points.table(rig, size, 0);
    for kernel in [&batched::G1, &batched::G1_ONCE] {
        let figures = batched::gathered(rig, &points, kernel, &small, size);
        figures.iter().for_each(|figure| record.print_rate(figure));
    }
    record.record_rate(&xyzz::measure(rig, &points, &small, &xyzz::G1));
    drop(small);
    let size = rig.size(LARGE, 1 << 9);
    let large = points.table(rig, size, 0);
    let mut figures = batched::gathered(rig, &points, &batched::G1, &large, size);
    figures.extend(batched::gathered(rig, &points, &batched::G1_ONCE, &large, size));
    record.record_best(figures);
    record.print_rate(&xyzz::measure(rig, &points, &large, &xyzz::G1));
    drop(large);

    let points = KnownPoints::<G2Projective>::new(rig.size(1 << 19, 1 << 8));
    record.record_best(batched::neighbours(rig, &points, &batched::G2));
    let table = points.table(rig, rig.size(1 << 23, 1 << 9), 0);
    record.record_rate(&xyzz::measure(rig, &points, &table, &xyzz::G2));
}
