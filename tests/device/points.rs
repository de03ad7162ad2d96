//! The check of points on a GPU gives the same verdicts and points as the host's.

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::UniformRand;
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    curve::{
        G1Affine, G2Affine,
        points::{self, CurvePoint, PointEncoding},
    },
    engine::{
        PointChecker,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy},
    },
};

use crate::{
    rig::{DeviceRig, first_device, options},
    sweep,
};

/// The numbers of points: not multiples of a block's 128 threads.
const FEW: usize = 200;
const MANY: usize = 700;

const ENCODINGS: [PointEncoding; 2] = [PointEncoding::Montgomery, PointEncoding::Uncompressed];

fn check<A: CurvePoint>(engine: &CudaEngine, encoding: PointEncoding, bytes: &[u8]) {
    let expected = points::decode::<A>(encoding, bytes);
    let mut found = vec![A::zero(); bytes.len() / encoding.point_bytes(A::GROUP)];
    let verdict = engine.check(encoding, bytes, A::points_mut(&mut found)).unwrap();
    assert_eq!(verdict.map(|()| found), expected);
}

/// Checks `count` valid points, then the same points with random errors, in `rounds` rounds.
fn check_group<A: CurvePoint>(engine: &CudaEngine, rng: &mut StdRng, count: usize, rounds: usize) {
    let sums: Vec<_> = (0..count).map(|_| A::Group::rand(rng)).collect();
    let mut good = A::Group::normalize_batch(&sums);
    good[3] = A::zero();
    good[count - 1] = A::zero();
    for encoding in ENCODINGS {
        let width = encoding.point_bytes(A::GROUP);
        let bytes = points::encode(encoding, &good);
        check::<A>(engine, encoding, &bytes);
        for round in 0..rounds {
            let mut bad = bytes.clone();
            // Up to three errors: the first one must be reported.
            for _ in 0..1 + round % 3 {
                let point = rng.gen_range(0..count) * width;
                match round % 4 {
                    0 => bad[point + rng.gen_range(0..width)] ^= 1 << rng.gen_range(0..8),
                    1 => bad[point..point + width / 2].fill(0xff),
                    2 => bad[point] |= 0x40,
                    _ => bad[point..point + width].fill(0),
                }
            }
            check::<A>(engine, encoding, &bad);
        }
    }
}

#[test]
fn verdicts_and_points_match_the_host() {
    // One round for each kind of error.
    match_the_host(FEW, 4);
}

#[test]
#[ignore = "sweep"]
fn verdicts_on_many_points_match_the_host() {
    if sweep::is_chosen("many points") {
        match_the_host(MANY, 12);
    }
}

fn match_the_host(count: usize, rounds: usize) {
    let rig = DeviceRig::new();
    let (options, _) = options(rig.gpu.context().begin_wait().limit);
    let opened = capstan::device::open(&first_device(), &options).unwrap();
    let engine = CudaEngine::new(CpuEngine::new(1).unwrap(), opened, GpuPolicy::default()).unwrap();
    let mut rng = StdRng::seed_from_u64(11);
    check_group::<G1Affine>(&engine, &mut rng, count, rounds);
    check_group::<G2Affine>(&engine, &mut rng, count, rounds);
    // A random x almost always gives a curve point outside the subgroup.
    let outside = loop {
        let x = ark_bls12_381::Fq::rand(&mut rng);
        if let Some(point) = G1Affine::get_point_from_x_unchecked(x, true) {
            break point;
        }
    };
    let mut list = vec![outside; 2];
    list[0] = G1Affine::zero();
    for encoding in ENCODINGS {
        check::<G1Affine>(&engine, encoding, &points::encode(encoding, &list));
    }
    let gpu = engine.devices().pop().unwrap().gpu.unwrap();
    assert_eq!(gpu.arena_free_bytes, gpu.arena_bytes, "memory is not freed");
    assert!(gpu.self_test.starts_with("passed"), "{}", gpu.self_test);
}
