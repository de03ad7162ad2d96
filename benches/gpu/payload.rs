//! MSMs by the engine over scalars in pinned payload memory, as in a server, from the first copy to
//! the sums on the host. The bases are on the device with all their tables. `lg=10,20` selects
//! sizes, `groups=g1` groups. With `pinned=no`, scalars go through the ring.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ark_bls12_381::{Fr, G1Affine, G2Affine};
use capstan::{
    buffer::{PayloadPool, PayloadView, UploadBuffer},
    curve::{
        layout,
        points::{Bases, CurvePoint, MsmSums, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{
        ComputedMsm, EncodedScalars, EngineModel, JobControl, MsmNttEngine,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy},
    },
    msm::MsmSize,
};

use crate::{
    msm::{MsmBench, scalars, uniform},
    points::BenchGroup,
    pool,
    record::{Record, TimeFigure},
    rig::BenchRig,
};

const G1_SIZES: [u32; 10] = [10, 12, 16, 18, 20, 21, 22, 23, 24, 26];
const G2_SIZES: [u32; 7] = [10, 12, 16, 18, 20, 22, 24];
/// Bases get their last tables at the eighth use.
const USES: usize = 8;

/// Measures by the host's clock. The sums of every run are checked.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    let groups = rig.argument("groups").unwrap_or_else(|| "g1,g2".to_owned());
    let cpu = CpuEngine::new(0).unwrap_or_else(|error| panic!("{error}"));
    let engine = CudaEngine::new(cpu, rig.gpu.clone().into(), GpuPolicy::default())
        .unwrap_or_else(|why| panic!("{why}"));
    let mut pinned_bytes = 0;
    if rig.argument("pinned").as_deref() != Some("no") {
        let largest = rig.sizes(&G1_SIZES, &[9]).into_iter().max().unwrap_or_default();
        // The largest payload, while its predecessor is being wiped.
        pinned_bytes = (2 * size_of::<Fr>()) << largest;
    }
    let pool = pool::payload_pool(&engine, pinned_bytes);
    if groups.contains("g1") {
        group::<G1Affine>(rig, record, &engine, &pool, &G1_SIZES);
    }
    if groups.contains("g2") {
        group::<G2Affine>(rig, record, &engine, &pool, &G2_SIZES);
    }
}

fn group<A>(
    rig: &BenchRig,
    record: &mut Record,
    engine: &CudaEngine,
    pool: &PayloadPool,
    sizes: &[u32],
) where
    A: CurvePoint,
    A::Group: BenchGroup,
{
    let bench = MsmBench::<A::Group>::new(rig);
    for lg_n in rig.sizes(sizes, &[5, 9]) {
        let n = 1 << lg_n;
        let scalars = scalars(|random, _| uniform(random), n);
        let points: Vec<_> = bench.points.affine.iter().copied().cycle().take(n).collect();
        let bases = A::into_bases(PointSlice::new(Arc::new(points)));
        let payload = UploadBuffer::new(pool, (n * size_of::<Fr>()) as u64, Vec::new());
        payload.write(0, layout::fr_as_bytes(&scalars)).unwrap_or_else(|error| panic!("{error}"));
        let whole = || {
            let MsmTiming { time, absorbed, sums, how } = once(engine, &bases, &payload);
            let sums = A::from_sums(sums).expect("sums of the bases' group");
            (sums, time, absorbed, how)
        };
        let (expected, ..) = whole();
        let job = MsmSize { group: A::GROUP, n: n as u32, vectors: 1 };
        bench.check(job, &scalars, expected.iter().copied());
        let run = || {
            let (sums, time, absorbed, how) = whole();
            assert!(sums == expected, "2^{lg_n}");
            (time, absorbed, how)
        };
        for _ in 1..USES {
            run();
        }
        rig.warm(|| _ = run());
        let mut runs: Vec<_> = (0..rig.repeats).map(|_| run()).collect();
        runs.sort();
        let (time, absorbed, how) = &runs[runs.len() / 2];
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (absorbed, finished) = (ms(*absorbed), ms(*time - *absorbed));
        let how = format!("{how}; absorbed in {absorbed:.3} ms, then {finished:.3}");
        let times = runs.into_iter().map(|(time, ..)| time).collect();
        let op = format!("msm_{}", A::GROUP.name());
        record.record_time(&TimeFigure {
            op: &op,
            mode: "tables_host",
            lg_n,
            batch: 1,
            times,
            how,
        });
    }
}

struct MsmTiming {
    /// The whole time, and the time until the last scalar was absorbed.
    time: Duration,
    absorbed: Duration,
    sums: MsmSums,
    how: String,
}

/// Runs one MSM piece by piece, as jobs do.
fn once(engine: &CudaEngine, bases: &Bases, payload: &UploadBuffer) -> MsmTiming {
    let (n, control) = (bases.len(), JobControl::default());
    let begun = Instant::now();
    let mut run = engine.msm(bases.clone(), 1).unwrap_or_else(|error| panic!("{error}"));
    let piece = engine.msm_piece_len(bases.group(), n).max(1);
    for first in (0..n).step_by(piece) {
        let source = PayloadView::starting_at(payload, (first * size_of::<Fr>()) as u64);
        let scalars =
            EncodedScalars::new(ScalarEncoding::Montgomery, piece.min(n - first), &source);
        run.absorb(0, first, &scalars, &control).unwrap_or_else(|error| panic!("{error}"));
    }
    let absorbed = begun.elapsed();
    let ComputedMsm { sums, executor } = run.finish().unwrap_or_else(|error| panic!("{error}"));
    MsmTiming { time: begun.elapsed(), absorbed, sums, how: executor.device }
}
