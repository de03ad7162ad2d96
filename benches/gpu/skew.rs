//! Whole MSMs over scalars of several distributions, in the windows that the planner chooses for
//! uniform scalars, and their times relative to these. `lg=10,20` selects sizes, `groups=g1`
//! groups.

use std::time::Duration;

use ark_bls12_381::{Fr, G1Projective, G2Projective, g1, g2};
use ark_ec::short_weierstrass::Projective;
use ark_ff::{AdditiveGroup, Field};
use capstan::{
    curve::Group as Name,
    msm::{MsmSize, reduce::DeviceCurve},
};

use crate::{
    msm::{MsmBench, Scalar, scalars, uniform},
    points::BenchGroup,
    record::{Record, TimeFigure},
    rig::BenchRig,
};

const G1_SIZES: [u32; 7] = [10, 12, 16, 18, 20, 22, 24];
const G2_SIZES: [u32; 2] = [16, 20];

/// Names of distributions, and their scalar i. The others are compared with the first one.
const KINDS: [(&str, Scalar); 10] = [
    ("uniform", |random, _| uniform(random)),
    ("sparse90_resident", |random, _| match random.below(10) {
        0 => uniform(random),
        i => Fr::from(i as u64 & 1),
    }),
    ("zeros", |_, _| Fr::ZERO),
    ("ones", |_, _| Fr::ONE),
    ("r-1", |_, _| -Fr::ONE),
    ("equal", |_, _| Fr::from(0x1234_5678_9abc_def1_u64).pow([7])),
    ("0_1_-1", |random, _| [Fr::ZERO, Fr::ONE, -Fr::ONE][random.below(3)]),
    ("64_bits", |random, _| Fr::from(random.next())),
    ("half_equal", |random, i| if i % 2 == 0 { -Fr::from(3) } else { uniform(random) }),
    ("one_hot", |random, i| if i == 17 { uniform(random) } else { Fr::ZERO }),
];

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let groups = rig.argument("groups").unwrap_or_else(|| "g1,g2".to_owned());
    if groups.contains("g1") {
        group::<G1Projective, g1::Config>(rig, record, Name::G1, &G1_SIZES);
    }
    if groups.contains("g2") {
        group::<G2Projective, g2::Config>(rig, record, Name::G2, &G2_SIZES);
    }
}

fn group<G, P>(rig: &BenchRig, record: &mut Record, group: Name, sizes: &[u32])
where
    P: DeviceCurve,
    G: BenchGroup + From<Projective<P>>,
{
    let bench = MsmBench::<G>::new(rig);
    for lg_n in rig.sizes(sizes, &[5, 9]) {
        let job = MsmSize { group, n: 1 << lg_n, vectors: 1 };
        let windows = job.choose_windows(bench.most(job), &rig.gpu.identity().limits);
        let (_lease, placed) = bench.bases(job, &windows);
        let mut uniform_ms = None;
        for (mode, scalar) in KINDS {
            let scalars = scalars(scalar, job.n as usize);
            let (times, how) = bench.run::<P>(job, &windows, placed, &scalars);
            let median_ms = median_ms(&times);
            let ratio = median_ms / *uniform_ms.get_or_insert(median_ms);
            let (op, how) =
                (format!("msm_{}", group.name()), format!("{ratio:.2} of uniform, {how}"));
            let time = TimeFigure { op: &op, mode, lg_n, batch: 1, times, how };
            if mode.ends_with("_resident") {
                record.record_time(&time)
            } else {
                record.print_time(&time)
            }
        }
    }
}

pub fn median_ms(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}
