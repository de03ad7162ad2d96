//! Programs on a GPU whose driver refuses calls: at most one run fails, and the next one is right.
//! A seed chooses the first call; as many seeds in a row as a stride has calls choose every call.

use capstan::{
    curve::NttPlan,
    engine::JobControl,
    error::Result,
    exec::Executor,
    field::{FieldId, Prime31},
    ops::{NttStep, Operation, PointwiseOperation, PointwiseStep, PolyReduction},
    program::ValueId,
    verify::Verification,
};

use crate::{
    elimination_faults::Elimination,
    product_faults::{executor, integer_product, product, value_of},
    refusal::{Refusal, Refusals},
    rig::on_emulated_driver,
    seeded_faults::seeds,
    transforms::{PATIENCE, assert_pinned_memory_is_wiped},
};

const UNCHECKED: Verification = Verification::None;

/// The product of two vectors of 2^10 elements as cyclic polynomials.
fn several_steps(executor: &dyn Executor) -> Result<Vec<u8>> {
    const LG_N: u32 = 10;
    let ntt = |input, inverse: bool| {
        let (input_reversed, output_reversed) = (inverse, !inverse);
        let plan = NttPlan { lg_n: LG_N, inverse, coset: None, input_reversed, output_reversed };
        Operation::from(NttStep { input: ValueId(input), plan })
    };
    let inputs = vec![ValueId(2), ValueId(3)];
    let product = PointwiseStep { operation: PointwiseOperation::Multiply, inputs }.into();
    let steps = vec![ntt(0, false), ntt(1, false), product, ntt(4, true)];
    value_of(executor, FieldId::Bls12381Fr, &[1 << LG_N; 2], steps, 1 << LG_N, UNCHECKED)
}

/// Runs `job` with one of each `step` driver calls refused. A run without memory may succeed: the
/// host computes some steps.
fn refuse_calls(job: impl Fn(&dyn Executor) -> Result<Vec<u8>>, step: usize) {
    on_emulated_driver(PATIENCE, |rig| {
        let right = job(&executor(rig)).unwrap();
        // With a new executor, tables are made, too.
        let new = || {
            let executor = executor(rig);
            let job = &job;
            move || job(&executor)
        };
        for seed in seeds(1) {
            let calls = (1 + seed % step as u64..).step_by(step);
            let Refusals { refused, failed } =
                Refusal::of_calls(rig, "any:K:2").refuse_each(calls, new, &right);
            println!("seed {seed}: {refused} calls refused, {failed} runs failed");
            assert!(refused >= 5, "{refused} calls refused");
            assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
        }
        assert!(rig.gpu.context().is_alive());
        assert_pinned_memory_is_wiped(rig);
    });
}

#[test]
fn programs_of_several_steps_survive_the_refusal_of_any_driver_call() {
    refuse_calls(several_steps, 31);
}

#[test]
fn products_over_31_bits_survive_the_refusal_of_any_driver_call() {
    let (field, reduction) = (Prime31::BabyBear.into(), PolyReduction::Cyclic(600));
    refuse_calls(|executor| product(executor, field, reduction, UNCHECKED), 13);
}

#[test]
fn products_of_integers_survive_the_refusal_of_any_driver_call() {
    refuse_calls(|executor| integer_product(executor, UNCHECKED), 43);
}

#[test]
fn eliminations_survive_the_refusal_of_any_driver_call() {
    for elimination in [Elimination::reduction(), Elimination::echelon()] {
        let job = |executor: &dyn Executor| {
            elimination.run(executor, &JobControl::default()).map(|done| done.bytes)
        };
        refuse_calls(job, 17);
    }
}
