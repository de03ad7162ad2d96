//! Buckets summed by one thread each, in XYZZ coordinates: see `kernels/accumulate.cuh`.

use capstan::device::{BlockShape, DeviceLease, DevicePtr};

use super::{SIGN, batched::signed};
use crate::{
    points::{BenchGroup, KnownPoints},
    record::RateFigure,
    rig::{BenchRig, Random},
};

const MODULE: &str = "bench/curve";
/// Points of a bucket. The first one is copied, but counts as an addition.
const BUCKET: usize = 64;
/// Number of sums that are compared with arkworks.
const SAMPLES: usize = 16;

pub struct XyzzKernel {
    name: &'static str,
    threads: u32,
    /// Blocks per multiprocessor.
    blocks: u32,
    /// Coordinates per thread in shared memory.
    columns: usize,
}

pub const G1: XyzzKernel = XyzzKernel { name: "g1_xyzz", threads: 128, blocks: 2, columns: 2 };
pub const G2: XyzzKernel = XyzzKernel { name: "g2_xyzz", threads: 256, blocks: 1, columns: 6 };

/// Measures buckets of random points of `table`.
pub fn measure<G: BenchGroup>(
    rig: &BenchRig,
    points: &KnownPoints<G>,
    table: &DeviceLease,
    kernel: &XyzzKernel,
) -> RateFigure<'static> {
    type Parameters = (DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u32>, u32, u32);
    let &XyzzKernel { name, threads, blocks, columns } = kernel;
    let size = table.bytes() as usize / size_of::<G::Words>();
    let shared_bytes = (columns * G::COORDINATE_BYTES) as u32 * threads;
    let compiled = rig.kernel::<Parameters>(MODULE, name, BlockShape { threads, shared_bytes });
    let blocks = rig.size(rig.blocks(blocks), 2);
    // Eight buckets per thread.
    let buckets = (blocks * threads * rig.size(8, 1)) as usize;
    let mut random = Random(11);
    let reference = |_| random.below(size) as u32 | (random.next() as u32 & SIGN);
    let references: Vec<u32> = (0..buckets * BUCKET).map(reference).collect();
    let given = rig.upload_new(&references);
    let out = rig.lease::<[G::Words; 2]>(buckets);
    let spans = (out.all(), table.all(), given.all(), buckets as u32, BUCKET as u32);
    let runs = rig.times(|| compiled.launch(&rig.stream, blocks, spans));
    for sample in 0..SAMPLES {
        let bucket = if sample == 0 { buckets - 1 } else { random.below(buckets) };
        let found = rig.get(out.all::<[G::Words; 2]>().slice(bucket, 1).expect("inside"));
        let found = G::from_xyzz_words(bytemuck::cast_slice(&found));
        let own = &references[bucket * BUCKET..][..BUCKET];
        let expected: G = own.iter().map(|reference| signed(points, *reference)).sum();
        assert_eq!(found, expected.into_affine(), "{name}: bucket {bucket}");
    }
    let table_gb = table.bytes() as f64 / 1e9;
    RateFigure {
        op: if G::NAME == "g1" { "g1_madd_xyzz" } else { "g2_madd_xyzz" },
        mode: "device",
        count: references.len() as u64,
        times: runs,
        unit: "G/s",
        details: format!("{name}, table of {table_gb:.1} GB"),
    }
}
