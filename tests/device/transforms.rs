//! Transforms of the engine with GPUs: alone, concurrent, stopped, or short of memory.

use std::{
    thread,
    time::{Duration, Instant},
};

use ark_ec::{CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, FftField, Field, PrimeField};
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    curve::{
        Fr, G1Affine, G1Projective,
        layout::fr_as_bytes,
        points::{CurvePoint, MsmSums, PointSlice},
        scalars::ScalarEncoding,
    },
    device::OpenDevices,
    device::{DeviceFault, FaultClass},
    engine::{
        EncodedScalars, JobControl, MsmNttEngine, NttPlan,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, GpuPolicy},
    },
    error::EngineError,
};

use crate::{
    known_msms::untested_policy,
    rig::{DeviceRig, control, each_seed, on_emulated_driver},
    sweep,
};

pub const PATIENCE: Duration = Duration::from_secs(120);

/// log2 of a row and number of rows: at least as many elements as a GPU needs.
const SHAPES: [(u32, usize); 8] =
    [(0, 4096), (1, 2051), (6, 70), (10, 5), (11, 2), (12, 1), (13, 2), (14, 1)];

pub fn engine(rig: &DeviceRig) -> CudaEngine {
    // The same GPU twice, so that jobs are dealt out as among two.
    let gpus = vec![rig.gpu.clone(), rig.gpu.clone()];
    let policy = GpuPolicy { msm_scalars_min: 256, ntt_elements_min: 4096, ..untested_policy() };
    let opened = OpenDevices { gpus, unusable: Vec::new() };
    CudaEngine::new(CpuEngine::new(2).unwrap(), opened, policy).unwrap()
}

/// Rows of random elements, half of them close to 0 or to the modulus.
pub fn rows(lg_n: u32, count: usize) -> Vec<Vec<Fr>> {
    let mut rng = StdRng::seed_from_u64(u64::from(lg_n) << 32 | count as u64);
    let edges = [Fr::ZERO, Fr::ONE, -Fr::ONE, Fr::new_unchecked((-Fr::ONE).into_bigint())];
    let mut number = |_| match rng.gen_range(0..8) {
        edge @ 0..4 => edges[edge],
        _ => Fr::from_le_bytes_mod_order(&rng.r#gen::<[u8; 32]>()),
    };
    (0..count).map(|_| (0..1 << lg_n).map(&mut number).collect()).collect()
}

pub fn plan(lg_n: u32, bits: u32) -> NttPlan {
    let bit = |i: u32| bits >> i & 1 == 1;
    let coset = bit(3).then_some(if bit(0) { -Fr::from(3) } else { Fr::GENERATOR });
    NttPlan { lg_n, inverse: bit(2), coset, input_reversed: bit(0), output_reversed: bit(1) }
}

/// Transforms, compares with arkworks, and returns the name of the engine that ran.
fn check(engine: &dyn MsmNttEngine, plan: &NttPlan, rows: &[Vec<Fr>]) -> &'static str {
    let (mut found, mut expected) = (rows.to_vec(), rows.to_vec());
    let executor = engine.ntt_in_place(plan, &mut found, &JobControl::default()).unwrap();
    let oracle = ArkworksEngine::new(1).unwrap();
    oracle.ntt_in_place(plan, &mut expected, &JobControl::default()).unwrap();
    let wrong = (0..rows.len()).find(|row| found[*row] != expected[*row]);
    assert_eq!(wrong, None, "of {} rows, {plan:?} on {executor:?}", rows.len());
    assert!(executor.device.contains(" pass") || executor.engine == "cpu", "{executor:?}");
    executor.engine
}

/// Compares the transforms of these shapes and kinds with those of arkworks.
fn match_arkworks(cases: &[(usize, u32)]) {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        let engine = engine(rig);
        for &(shape, bits) in cases {
            let (lg_n, count) = SHAPES[shape];
            if rig.runs_case(shape + bits as usize / 4) {
                assert_eq!(check(&engine, &plan(lg_n, bits), &rows(lg_n, count)), "cuda");
            }
        }
    });
}

/// All pairs of a shape and a kind of transform.
fn all_shapes_and_kinds() -> impl Iterator<Item = (usize, u32)> {
    (0..SHAPES.len()).flat_map(|shape| (0..16).map(move |bits| (shape, bits)))
}

/// Each shape with two kinds, and each kind once.
#[test]
fn every_order_direction_and_coset_matches_arkworks() {
    let is_chosen = |(shape, bits): &(usize, u32)| bits % 8 == *shape as u32;
    match_arkworks(&all_shapes_and_kinds().filter(is_chosen).collect::<Vec<_>>());
}

#[test]
#[ignore = "sweep"]
fn every_shape_in_every_order_direction_and_coset_matches_arkworks() {
    match_arkworks(&sweep::cases("shapes and kinds of transforms", all_shapes_and_kinds()));
}

#[test]
fn small_transforms_run_on_the_cpu() {
    let rig = DeviceRig::new();
    let engine = engine(&rig);
    for (lg_n, count) in [(0, 0), (0, 1), (11, 1), (5, 127), (14, 0)] {
        assert_eq!(check(&engine, &plan(lg_n, 0), &rows(lg_n, count)), "cpu");
    }
}

/// Runs transforms whose rows are divided into groups. A case is the number of a job and that of
/// the schedule under which it runs.
fn transform_groups(cases: &[(usize, usize)]) {
    // Four groups, the last one with few rows; in place and out of place.
    let jobs = [(12, 195, 0b0010), (9, 1560, 0b1101)];
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        for &(job, _) in cases.iter().filter(|(_, schedule)| rig.runs_case(*schedule)) {
            let (lg_n, count, bits) = jobs[job];
            assert_eq!(check(&engine(rig), &plan(lg_n, bits), &rows(lg_n, count)), "cuda");
        }
    });
}

#[test]
fn rows_in_overlapping_groups_are_right() {
    transform_groups(&[(0, 2), (1, 1)]);
}

#[test]
#[ignore = "sweep"]
fn rows_in_overlapping_groups_are_right_under_more_schedules() {
    transform_groups(&sweep::cases("schedules of groups", [(0, 0), (1, 3), (0, 1), (1, 2)]));
}

#[test]
fn concurrent_jobs_of_all_sizes_are_right() {
    run_jobs_at_once(&[1]);
}

#[test]
#[ignore = "sweep"]
fn concurrent_jobs_of_all_sizes_are_right_under_each_schedule() {
    run_jobs_at_once(&sweep::cases("schedules of concurrent transforms", 0..4));
}

fn run_jobs_at_once(schedules: &[usize]) {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        if !schedules.iter().any(|schedule| rig.runs_case(*schedule)) {
            return;
        }
        let engine = &engine(rig);
        thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || {
                    for turn in 0..4 {
                        let (lg_n, count) = SHAPES[(worker * 3 + turn * 5) % SHAPES.len()];
                        let plan = plan(lg_n, (worker * 7 + turn * 5) as u32 % 16);
                        assert_eq!(check(engine, &plan, &rows(lg_n, count)), "cuda");
                    }
                });
            }
        });
    });
}

#[test]
fn transforms_run_on_the_cpu_if_memory_is_short() {
    let rig = DeviceRig::new();
    let (engine, stream) = (engine(&rig), rig.stream());
    let arena = rig.gpu.arena();
    let rows = rows(12, 70);
    let mut engines = Vec::new();
    // Natural to natural order needs a second buffer for each group.
    for bits in [0b0010, 0b0000] {
        for room in [0, 1 << 10, 1 << 17, 1 << 20, 9 << 20, 18 << 20, 30 << 20] {
            let held = arena.lease(&stream, arena.largest_free_bytes() - room).unwrap();
            engines.push(check(&engine, &plan(12, bits), &rows));
            drop(held);
        }
        assert_eq!(check(&engine, &plan(12, bits), &rows), "cuda");
    }
    assert!(engines.contains(&"cpu") && engines.contains(&"cuda"), "{engines:?}");
    // Tables that did not fit are reported as lack of memory.
    assert!(rig.faults.lock().unwrap().iter().all(|fault| fault.class() == FaultClass::Exhausted));
}

#[test]
fn idle_bases_are_evicted_for_a_transform() {
    let rig = DeviceRig::new();
    let (engine, stream) = (engine(&rig), rig.stream());
    let one = G1Projective::generator();
    let points: Vec<_> =
        std::iter::successors(Some(one), |sum| Some(sum + one)).take(2_000).collect();
    let points = std::sync::Arc::new(G1Projective::normalize_batch(&points));
    let scalars: Vec<_> = (0..2_000).map(|i| -Fr::from(i)).collect();
    let bytes = fr_as_bytes(&scalars);
    let given = EncodedScalars::new(ScalarEncoding::Montgomery, scalars.len(), &bytes);
    let sum = || {
        let mut run = engine.msm(G1Affine::into_bases(PointSlice::new(points.clone())), 1).unwrap();
        run.absorb(0, 0, &given, &JobControl::default()).unwrap();
        let MsmSums::G1(sums) = run.finish().unwrap().sums else { panic!("sums in G2") };
        sums[0]
    };
    let expected: G1Projective = points.iter().zip(&scalars).map(|(point, s)| *point * s).sum();
    assert_eq!(sum(), expected);
    // Take all memory but that of the bases and the workspace, which are idle now.
    let arena = rig.gpu.arena();
    let mut held = Vec::new();
    while arena.free_bytes() > 0 {
        held.push(arena.lease(&stream, arena.largest_free_bytes()).unwrap());
    }
    assert_eq!(check(&engine, &plan(12, 2), &rows(12, 1)), "cuda");
    drop(held);
    assert_eq!(sum(), expected);
}

#[test]
fn cancelled_and_late_transforms_stop() {
    let rig = DeviceRig::new();
    let engine = engine(&rig);
    let rows = rows(12, 400);
    let run = |control: &JobControl| {
        engine
            .ntt_in_place(&plan(12, 2), &mut rows.clone(), control)
            .map(|executor| executor.engine)
    };
    let before = JobControl::default();
    before.cancel();
    assert_eq!(run(&before), Err(EngineError::Cancelled));
    let late = JobControl::new(Some(Instant::now()));
    assert_eq!(run(&late), Err(EngineError::Deadline));
    assert_eq!(check(&engine, &plan(12, 2), &rows[..3]), "cuda");
    drop(engine);
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

/// Checks that the ring hands out zeroed chunks only.
pub fn assert_pinned_memory_is_wiped(rig: &DeviceRig) {
    let (ring, stream) = (rig.gpu.ring(), rig.stream());
    let bytes = 9 * ring.chunk_bytes();
    let lease = rig.gpu.arena().lease(&stream, bytes as u64).unwrap();
    let mut upload = ring.upload(&stream, lease.all());
    let fill = |chunks: &mut [&mut [u8]]| {
        let is_wiped = |chunk: &&mut [u8]| chunk.iter().all(|byte| *byte == 0);
        assert!(chunks.iter().all(is_wiped), "a chunk holds data of an earlier job");
        Ok::<_, DeviceFault>(())
    };
    upload.fill_idle_chunks(bytes, fill).unwrap();
}

#[test]
fn jobs_leave_nothing_in_pinned_memory() {
    let rig = DeviceRig::new();
    let engine = engine(&rig);
    for (lg_n, count) in [(12, 2), (10, 300)] {
        check(&engine, &plan(lg_n, 0), &rows(lg_n, count));
        assert_pinned_memory_is_wiped(&rig);
    }
    let rows = rows(12, 400);
    for delay in [0, 5, 20, 60] {
        let late = JobControl::new(Some(Instant::now() + Duration::from_millis(delay)));
        let stopped = engine.ntt_in_place(&plan(12, 2), &mut rows.clone(), &late);
        assert!(matches!(stopped, Err(EngineError::Deadline) | Ok(_)));
        assert_pinned_memory_is_wiped(&rig);
    }
}

#[test]
fn a_lost_device_is_reported() {
    on_emulated_driver(PATIENCE, |rig| {
        let engine = engine(rig);
        control::fault("cuLaunchKernel:2:700");
        let lost = engine.ntt_in_place(&plan(12, 0), &mut rows(12, 2), &JobControl::default());
        assert_eq!(lost.unwrap_err(), EngineError::DeviceLost);
        assert!(!rig.gpu.context().is_alive());
    });
}
