//! Checks of points (canonical, on the curve, in the subgroup): `kernels/check/points.cu`.

use ark_bls12_381::G1Projective;
use capstan::device::{BlockShape, DevicePtr};

use crate::{
    points::{BenchGroup, KnownPoints},
    record::{RateFigure, Record},
    rig::BenchRig,
};

/// The kernel's code for points in Montgomery form.
const MONTGOMERY: u32 = 0;
/// The kernel's code of a point that is not on the curve.
const NOT_ON_CURVE: u64 = 2;
const THREADS: u32 = 128;

type Parameters = (DevicePtr<u8>, DevicePtr<u64>, u64, u32, u32);

/// Measures valid points of G1, then spoils one, which the kernel must find.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let block = BlockShape::threads(THREADS);
    let kernel = rig.kernel::<Parameters>("check/points", "g1_check_points", block);
    let points = KnownPoints::<G1Projective>::new(rig.size(1 << 20, 1 << 8));
    let mut figures = Vec::new();
    for times in rig.size(&[3, 6][..], &[1]) {
        let blocks = rig.size(rig.blocks(*times), 2);
        // A multiple of the grid's threads.
        let n = (blocks * THREADS) as usize * rig.size(16, 1);
        let table = points.table(rig, n, 0);
        let first_bad = rig.upload_new(&[u64::MAX]);
        let given = (table.all(), first_bad.all(), 0, n as u32, MONTGOMERY);
        let runs = rig.times(|| kernel.launch(&rig.stream, blocks, given));
        assert_eq!(rig.get::<u64>(first_bad.all()), [u64::MAX], "all points are good");
        spoil(rig, &table, n / 2);
        kernel.launch(&rig.stream, blocks, given).expect("a launch");
        let found = rig.get::<u64>(first_bad.all());
        assert_eq!(found, [(n as u64 / 2) << 8 | NOT_ON_CURVE], "the bad point is found");
        figures.push(RateFigure {
            op: "subgroup_check",
            mode: "device",
            count: n as u64,
            times: runs,
            unit: "G/s",
            details: format!("g1_check_points {times} x {THREADS} threads"),
        });
    }
    record.record_best(figures);
}

/// Swaps a point's coordinates.
fn spoil(rig: &BenchRig, table: &capstan::device::DeviceLease, index: usize) {
    let place = table.all::<<G1Projective as BenchGroup>::Words>().slice(index, 1).expect("inside");
    let mut words = rig.get(place);
    words[0].rotate_left(6);
    rig.put(place, &words);
}
