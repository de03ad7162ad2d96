//! Tables of multiples of bases: `kernels/msm/tables.cu`.

use ark_bls12_381::{Fr, g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup,
    short_weierstrass::{Affine, Projective},
};
use ark_ff::Field;
use ark_std::test_rng;
use capstan::{
    curve::Group,
    device::{BlockShape, DeviceFault, DevicePtr},
    msm::tables::{TableBuilder, TableLayout},
};

use crate::{
    gpu::each_seed,
    points::{TestCurve, distinct, limbs},
};

/// Distinct points, some replaced by infinity.
fn bases<P: TestCurve>(count: usize) -> Vec<Affine<P>> {
    let mut points = distinct(&mut test_rng(), count);
    points.iter_mut().skip(2).step_by(5).for_each(|point| *point = Affine::zero());
    points
}

fn times<P: TestCurve>(points: &[Affine<P>], by: Fr) -> Vec<Affine<P>> {
    let multiples: Vec<_> = points.iter().map(|point| *point * by).collect();
    Projective::normalize_batch(&multiples)
}

fn two_to(lg: u32) -> Fr {
    Fr::from(2).pow([lg.into()])
}

fn all_tables<P: TestCurve>() {
    each_seed(|rig| {
        let tables = TableBuilder::load(rig.gpu().context()).unwrap();
        let powers: Vec<u32> = (0..70).collect();
        for (points, factor, offsets) in [
            (1, 1, &[0, 1][..]),
            (37, 1, &[0, 3, 7, 10, 12, 19]),
            (3, 1, &[0, 1, 6, 7, 12, 17]),
            (150, 1, &[0, 22]),
            (5, 1, &[0]),
            (2, 1, &[0, 0, 1]),
            (2, 1, &powers),
            (9, 3, &[0, 1, 2, 3]),
            (70, 5, &[0, 19]),
            (3, 9, &[0, 20, 40]),
            (3, 9, &powers[..36]),
            (4, 19, &[0, 2, 7, 9, 11, 20, 23]),
            (3, 31, &[0, 1, 40]),
            (3, 6, &[0, 0, 0, 0]),
            (3, 0x9000_0003, &[0, 1]),
        ] {
            let stride = points as usize + 3;
            let layout = TableLayout { group: P::GROUP, points, stride, offsets, factor };
            let given = bases::<P>(points as usize);
            let width = layout.group.affine_bytes();
            let mut all = vec![0x5a_u8; layout.bytes()];
            all[..points as usize * width].copy_from_slice(bytemuck::cast_slice(&limbs(&given)));
            let on = rig.upload(&all);
            let scratch = tables.scratch_bytes(layout.group, points) as usize;
            let scratch = rig.upload(&vec![0x5a_u8; scratch]);
            tables.run(rig.stream(), &layout, on.all(), scratch.all()).unwrap();
            let found = rig.download::<u8>(&on);
            for (table, &offset) in offsets.iter().enumerate() {
                let by = Fr::from(factor).pow([table as u64]) * two_to(offset);
                let expected = limbs(&times(&given, by));
                let at = table * stride * width;
                let found = &found[at..][..points as usize * width];
                let expected = bytemuck::cast_slice::<u64, u8>(&expected);
                assert!(found == expected, "{factor}^{table} 2^{offset}, {points} points");
            }
            for between in (1..offsets.len()).map(|table| table * stride * width) {
                assert!(found[between - 3 * width..between].iter().all(|byte| *byte == 0x5a));
            }
        }
    });
}

/// Launches the kernel directly: with as many threads as points and with more, with steps of fewer
/// doublings (`near`) and with additions.
fn chains<P: TestCurve>() {
    each_seed(|rig| {
        type Parameters = (DevicePtr<u8>, DevicePtr<u8>, u32, u32, u32, u32, u32, u32, u32);
        let threads = if P::GROUP.name() == "g1" { 128 } else { 64 };
        let element = P::GROUP.coordinate_bytes();
        let block = BlockShape { threads, shared_bytes: (6 * element) as u32 * threads };
        let name = format!("{}_tables", P::GROUP.name());
        let kernel = rig.kernel_with_block::<Parameters>("msm/tables", &name, block);
        let given = bases::<P>(128);
        // With additions, the second one follows the last doubling of a near step: 7 and 14 times.
        for (points, count, near, adds) in
            [(128, 2, 2, 0), (1, 1, 0, 0), (65, 3, 0b1100, 0), (5, 3, 0b0100, 0b11)]
        {
            let (far, fewer) = if adds == 0 { (3, 1) } else { (3, 2) };
            let tables = rig.lease::<u8>((count + 1) * points * 2 * element);
            rig.write(tables.all(), &limbs(&given[..points]));
            let grid = (points as u32).div_ceil(threads);
            let scratch = rig.upload(&vec![0xa5_u8; (grid * threads) as usize * count * element]);
            let n = points as u32;
            let spans = (tables.all(), scratch.all(), n, n, count as u32, far, fewer, near, adds);
            rig.launch(&kernel, grid, spans);
            let found = rig.download::<u64>(&tables);
            let mut by = Fr::from(1);
            for (t, found) in found.chunks(points * element / 4).enumerate().skip(1) {
                let doublings = if near >> t & 1 == 1 { fewer } else { far };
                by *= (0..doublings).fold(Fr::from(1), |a, k| a + a + Fr::from(adds >> k & 1));
                let expected = limbs(&times(&given[..points], by));
                assert!(found == expected, "{points} points, table {t} of {count}");
            }
        }
    });
}

#[test]
fn a_factor_of_0_is_refused() {
    each_seed(|rig| {
        let tables = TableBuilder::load(rig.gpu().context()).unwrap();
        let layout =
            TableLayout { group: Group::G1, points: 1, stride: 1, offsets: &[0, 1], factor: 0 };
        let room = |bytes| rig.lease::<u8>(bytes as usize);
        let (on, scratch) = (room(192), room(tables.scratch_bytes(layout.group, 1)));
        let made = tables.run(rig.stream(), &layout, on.all(), scratch.all());
        assert!(matches!(made, Err(DeviceFault::KernelMismatch { .. })), "{made:?}");
    });
}

#[test]
fn g1_tables_match_arkworks() {
    all_tables::<g1::Config>();
    chains::<g1::Config>();
}

#[test]
fn g2_tables_match_arkworks() {
    all_tables::<g2::Config>();
    chains::<g2::Config>();
}
