//! Tables of multiples of bases: see `kernels/msm/tables.cu`.

use ark_bls12_381::{Fr, G1Projective, G2Projective};
use ark_ff::Field;
use capstan::{
    curve,
    msm::tables::{Layout, Tables},
};

use crate::{
    points::{Group, Points},
    record::{Figure, Record},
    rig::{Random, Rig},
};

/// What the tables of twelve windows are apart.
const WINDOW: u32 = 22;
const TABLES: u32 = 3;
/// Points that are compared with arkworks, of each table.
const SAMPLES: usize = 16;

/// All rows.
pub fn measure(rig: &Rig, record: &mut Record) {
    for lg_points in rig.size(&[10, 16, 22][..], &[5]) {
        record.keep(&figure::<G1Projective>(rig, curve::Group::G1, *lg_points));
    }
    record.keep(&figure::<G2Projective>(rig, curve::Group::G2, rig.size(20, 4)));
}

fn figure<G: Group>(rig: &Rig, group: curve::Group, lg_points: u32) -> Figure<'static> {
    let window = rig.size(WINDOW, 3);
    let offsets: Vec<u32> = (0..TABLES).map(|table| table * window).collect();
    let n = 1_usize << lg_points;
    let layout = Layout { group, points: n as u32, stride: n, offsets: &offsets };
    let made = Tables::load(rig.gpu.context()).expect("the kernels of this build");
    let points = Points::<G>::new(n.min(rig.size(1 << 16, 1 << 4)));
    // The bases over and over; all but the first table are written over.
    let tables = points.table(rig, n * TABLES as usize, 0);
    let scratch = rig.memory::<u8>(made.scratch_bytes(group, layout.points) as usize);
    let times = rig.times(|| made.run(&rig.stream, &layout, tables.all(), scratch.all()));
    check(rig, &points, &tables, &layout);
    let doublings = n as u64 * u64::from(window * (TABLES - 1));
    let op = match group {
        curve::Group::G1 => "g1_table_doubling",
        curve::Group::G2 => "g2_table_doubling",
    };
    let how = format!("{} tables of 2^{lg_points} points, {window} doublings each", TABLES - 1);
    Figure { op, mode: "device", count: doublings, times, unit: "G/s", how }
}

fn check<G: Group>(
    rig: &Rig,
    points: &Points<G>,
    tables: &capstan::device::Lease,
    layout: &Layout<'_>,
) {
    let mut random = Random(5);
    let all = tables.all::<G::Words>();
    for (table, &offset) in layout.offsets.iter().enumerate() {
        for sample in 0..SAMPLES {
            let n = layout.points as usize;
            let i = if sample == 0 { n - 1 } else { random.below(n) };
            let found = rig.get(all.part(table * layout.stride + i, 1).expect("inside"));
            let expected = G::from(points.at(i)) * Fr::from(2_u64).pow([offset.into()]);
            let same = bytemuck::bytes_of(&found[0])
                == bytemuck::bytes_of(&G::words(&expected.into_affine()));
            assert!(same, "2^{offset} times point {i}");
        }
    }
}
