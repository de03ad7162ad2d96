//! Tables of multiples of bases: `kernels/msm/tables.cu`.

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::Field;
use capstan::{
    curve,
    msm::{
        SlidingWindows,
        tables::{TableBuilder, TableLayout},
    },
};

use crate::{
    points::{BenchGroup, KnownPoints},
    record::{RateFigure, Record},
    rig::{BenchRig, Random},
};

/// Number of tables. Each holds 2^`doublings` times `factor` times its predecessor's points.
#[derive(Clone, Copy)]
struct BenchChain {
    mode: &'static str,
    tables: u32,
    doublings: u32,
    factor: u32,
}

const FIXED: BenchChain = BenchChain { mode: "device", tables: 12, doublings: 22, factor: 1 };
const SLIDING: BenchChain =
    BenchChain { mode: "every_power", tables: SlidingWindows::TABLES, doublings: 1, factor: 1 };
/// Tables for the radices of eleven and of twelve digits.
const RADIX_9: BenchChain = BenchChain { mode: "factor_9", tables: 11, doublings: 20, factor: 9 };
const RADIX_5: BenchChain = BenchChain { mode: "factor_5", tables: 12, doublings: 19, factor: 5 };
const ALL: [BenchChain; 4] = [FIXED, SLIDING, RADIX_9, RADIX_5];
/// Number of points of each table that are compared with arkworks.
const SAMPLES: usize = 16;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    for &lg_points in rig.size(&[10, 16, 20][..], &[5]) {
        for steps in ALL {
            record.record_rate(&figure::<G1Projective>(rig, curve::Group::G1, lg_points, steps));
        }
    }
    for steps in ALL {
        record.record_rate(&figure::<G2Projective>(rig, curve::Group::G2, rig.size(18, 3), steps));
    }
}

fn figure<G: BenchGroup>(
    rig: &BenchRig,
    group: curve::Group,
    lg_points: u32,
    BenchChain { mode, tables, doublings, factor }: BenchChain,
) -> RateFigure<'static> {
    let (count, apart) = rig.size((tables, doublings), (tables.min(40), doublings.min(3)));
    let offsets: Vec<u32> = (0..count).map(|table| table * apart).collect();
    let n = 1_usize << lg_points;
    let layout = TableLayout { group, points: n as u32, stride: n, offsets: &offsets, factor };
    let made = TableBuilder::load(rig.gpu.context()).expect("the kernels of this build");
    let points = KnownPoints::<G>::new(n.min(rig.size(1 << 16, 1 << 4)));
    let tables = rig.lease::<G::Words>(n * count as usize);
    let bases = tables.all::<G::Words>().slice(0, n).and_then(|bases| bases.cast());
    points.fill(rig, bases.expect("the first table"));
    let scratch = rig.lease::<u8>(made.scratch_bytes(group, layout.points) as usize);
    let times = rig.times(|| made.run(&rig.stream, &layout, tables.all(), scratch.all()));
    check(rig, &points, &tables, &layout);
    let own = apart + factor.ilog2();
    let doublings = n as u64 * u64::from(own * (count - 1));
    let op = match group {
        curve::Group::G1 => "g1_table_doubling",
        curve::Group::G2 => "g2_table_doubling",
    };
    let adds = factor.count_ones() - 1;
    let each = format!("{own} doublings and {adds} additions each");
    let how = format!("{} tables of 2^{lg_points} points, {each}", count - 1);
    RateFigure { op, mode, count: doublings, times, unit: "G/s", details: how }
}

fn check<G: BenchGroup>(
    rig: &BenchRig,
    points: &KnownPoints<G>,
    tables: &capstan::device::DeviceLease,
    layout: &TableLayout<'_>,
) {
    let mut random = Random(5);
    let all = tables.all::<G::Words>();
    for (table, &offset) in layout.offsets.iter().enumerate() {
        for sample in 0..SAMPLES {
            let n = layout.points as usize;
            let i = if sample == 0 { n - 1 } else { random.below(n) };
            let found = rig.get(all.slice(table * layout.stride + i, 1).expect("inside"));
            let factor = Fr::from(layout.factor).pow([table as u64]);
            let by = factor * Fr::from(2_u64).pow([offset.into()]);
            let expected = G::from(points.at(i)) * by;
            let same = bytemuck::bytes_of(&found[0])
                == bytemuck::bytes_of(&G::words(&expected.into_affine()));
            assert!(same, "table {table}, point {i}");
        }
    }
}
