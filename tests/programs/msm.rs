//! MSM steps, against arkworks.

use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{AdditiveGroup, Field};
use capstan::{
    curve::{Fr, G1Affine, G2Affine, Group, points::CurvePoint, scalars::ScalarEncoding},
    error::FieldProblem,
    field::FieldId,
    ops::{ConstantStep, MsmStep, PointwiseOperation, PointwiseStep},
    program::{StepProblem, ValueId},
};

use crate::rig::{Call, CallInput, OutputValue, Rows, bases, constants, random_rows, some_of};

/// Distinct points, and infinity.
pub fn points<A: CurvePoint>(count: usize) -> Vec<A> {
    let mut points: Vec<_> =
        (1..=count as u64).map(|i| A::Group::generator() * Fr::from(i * i)).collect();
    points.iter_mut().skip(2).step_by(5).for_each(|point| *point = A::Group::ZERO);
    A::Group::normalize_batch(&points)
}

pub fn msm<A: CurvePoint>(input: ValueId, offset: u64) -> MsmStep {
    MsmStep { input, group: A::GROUP, object_id: [7; 32], offset }
}

pub fn sums<A: CurvePoint>(points: &[A], rows: &Rows) -> OutputValue {
    let sums = rows.iter().map(|row| A::Group::msm(points, row).expect("equal lengths"));
    OutputValue::Points(A::into_sums(sums.collect()))
}

fn rows_are_summed<A: CurvePoint>() {
    let first = usize::from(A::GROUP == Group::G1);
    let shapes = [(1, 0), (3, 0), (1, 1), (2, 3), (4, 40), (1, 300)];
    for (rows, length) in some_of(shapes, 2, first) {
        let points = points::<A>(length);
        let mut scalars = random_rows(rows, length, 1);
        scalars.iter_mut().flatten().step_by(3).for_each(|scalar| *scalar = Fr::ZERO);
        let mut call = Call { bases: vec![bases(points.clone())], ..Call::default() };
        let input = call.input(&scalars);
        let value = call.push(msm::<A>(input, 0));
        call.outputs = vec![value];
        assert_eq!(call.outputs(), [sums(&points, &scalars)], "{rows} x {length}");
        // Of a vector that another step makes.
        let mut call = Call { inputs: call.inputs, bases: call.bases, ..Call::default() };
        let input = call.input_step(rows, length);
        let inputs = vec![input, input];
        let operation = PointwiseOperation::Multiply;
        let squares = call.push(PointwiseStep { operation, inputs });
        let value = call.push(msm::<A>(squares, 0));
        call.outputs = vec![value, squares];
        scalars.iter_mut().flatten().for_each(|scalar| *scalar = scalar.square());
        let expected = [sums(&points, &scalars), OutputValue::Rows(scalars)];
        assert_eq!(call.outputs(), expected, "{rows} x {length}");
    }
}

#[test]
fn rows_are_summed_in_both_groups() {
    rows_are_summed::<G1Affine>();
    rows_are_summed::<G2Affine>();
}

/// An input that only MSMs read keeps its encoding.
#[test]
fn narrow_scalars_are_summed() {
    let points = points::<G1Affine>(4);
    let bytes: Vec<u8> = (0..16_u32).map(|i| (37 * i + 120) as u8).collect();
    for encoding in [
        ScalarEncoding::Unsigned(1),
        ScalarEncoding::Signed(1),
        ScalarEncoding::Unsigned(2),
        ScalarEncoding::Signed(4),
    ] {
        let signed = matches!(encoding, ScalarEncoding::Signed(_));
        let width = encoding.width();
        let scalar = |bytes: &[u8]| {
            let negative = signed && bytes[bytes.len() - 1] >= 0x80;
            let mut wide = [if negative { 0xff } else { 0 }; 16];
            wide[..bytes.len()].copy_from_slice(bytes);
            Fr::from(i128::from_le_bytes(wide))
        };
        let bytes = bytes[..16.min(8 * width)].to_vec();
        let scalars: Vec<Fr> = bytes.chunks(width).map(scalar).collect();
        let rows: Rows = scalars.chunks(4).map(<[Fr]>::to_vec).collect();
        let mut call = Call::default();
        let input = call.input_step(rows.len(), 4);
        call.inputs = vec![CallInput::new(encoding, bytes)];
        call.bases = vec![bases(points.clone()), bases(points[..].to_vec())];
        call.outputs =
            vec![call.push(msm::<G1Affine>(input, 0)), call.push(msm::<G1Affine>(input, 0))];
        let expected = sums(&points, &rows);
        assert_eq!(call.outputs(), [expected.clone(), expected], "{encoding:?}");
    }
}

#[test]
fn constants_are_scalars_too() {
    let points = points::<G2Affine>(3);
    let elements = random_rows(1, 3, 9).remove(0);
    let mut call = Call { bases: vec![bases(points.clone())], ..Call::default() };
    let input =
        call.push(ConstantStep { field: FieldId::Bls12381Fr, elements: constants(&elements) });
    call.outputs = vec![call.push(msm::<G2Affine>(input, 0))];
    assert_eq!(call.outputs(), [sums(&points, &vec![elements])]);
}

#[test]
fn bases_are_a_range_of_those_stored() {
    let stored = points::<G1Affine>(10);
    let stored = bases(stored);
    let step = |offset| msm::<G1Affine>(ValueId(0), offset);
    assert_eq!(step(3).bases(&stored, 7).map(|bases| bases.len()), Ok(7));
    assert_eq!(step(10).bases(&stored, 0).map(|bases| bases.len()), Ok(0));
    let refused = |problem| Err::<usize, _>(problem);
    assert_eq!(
        step(4).bases(&stored, 7).map(|bases| bases.len()),
        refused(StepProblem::field("offset", FieldProblem::TooLarge { max: 3 }))
    );
    assert_eq!(
        step(u64::MAX).bases(&stored, 0).map(|bases| bases.len()),
        refused(StepProblem::field("offset", FieldProblem::TooLarge { max: 10 }))
    );
    assert_eq!(
        step(0).bases(&stored, 11).map(|bases| bases.len()),
        refused(StepProblem::field("input", FieldProblem::TooLong { max: 10, got: 11 }))
    );
    assert_eq!(
        msm::<G2Affine>(ValueId(0), 0).bases(&stored, 1).map(|bases| bases.len()),
        refused(StepProblem::field("group", FieldProblem::OtherGroup))
    );
}
