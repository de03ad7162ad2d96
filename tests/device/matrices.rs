//! Sparse matrices that the engine with GPUs keeps on the device: residency, LRU eviction, and
//! failures.

use std::sync::Arc;

use ark_ff::{AdditiveGroup as _, UniformRand as _};
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    curve::{Fr, FrField, G1Affine, layout, scalars::ScalarEncoding},
    engine::{
        JobControl,
        cuda::{CudaEngine, GpuPolicy, GpuVectors},
    },
    error::{EngineError, Result},
    field::FieldId,
    sparse::{SparseBuilder, SparseMatrix},
};

use crate::{
    known_msms::{MsmCase, engine, engine_with, is_exhausted, lease_all_but, splitting_policy},
    rig::{CheckLimit, DeviceRig},
    vec_sink::VecSink,
};

const COLUMNS: usize = 30;

/// A matrix with rows of `row_length` terms, most of whose coefficients are 1 or -1.
fn matrix(rows: usize, row_length: usize) -> SparseMatrix {
    let mut random = StdRng::seed_from_u64(row_length as u64);
    let mut builder = SparseBuilder::new(rows, COLUMNS);
    for _ in 0..rows {
        let term = |random: &mut StdRng| {
            let coefficient = match random.gen_range(0..20) {
                0 => Fr::rand(random),
                bit => Fr::from(bit % 2) * Fr::from(2_u64) - Fr::from(1_u64),
            };
            (coefficient, random.gen_range(0..COLUMNS))
        };
        builder.push_row((0..row_length).map(|_| term(&mut random))).unwrap();
    }
    builder.build().unwrap()
}

fn vector() -> Vec<Fr> {
    let mut random = StdRng::seed_from_u64(1);
    (0..COLUMNS).map(|_| Fr::rand(&mut random)).collect()
}

fn product_on_host(matrix: &SparseMatrix) -> Vec<Fr> {
    let mut product = vec![Fr::ZERO; matrix.rows()];
    matrix.multiply(&vector(), &mut product);
    product
}

/// Multiplies by each matrix, as one job, and compares the products with the host's.
fn multiply(
    engine: &Arc<CudaEngine>,
    matrices: &[&SparseMatrix],
    control: &JobControl,
) -> Result<()> {
    let mut job = GpuVectors::new(engine.clone(), &[], control)?;
    let input = job.constant(FrField, &vector())?;
    let products: Vec<_> =
        matrices.iter().map(|matrix| job.multiply_sparse(matrix, &input)).collect::<Result<_>>()?;
    for (matrix, product) in matrices.iter().zip(&products) {
        let sink = VecSink::new(matrix.rows() * size_of::<Fr>());
        job.copy_out(product, &sink)?;
        let expected = product_on_host(matrix);
        assert!(sink.into_bytes() == layout::fr_as_bytes(&expected), "a wrong product");
    }
    Ok(())
}

#[test]
fn least_recently_used_matrices_are_evicted() {
    let rig = DeviceRig::new();
    let engine = Arc::new(engine(&rig));
    let matrices = [(); 4].map(|()| matrix(20, 2000));
    // Memory for two matrices and for a job's vectors.
    let held = lease_all_but(&rig, 5 * matrices[0].as_bytes().len() as u64 / 2);
    let (has, none) = (true, false);
    for (number, expected) in [
        (0, [has, none, none, none]),
        (1, [has, has, none, none]),
        (0, [has, has, none, none]),
        (2, [has, none, has, none]),
        (3, [none, none, has, has]),
        (2, [none, none, has, has]),
        (0, [has, none, has, none]),
    ] {
        multiply(&engine, &[&matrices[number]], &JobControl::default()).unwrap();
        let found = matrices.each_ref().map(|matrix| engine.has_resident_matrix(matrix));
        assert_eq!(found, expected, "after {number}");
    }
    // A job's own matrices are not evicted for its next one.
    let [first, second, third, _] = &matrices;
    multiply(&engine, &[first, second], &JobControl::default()).unwrap();
    let failed = multiply(&engine, &[first, second, third], &JobControl::default());
    assert!(is_exhausted(&failed.unwrap_err()));
    multiply(&engine, &[third], &JobControl::default()).unwrap();
    drop(held);
}

#[test]
fn idle_matrices_make_room_for_bases_and_idle_bases_for_matrices() {
    let rig = DeviceRig::new();
    let engine = Arc::new(engine(&rig));
    let case = MsmCase::<G1Affine>::new(6000, 1, ScalarEncoding::Canonical);
    let (object, matrix) = (case.object(), matrix(40, 1200));
    let go = JobControl::default();
    // The matrix has two thirds of the bytes of the bases. There is memory for one of them.
    let held = lease_all_but(&rig, 900 << 10);
    case.run_prefix(&engine, &object, 9);
    assert!(engine.has_resident(&MsmCase::bases(&object)));
    multiply(&engine, &[&matrix], &go).unwrap();
    assert!(engine.has_resident_matrix(&matrix));
    assert!(!engine.has_resident(&MsmCase::bases(&object)), "idle bases were not evicted");
    case.run_prefix(&engine, &object, 9);
    assert!(engine.has_resident(&MsmCase::bases(&object)));
    assert!(!engine.has_resident_matrix(&matrix), "an idle matrix was not evicted");
    drop(held);
    multiply(&engine, &[&matrix], &go).unwrap();
    assert!(engine.has_resident_matrix(&matrix) && engine.has_resident(&MsmCase::bases(&object)));
}

#[test]
fn clones_of_a_matrix_are_one_object_and_dropped_ones_leave_the_device() {
    let rig = DeviceRig::new();
    let engine = Arc::new(engine(&rig));
    let go = JobControl::default();
    let (kept, dropped) = (matrix(40, 3), matrix(40, 3));
    multiply(&engine, &[&kept, &kept.clone(), &dropped], &go).unwrap();
    assert!(engine.has_resident_matrix(&kept) && engine.has_resident_matrix(&dropped));
    let copy = matrix(40, 3);
    assert!(!engine.has_resident_matrix(&copy), "an equal matrix is another object");
    drop(dropped);
    let before = rig.gpu.arena().free_bytes();
    multiply(&engine, &[&copy], &go).unwrap();
    assert_eq!(rig.gpu.arena().free_bytes(), before, "the dropped matrix is still there");
    drop((kept, copy));
    drop(engine);
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

#[test]
fn products_that_are_launched_in_groups_are_right() {
    let rig = DeviceRig::new();
    let terms = 2 * 2100;
    // Of five rows, in groups of one, two, and all.
    for sparse_terms_launched_max in [1, 2 * terms + 1, 5 * terms] {
        let policy = GpuPolicy { sparse_terms_launched_max, ..splitting_policy() };
        let engine = Arc::new(engine_with(&rig, policy));
        let mut job = GpuVectors::new(engine, &[], &JobControl::default()).unwrap();
        let (matrix, one) = (matrix(2, 2100), job.constant(FrField, &vector()).unwrap());
        let rows = job.zeros(FieldId::Bls12381Fr, 5, COLUMNS).unwrap();
        let from = one.fr_elements().unwrap();
        for row in 0..5 {
            let to = rows.fr_row(row).unwrap();
            job.kernels().multiply(&job.stream, to, from, from).unwrap();
        }
        let squares: Vec<_> = vector().iter().map(|element| element * element).collect();
        let product = job.multiply_sparse(&matrix, &rows).unwrap();
        let sink = VecSink::new(5 * matrix.rows() * size_of::<Fr>());
        job.copy_out(&product, &sink).unwrap();
        let mut expected = vec![Fr::ZERO; matrix.rows()];
        matrix.multiply(&squares, &mut expected);
        assert!(sink.into_bytes() == layout::fr_as_bytes(&expected.repeat(5)));
    }
}

#[test]
fn a_product_stops_at_every_check_and_at_every_refused_lease() {
    let rig = DeviceRig::new();
    let limit = CheckLimit::new();
    let policy = GpuPolicy { cancellation_gate: limit.gate(), ..splitting_policy() };
    let engine = Arc::new(engine_with(&rig, policy));
    // Longer rows than a piece, so that there are sums of pieces.
    let mut stops = 0;
    for checks in 0.. {
        let matrix = matrix(2, 2100);
        limit.set(checks);
        let done = multiply(&engine, &[&matrix], &JobControl::default());
        limit.set(u64::MAX);
        match done {
            Ok(()) => break,
            Err(EngineError::Cancelled) => stops += 1,
            Err(error) => panic!("{error:?}"),
        }
        multiply(&engine, &[&matrix], &JobControl::default()).unwrap();
    }
    assert!(stops >= 3, "{stops} stops");
    let mut refused = 0;
    for nth in 1.. {
        let matrix = matrix(2, 2100);
        rig.lease_refusal.arm(nth);
        let done = multiply(&engine, &[&matrix], &JobControl::default());
        if !rig.lease_refusal.is_done() {
            done.unwrap();
            rig.lease_refusal.arm(0);
            break;
        }
        assert!(is_exhausted(&done.unwrap_err()));
        refused += 1;
        multiply(&engine, &[&matrix], &JobControl::default()).unwrap();
    }
    // The input, the matrix, its product, and the sums of pieces.
    assert_eq!(refused, 4);
}
