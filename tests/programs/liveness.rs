//! Which values a run holds, on examples that are counted by hand.

use ark_ff::One;
use capstan::{
    curve::{Fr, Group},
    ops::{EvaluateStep, MsmStep, OperationProgram, PadStep, PointwiseOperation, PointwiseStep},
    program::{Liveness, ResultMemory, ValueId},
};

use crate::rig::{Call, powers};

/// Bytes of a vector of 100 elements.
const VECTOR: u64 = 3200;
/// Bytes of one element.
const ELEMENT: u64 = 32;

fn add(a: ValueId, b: ValueId) -> PointwiseStep {
    PointwiseStep { operation: PointwiseOperation::Add, inputs: vec![a, b] }
}

/// Values of 100 elements: an input (0), powers (1), their sum (2), the sum and the powers (3), and
/// its value at a point (4); and an input that only an MSM (6) reads (5).
fn program() -> OperationProgram {
    let mut call = Call::default();
    let input = call.input_step(1, 100);
    let powers = call.push(powers(Fr::one(), Fr::one(), 100));
    let sum = call.push(add(input, powers));
    let second = call.push(add(powers, sum));
    call.push(EvaluateStep { input: second, point: Fr::one().into() });
    let scalars = call.input_step(1, 100);
    let (group, object_id) = (Group::G1, [0; 32]);
    call.push(MsmStep { input: scalars, group, object_id, offset: 0 });
    OperationProgram::new(call.steps).expect("allowed")
}

fn liveness(outputs: &[u32], memory: ResultMemory) -> Liveness {
    let outputs: Vec<_> = outputs.iter().copied().map(ValueId).collect();
    Liveness::new(&program(), &outputs, memory).expect("allowed")
}

#[test]
fn the_peak_counts_values_from_their_step_to_their_last_use() {
    let peak = |outputs: &[u32], memory| liveness(outputs, memory).peak_bytes();
    // At step 2 the sum takes the input's memory, and the second sum takes that of the powers.
    assert_eq!(peak(&[4], ResultMemory::Reused), 2 * VECTOR);
    assert_eq!(peak(&[4], ResultMemory::New), 3 * VECTOR);
    // Two vectors and the sum that the powers outlive.
    assert_eq!(peak(&[2], ResultMemory::Reused), 2 * VECTOR);
    assert_eq!(peak(&[0], ResultMemory::Reused), VECTOR);
    // The scalars stay in the payload; as an output they are decoded.
    assert_eq!(peak(&[6], ResultMemory::Reused), 3 * 48);
    assert_eq!(peak(&[6, 5], ResultMemory::Reused), VECTOR + 3 * 48);
}

#[test]
fn each_step_holds_its_value_and_those_that_are_read_later() {
    let held = |outputs: &[u32], memory| {
        let liveness = liveness(outputs, memory);
        [0, 1, 2, 3, 4].map(|step| liveness.held_bytes(ValueId(step)))
    };
    let [one, two, three] = [1, 2, 3].map(|vectors| vectors * VECTOR);
    assert_eq!(held(&[4], ResultMemory::Reused), [one, two, two, two, one + ELEMENT]);
    assert_eq!(held(&[4], ResultMemory::New), [one, two, three, three, one + ELEMENT]);
    assert_eq!(held(&[2], ResultMemory::New), [one, two, three, 0, 0]);
}

#[test]
fn values_end_with_the_last_step_that_reads_them() {
    let liveness = liveness(&[4], ResultMemory::Reused);
    let ends = |step| liveness.last_uses(ValueId(step)).iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!((ends(0), ends(1), ends(2)), (vec![], vec![], vec![0]));
    let mut third = ends(3);
    third.sort_unstable();
    assert_eq!((third, ends(4)), (vec![1, 2], vec![4, 3]));
    let needed: Vec<_> = (0..7).map(|step| liveness.is_needed(ValueId(step))).collect();
    assert_eq!(needed, [true, true, true, true, true, false, false]);
}

#[test]
fn steps_overwrite_what_they_read_last() {
    let in_place = |outputs: &[u32], memory| {
        let liveness = liveness(outputs, memory);
        (0..5).map(|step| liveness.in_place(ValueId(step))).collect::<Vec<_>>()
    };
    // The powers are read again, and one element cannot take a vector's memory.
    let expected = [None, None, Some(0), Some(0), None];
    assert_eq!(in_place(&[4], ResultMemory::Reused), expected);
    // An output has been delivered when a later step overwrites it.
    assert_eq!(in_place(&[0, 2, 4], ResultMemory::Reused), expected);
    assert_eq!(in_place(&[4], ResultMemory::New), [None; 5]);
}

#[test]
fn a_value_that_is_read_twice_by_a_step_is_not_overwritten() {
    let mut call = Call::default();
    let input = call.input_step(1, 100);
    call.push(add(input, input));
    let padded = call.push(PadStep { input: ValueId(1), length: 101 });
    let program = call.program().expect("allowed");
    let liveness = Liveness::new(&program, &[padded], ResultMemory::Reused).expect("allowed");
    assert_eq!([1, 2].map(|step| liveness.in_place(ValueId(step))), [None, None]);
    assert_eq!(liveness.peak_bytes(), 2 * VECTOR + ELEMENT);
}
