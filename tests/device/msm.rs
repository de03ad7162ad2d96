//! MSMs of the engine with GPUs when something goes wrong: one job fails, or is given up, and the
//! next one is right.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::UniformRand;
use ark_std::rand::{SeedableRng as _, rngs::StdRng};
use capstan::{
    curve::{
        Fr, G1Affine, G1Projective,
        layout::fr_as_bytes,
        points::{Bases, CurvePoint, PointSlice, Sums},
        scalars::ScalarEncoding,
    },
    device::{Class, Lease},
    engine::{
        Control, Encoded, Engine, MsmRun,
        cpu::CpuEngine,
        cuda::{CudaEngine, Least},
    },
    error::{Error, Limit, Result},
};

use crate::{
    rig::{Rig, control, with_faults},
    transforms::pinned_memory_is_wiped,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// Enough to be a GPU's.
const N: usize = 300;

/// An engine, bases that it keeps as long as there is room, scalars, and the right sum.
struct Bench {
    engine: CudaEngine,
    points: Arc<Vec<G1Affine>>,
    scalars: Vec<Fr>,
    expected: G1Projective,
}

impl Bench {
    fn new(rig: &Rig) -> Self {
        let least = Least { msm_scalars: 256, ntt_elements: 4096 };
        let cpu = CpuEngine::new(2).unwrap();
        let engine = CudaEngine::new(cpu, vec![rig.gpu.clone()], least).unwrap();
        let mut rng = StdRng::seed_from_u64(4);
        let step = G1Projective::generator() * Fr::rand(&mut rng);
        let walk = std::iter::successors(Some(step), |point| Some(point + step)).take(N);
        let points = Arc::new(G1Projective::normalize_batch(&walk.collect::<Vec<_>>()));
        let scalars: Vec<Fr> = (0..N).map(|_| Fr::rand(&mut rng)).collect();
        let weights = scalars.iter().zip(1_u64..).map(|(scalar, i)| *scalar * Fr::from(i));
        let expected = step * weights.sum::<Fr>();
        Self { engine, points, scalars, expected }
    }

    fn bases(&self) -> Bases {
        G1Affine::bases(PointSlice::new(self.points.clone()))
    }

    /// Hands over scalars `first..first + len`.
    fn absorb(
        &self,
        run: &mut dyn MsmRun,
        first: usize,
        len: usize,
        control: &Control,
    ) -> Result<()> {
        let bytes = fr_as_bytes(&self.scalars[first..first + len]);
        run.absorb(0, first, &Encoded::new(ScalarEncoding::Montgomery, len, &bytes), control)
    }

    fn sum(&self) -> Result<G1Projective> {
        self.sum_over(self.bases())
    }

    fn sum_over(&self, bases: Bases) -> Result<G1Projective> {
        self.sum_and_plan(bases).map(|(sum, _)| sum)
    }

    /// The sum, and what was done where.
    fn sum_and_plan(&self, bases: Bases) -> Result<(G1Projective, String)> {
        let mut run = self.engine.msm(bases, 1)?;
        self.absorb(run.as_mut(), 0, N / 2, &Control::default())?;
        self.absorb(run.as_mut(), N / 2, N - N / 2, &Control::default())?;
        let (sums, executor) = run.finish()?;
        assert_eq!(executor.engine, "cuda");
        let Sums::G1(sums) = sums else { panic!("of the other group") };
        Ok((sums[0], executor.device))
    }

    fn is_right(&self, after: &str) {
        assert!(self.sum().unwrap() == self.expected, "after {after}");
    }

    /// The sum is right, or there was no memory for it; true where it is right.
    fn may_run_out(&self, after: &str) -> bool {
        match self.sum() {
            Ok(sum) => {
                assert!(sum == self.expected, "{after}");
                true
            }
            Err(Error::Exhausted { limit: Limit::DeviceMemory, .. }) => false,
            Err(error) => panic!("{after}: {error:?}"),
        }
    }
}

#[test]
fn a_call_that_runs_out_fails_one_msm_only() {
    with_faults(PATIENCE, |rig| {
        let bench = Bench::new(rig);
        for call in ["cuLaunchKernel:K:701", "copy:K:2", "cuEventCreate:K:2"] {
            // Their first use brings the bases, the second one their tables, without which it goes,
            // too: a refusal there fails nothing.
            let mut failed = 0;
            for k in [1, 2, 3, 4, 5, 7, 9, 12, 15] {
                let call = call.replace(":K:", &format!(":{k}:"));
                control::fault(&call);
                failed += usize::from(!bench.may_run_out(&call));
                control::fault("");
                bench.is_right(&call);
            }
            println!("{call}: {failed} failed");
            assert!(failed >= 3, "{call}: {failed} failed");
        }
        assert!(rig.gpu.context().is_alive());
        let exhausted = |fault: &capstan::device::Fault| fault.class() == Class::Exhausted;
        assert!(rig.faults.lock().unwrap().iter().all(exhausted));
        pinned_memory_is_wiped(rig);
    });
}

/// Takes all memory but about `left` bytes, in one piece.
fn take_all_but(rig: &Rig, left: u64) -> Vec<Lease> {
    let (arena, stream) = (rig.gpu.arena(), rig.stream());
    let kept = arena.lease(&stream, left).unwrap();
    let mut held = Vec::new();
    while arena.free_bytes() > 0 {
        held.push(arena.lease(&stream, arena.largest_free_bytes()).unwrap());
    }
    drop(kept);
    held
}

#[test]
fn out_of_memory_at_every_allocation_fails_one_msm_only() {
    let rig = Rig::new();
    let (mut failed, mut left) = (0, 1 << 10);
    // Ever more room: for the bases, then the scalars, the buckets, the result, the workspace.
    loop {
        let bench = Bench::new(&rig);
        let held = take_all_but(&rig, left);
        let enough = bench.may_run_out(&format!("with {left} bytes"));
        failed += usize::from(!enough);
        drop(held);
        bench.is_right("there is memory again");
        if enough {
            break;
        }
        left = left * 3 / 2;
    }
    assert!(failed > 5, "{failed} failed");
}

#[test]
fn the_longest_unused_bases_leave_for_others() {
    const OBJECT: usize = 6000;
    const LEFT: usize = 2 << 20;
    let rig = Rig::new();
    let bench = Bench::new(&rig);
    bench.is_right("nothing");
    let held = take_all_but(&rig, LEFT as u64);
    let many: Vec<_> = bench.points.iter().copied().cycle().take(OBJECT).collect();
    let objects = [(); 5].map(|()| PointSlice::new(Arc::new(many.clone())));
    assert!(objects.len() * OBJECT * size_of::<G1Affine>() > LEFT, "all at once find no room");
    for round in 0..2 {
        for object in &objects {
            let bases = G1Affine::bases(object.slice(0, N).unwrap());
            assert!(bench.sum_over(bases).unwrap() == bench.expected, "round {round}");
        }
    }
    drop(held);
    bench.is_right("all");
}

#[test]
fn bases_get_more_tables_the_more_they_are_used() {
    let rig = Rig::new();
    let plans = || {
        let bench = Bench::new(&rig);
        let plan = |_| {
            let (sum, plan) = bench.sum_and_plan(bench.bases()).unwrap();
            assert!(sum == bench.expected, "{plan}");
            plan
        };
        (1..=9).map(plan).collect::<Vec<_>>()
    };
    let ample = plans();
    assert!(ample[0].ends_with("no tables"), "{ample:?}");
    assert!(ample[1].ends_with("tables") && !ample[6].contains("sliding"), "{ample:?}");
    assert_eq!((&ample[1], &ample[7]), (&ample[6], &ample[8]), "nothing changes between");
    assert!(ample[7].contains("sliding") && ample[7].ends_with("255 tables"), "{ample:?}");
    // 255 tables are more than that.
    let held = take_all_but(&rig, 255 * (N * size_of::<G1Affine>()) as u64);
    let short = plans();
    assert_eq!(short[..7], ample[..7]);
    assert_eq!((&short[7], &short[8]), (&ample[6], &ample[6]));
    drop(held);
}

#[test]
fn an_msm_stops_at_every_phase() {
    let rig = Rig::new();
    let bench = Bench::new(&rig);
    let cancelled = Control::default();
    cancelled.cancel();
    let late = Control::new(Some(Instant::now()));
    // Before anything, with bases on the device, with half of the scalars, with all of them.
    for absorbed in [0, 0, N / 2, N] {
        for (control, error) in [(&cancelled, Error::Cancelled), (&late, Error::Deadline)] {
            let mut run = bench.engine.msm(bench.bases(), 1).unwrap();
            let go = Control::default();
            if absorbed > 0 {
                bench.absorb(run.as_mut(), 0, absorbed, &go).unwrap();
            }
            if absorbed < N {
                let stopped = bench.absorb(run.as_mut(), absorbed, N - absorbed, control);
                assert_eq!(stopped, Err(error), "after {absorbed}");
            }
            // Its pass may be under way.
            drop(run);
            pinned_memory_is_wiped(&rig);
            bench.is_right(&format!("a stop after {absorbed}"));
        }
    }
    drop(bench);
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}
