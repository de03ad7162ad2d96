//! MSMs with known sums, for engines with GPUs.

use std::{ops::Range, sync::Arc, thread::sleep, time::Duration};

use ark_ec::{CurveGroup as _, PrimeGroup as _};
use ark_ff::UniformRand as _;
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    curve::{
        Fr,
        points::{Bases, CurvePoint, PointSlice},
        scalars::{ScalarEncoding, encode_fr},
    },
    device::DeviceLease,
    engine::{
        ComputedMsm, EncodedScalars, JobControl, MsmNttEngine as _, MsmRun,
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuPolicy, self_test::SelfTestSizes},
    },
    error::{EngineError, Limit, Result},
    msm::SplitThresholds,
};

use crate::rig::DeviceRig;

/// Thresholds so low that a test's few scalars are split as those of large MSMs are.
const LOW_THRESHOLDS: SplitThresholds = SplitThresholds {
    streamed_scalars_min: 32,
    points_min: 8,
    whole_bucket_digits_max: 0,
    level_additions_min: None,
};

/// A policy that leaves nothing to the CPU and skips the self-test, which other tests run.
pub fn untested_policy() -> GpuPolicy {
    GpuPolicy { self_test: Some(SelfTestSizes::NONE), ..GpuPolicy::default() }
}

/// Like [`untested_policy`], but small MSMs are split into passes.
pub fn splitting_policy() -> GpuPolicy {
    GpuPolicy { split: LOW_THRESHOLDS, ..untested_policy() }
}

pub fn engine(rig: &DeviceRig) -> CudaEngine {
    engine_with(rig, splitting_policy())
}

pub fn engine_with(rig: &DeviceRig, policy: GpuPolicy) -> CudaEngine {
    CudaEngine::new(CpuEngine::new(1).unwrap(), rig.gpu.clone().into(), policy).unwrap()
}

/// Leases all device memory but one free piece of about `left` bytes.
pub fn lease_all_but(rig: &DeviceRig, left: u64) -> Vec<DeviceLease> {
    let (arena, stream) = (rig.gpu.arena(), rig.stream());
    let spared = arena.lease(&stream, left).unwrap();
    let mut held = Vec::new();
    while arena.free_bytes() > 0 {
        held.push(arena.lease(&stream, arena.largest_free_bytes()).unwrap());
    }
    drop(spared);
    held
}

/// The number of passes that an executor's description reports.
pub fn pass_count(device: &str) -> usize {
    let count = device.strip_suffix(" passes").and_then(|rest| rest.rsplit(' ').next());
    count.map_or(1, |count| count.parse().unwrap())
}

/// A sender's delay, longer than one pass over few scalars takes. A longer one changes nothing.
const SENDER_DELAY: Duration = Duration::from_millis(5);

/// Whether a job failed for lack of device memory.
pub fn is_exhausted(error: &EngineError) -> bool {
    matches!(error, EngineError::Exhausted { limit: Limit::DeviceMemory, .. })
}

/// Points, vectors of scalars for all of them, and what the sums are computed from.
pub struct MsmCase<A: CurvePoint> {
    points: Vec<A>,
    /// Point i is i + 1 times this.
    step: A::Group,
    encoding: ScalarEncoding,
    batch: usize,
    bytes: Vec<u8>,
    values: Vec<Fr>,
}

impl<A: CurvePoint> MsmCase<A> {
    /// `batch` vectors of `n` scalars.
    pub fn new(n: usize, batch: usize, encoding: ScalarEncoding) -> Self {
        let mut rng = StdRng::seed_from_u64(n as u64);
        let step = A::Group::generator() * Fr::rand(&mut rng);
        let walk = std::iter::successors(Some(step), |point| Some(*point + step)).take(n);
        let points = A::Group::normalize_batch(&walk.collect::<Vec<_>>());
        let mut bytes = vec![0; n * batch * encoding.width()];
        let values = if encoding.is_full() {
            let values: Vec<_> = (0..n * batch).map(|_| Fr::rand(&mut rng)).collect();
            encode_fr(encoding, &values, &mut bytes);
            values
        } else {
            assert_eq!(encoding, ScalarEncoding::Signed(2), "not supported here");
            let values: Vec<i16> = (0..n * batch).map(|_| rng.r#gen()).collect();
            bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            values.into_iter().map(Fr::from).collect()
        };
        Self { points, step, encoding, batch, bytes, values }
    }

    /// The points as a new object, which no engine has cached.
    pub fn object(&self) -> PointSlice<A> {
        PointSlice::new(Arc::new(self.points.clone()))
    }

    fn absorb(
        &self,
        run: &mut dyn MsmRun,
        vector: usize,
        piece: &Range<usize>,
        control: &JobControl,
    ) -> Result<()> {
        let (width, begin) = (self.encoding.width(), vector * self.points.len());
        let bytes = &self.bytes[(begin + piece.start) * width..(begin + piece.end) * width];
        let scalars = EncodedScalars::new(self.encoding, piece.len(), &bytes);
        run.absorb(vector, piece.start, &scalars, control)
    }

    /// Runs and checks the MSM over `bases`, a prefix of the points, with each vector's scalars in
    /// these pieces. Returns the executor's description.
    pub fn run(
        &self,
        engine: &CudaEngine,
        bases: &PointSlice<A>,
        pieces: &[Range<usize>],
        control: &JobControl,
    ) -> Result<String> {
        let mut run = engine.msm(A::into_bases(bases.clone()), self.batch)?;
        self.absorb_all(run.as_mut(), pieces, control)?;
        self.check(run, bases.len())
    }

    /// Like [`Self::run`] over all points, from a slow sender: the first piece comes after
    /// `SENDER_DELAY`, so that the engine expects the rest to be as slow.
    pub fn run_slowly(
        &self,
        engine: &CudaEngine,
        object: &PointSlice<A>,
        pieces: &[Range<usize>],
        control: &JobControl,
    ) -> Result<String> {
        let mut run = engine.msm(Self::bases(object), self.batch)?;
        sleep(SENDER_DELAY);
        self.absorb_all(run.as_mut(), pieces, control)?;
        self.check(run, object.len())
    }

    /// Passes all scalars, and waits for the device if `control` yields.
    fn absorb_all(
        &self,
        run: &mut dyn MsmRun,
        pieces: &[Range<usize>],
        control: &JobControl,
    ) -> Result<()> {
        for vector in 0..self.batch {
            for piece in pieces {
                self.absorb(run, vector, piece, control)?;
            }
        }
        while !run.is_almost_done(control)? {}
        Ok(())
    }

    /// Finishes the run and checks its sums. Returns the executor's description.
    fn check(&self, mut run: Box<dyn MsmRun>, n: usize) -> Result<String> {
        let ComputedMsm { sums, executor } = run.finish()?;
        assert_eq!(executor.engine, "cuda");
        let sums = A::from_sums(sums).expect("of this group");
        for (vector, values) in self.values.chunks(self.points.len()).enumerate() {
            let weights = values[..n].iter().zip(1_u64..).map(|(value, i)| *value * Fr::from(i));
            let expected = self.step * weights.sum::<Fr>();
            assert!(sums[vector] == expected, "vector {vector}: {}", executor.device);
        }
        assert_eq!(sums.len(), self.batch);
        Ok(executor.device)
    }

    /// Runs and checks the whole MSM in two pieces.
    pub fn run_whole(
        &self,
        engine: &CudaEngine,
        object: &PointSlice<A>,
        control: &JobControl,
    ) -> Result<String> {
        let n = self.points.len();
        self.run(engine, object, &[0..n / 2, n / 2..n], control)
    }

    /// Runs and checks the MSM over the object's first `n` points, in one piece.
    pub fn run_prefix(&self, engine: &CudaEngine, object: &PointSlice<A>, n: usize) -> String {
        let bases = object.slice(0, n).expect("at least n points");
        self.run(engine, &bases, std::slice::from_ref(&(0..n)), &JobControl::default()).unwrap()
    }

    /// The object as bases of either group.
    pub fn bases(object: &PointSlice<A>) -> Bases {
        A::into_bases(object.clone())
    }
}
