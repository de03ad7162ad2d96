//! `kernels/msm/tables.cu`.

use ark_bls12_381::{g1, g2};
use ark_ec::{AffineRepr, CurveGroup, short_weierstrass::Affine};
use ark_std::test_rng;
use capstan::{
    device::{Block, Ptr},
    msm::tables::{Layout, Tables},
};

use crate::{
    gpu::each_seed,
    points::{Curve, different, limbs},
};

/// Points with some at infinity.
fn bases<P: Curve>(count: usize) -> Vec<Affine<P>> {
    let mut points = different(&mut test_rng(), count);
    points.iter_mut().skip(2).step_by(5).for_each(|point| *point = Affine::zero());
    points
}

fn times_power<P: Curve>(points: &[Affine<P>], lg: u32) -> Vec<Affine<P>> {
    let power =
        |point: &Affine<P>| (0..lg).fold(point.into_group(), |sum, _| sum + sum).into_affine();
    points.iter().map(power).collect()
}

fn all_tables<P: Curve>() {
    each_seed(|rig| {
        let tables = Tables::load(rig.gpu().context()).unwrap();
        let powers: Vec<u32> = (0..70).collect();
        for (points, offsets) in [
            (1, &[0, 1][..]),
            (37, &[0, 3, 7, 10, 12, 19]),
            (3, &[0, 1, 6, 7, 12, 17]),
            (150, &[0, 22]),
            (5, &[0]),
            (2, &powers),
        ] {
            let stride = points as usize + 3;
            let layout = Layout { group: P::GROUP, points, stride, offsets };
            let given = bases::<P>(points as usize);
            let width = layout.group.affine_bytes();
            let mut all = vec![0x5a_u8; layout.bytes()];
            all[..points as usize * width].copy_from_slice(bytemuck::cast_slice(&limbs(&given)));
            let on = rig.put(&all);
            let scratch = tables.scratch_bytes(layout.group, points) as usize;
            let scratch = rig.put(&vec![0x5a_u8; scratch]);
            tables.run(rig.stream(), &layout, on.all(), scratch.all()).unwrap();
            let found = rig.get::<u8>(&on);
            for (table, &offset) in offsets.iter().enumerate() {
                let expected = limbs(&times_power(&given, offset));
                let at = table * stride * width;
                let found = &found[at..][..points as usize * width];
                assert_eq!(found, bytemuck::cast_slice::<u64, u8>(&expected), "2^{offset}");
            }
            for between in (1..offsets.len()).map(|table| table * stride * width) {
                assert!(found[between - 3 * width..between].iter().all(|byte| *byte == 0x5a));
            }
        }
    });
}

/// More threads than points and as many, and multiples that are nearer than others.
fn chains<P: Curve>() {
    each_seed(|rig| {
        type Parameters = (Ptr<u8>, Ptr<u8>, u32, u32, u32, u32, u32, u32);
        let threads = if P::GROUP.name() == "g1" { 128 } else { 64 };
        let element = P::GROUP.coordinate_bytes();
        let block = Block { threads, shared_bytes: (6 * element) as u32 * threads };
        let name = format!("{}_tables", P::GROUP.name());
        let kernel = rig.kernel_in::<Parameters>("msm/tables", &name, block);
        let given = bases::<P>(128);
        for (points, count, near) in [(128, 2, 2), (1, 1, 0), (65, 3, 0b1100)] {
            let tables = rig.room::<u8>((count + 1) * points * 2 * element);
            rig.write(tables.all(), &limbs(&given[..points]));
            let grid = (points as u32).div_ceil(threads);
            let scratch = rig.put(&vec![0xa5_u8; 2 * (grid * threads) as usize * count * element]);
            let n = points as u32;
            let spans = (tables.all(), scratch.all(), n, n, count as u32, 3, 1, near);
            rig.launch(&kernel, grid, spans);
            let found = rig.get::<u64>(&tables);
            let mut offset = 0;
            for (t, found) in found.chunks(points * element / 4).enumerate().skip(1) {
                offset += if near >> t & 1 == 1 { 1 } else { 3 };
                let expected = limbs(&times_power(&given[..points], offset));
                assert!(found == expected, "{points} points, table {t} of {count}");
            }
        }
    });
}

#[test]
fn g1_tables_are_arkworks() {
    all_tables::<g1::Config>();
    chains::<g1::Config>();
}

#[test]
fn g2_tables_are_arkworks() {
    all_tables::<g2::Config>();
    chains::<g2::Config>();
}
