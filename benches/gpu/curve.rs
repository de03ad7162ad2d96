//! Additions of points: batched affine additions with a shared inversion, and XYZZ += affine.

mod batched;
mod xyzz;

use ark_bls12_381::{G1Projective, G2Projective};

use crate::{points::Points, record::Record, rig::Rig};

/// Bytes of a piece (`Quad`) of scratch memory.
const PIECE: usize = 16;

/// The top bit of a reference: the point is subtracted.
const SIGN: u32 = 1 << 31;

/// Points of the large table: 12 tables of 2^24 points, 19 GB in G1.
const LARGE: usize = 12 << 24;

pub fn measure(rig: &Rig, record: &mut Record) {
    let points = Points::<G1Projective>::new(rig.size(1 << 20, 1 << 8));
    record.keep_best(batched::neighbours(rig, &points, &batched::G1));
    let size = rig.size(1 << 24, 1 << 9);
    let small = points.table(rig, size, 0);
    for kernel in [&batched::G1, &batched::G1_ONCE] {
        let figures = batched::gathered(rig, &points, kernel, &small, size);
        figures.iter().for_each(|figure| record.show(figure));
    }
    record.keep(&xyzz::measure(rig, &points, &small, xyzz::G1));
    drop(small);
    let size = rig.size(LARGE, 1 << 9);
    let large = points.table(rig, size, 0);
    let mut figures = batched::gathered(rig, &points, &batched::G1, &large, size);
    figures.extend(batched::gathered(rig, &points, &batched::G1_ONCE, &large, size));
    record.keep_best(figures);
    record.show(&xyzz::measure(rig, &points, &large, xyzz::G1));
    drop(large);

    let points = Points::<G2Projective>::new(rig.size(1 << 19, 1 << 8));
    record.keep_best(batched::neighbours(rig, &points, &batched::G2));
    let table = points.table(rig, rig.size(1 << 23, 1 << 9), 0);
    record.keep(&xyzz::measure(rig, &points, &table, xyzz::G2));
}
