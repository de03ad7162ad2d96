//! `docs/fields.md` says which step takes which field.

use capstan::{
    curve::{Fr, Group, NttPlan},
    error::{Error, FieldProblem},
    field::{FieldId, Prime31},
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        Gf2EchelonStep, Gf2ReduceStep, InputStep, IntMulStep, IntSumStep, LinearCombinationStep,
        MsmStep, NttStep, Operation, OperationProgram, PadStep, PointwiseOperation, PointwiseStep,
        PolyMulStep, PolyReduction, PowersStep, ReshapeStep, SliceStep, SparseProductStep,
    },
    program::{Constant, StepKind, ValueId},
};

const PAGE: &str = include_str!("../../docs/fields.md");

/// A step of every kind that suits an input of two elements, apart from its field.
fn every_kind(field: FieldId) -> Vec<Operation> {
    let (input, inputs) = (ValueId(0), vec![ValueId(0)]);
    let one = Constant::one(field);
    let (inverse, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n: 1, inverse, coset: Some(one), input_reversed, output_reversed };
    let (object_id, offset, point) = ([0; 32], 0, Fr::from(2));
    vec![
        InputStep { field, rows: 1, length: 2 }.into(),
        ConstantStep { field, elements: vec![one] }.into(),
        PowersStep { field, base: one, first: one, length: 2 }.into(),
        NttStep { input, plan }.into(),
        PointwiseStep { operation: PointwiseOperation::Invert, inputs: inputs.clone() }.into(),
        LinearCombinationStep { inputs: inputs.clone(), factors: vec![one] }.into(),
        SliceStep { input, offset, length: 1 }.into(),
        ConcatStep { inputs }.into(),
        PadStep { input, length: 3 }.into(),
        EvaluateStep { input, point: one }.into(),
        DivideByLinearStep { input, point }.into(),
        DivideByVanishingStep { input, lg_n: 1, coset_generator: point }.into(),
        MsmStep { input, group: Group::G1, object_id, offset }.into(),
        SparseProductStep { input, object_id, rows: 1, terms: 1 }.into(),
        PolyMulStep { inputs: vec![input, input], reduction: PolyReduction::None }.into(),
        Gf2ReduceStep { inputs: [input, input], columns: 64 }.into(),
        Gf2EchelonStep { input, columns: 64 }.into(),
        IntMulStep { inputs: vec![input, input] }.into(),
        IntSumStep { inputs: vec![input], factors: vec![1], length: 2 }.into(),
        ReshapeStep { input, rows: 2 }.into(),
    ]
}

fn takes(field: FieldId, step: Operation) -> bool {
    let input = InputStep { field, rows: 1, length: 2 }.into();
    match OperationProgram::new(vec![input, step]) {
        Ok(_) => true,
        Err(Error::Step { problem: FieldProblem::UnsupportedField { .. }, .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_kind_is_every_kind() {
    let names: Vec<_> = every_kind(FieldId::Bls12381Fr).iter().map(StepKind::name).collect();
    assert_eq!(names, Operation::NAMES);
}

#[test]
fn the_page_says_which_step_takes_which_field() {
    let yes_or_no = |takes| if takes { "yes" } else { "no" };
    for prime in Prime31::ALL {
        let fields = [FieldId::Bls12381Fr, FieldId::from(*prime), FieldId::Gf2, FieldId::Integers];
        for (at, step) in every_kind(fields[0]).iter().enumerate() {
            let name = step.name();
            let answer = |field| yes_or_no(takes(field, every_kind(field)[at].clone()));
            let [fr, other, gf2, integers] = fields.map(answer);
            let row = format!("| `{name}` | {fr} | {other} | {gf2} | {integers} |");
            assert!(PAGE.contains(&row), "docs/fields.md needs the row {row}");
        }
        let (name, order) = (prime.name(), prime.modulus() - 1);
        let (lg_n, generator) = (prime.two_adicity(), prime.generator());
        let factor = order >> lg_n;
        let row = format!("| `{name}` | {factor} * 2^{lg_n} + 1");
        assert!(PAGE.contains(&row), "docs/fields.md needs the row {row}");
        let row = format!("| {generator} | 2^{lg_n} | 4 |");
        assert!(PAGE.contains(&row), "docs/fields.md needs the row {row}");
    }
}
