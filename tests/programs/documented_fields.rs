//! `docs/fields.md` and README.md say which step takes which field. `tests/service` checks the rows
//! of calls.

use std::collections::BTreeMap;

use capstan::{
    curve::{Fr, Group, NttPlan},
    error::{FieldProblem, InputError},
    field::{FieldId, Prime31},
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        Gf2EchelonStep, Gf2ReduceStep, InputStep, IntMulStep, IntSumStep, LinearCombinationStep,
        MsmStep, NttStep, Operation, OperationKind, OperationProgram, PadStep, PointwiseOperation,
        PointwiseStep, PolyMulStep, PolyReduction, PowersStep, PrefixProductStep, ReshapeStep,
        SliceStep, SparseProductStep,
    },
    program::{Constant, StepKind, ValueId},
};

const PAGE: &str = include_str!("../../docs/fields.md");
const README: &str = include_str!("../../README.md");

/// The calls that compute without a program. `tests/service/documented_calls.rs` compares their
/// rows of the page with the server.
const CALLS: [&str; 4] = ["Compute.Ntt", "Compute.NttStream", "Compute.Msm", "Compute.MsmStream"];

/// A step of this kind that suits an input of two elements, apart from its field.
pub fn step(kind: OperationKind, field: FieldId) -> Operation {
    let (input, inputs) = (ValueId(0), vec![ValueId(0)]);
    let one = Constant::one(field);
    let (object_id, offset, point) = ([0; 32], 0, Fr::from(2));
    match kind {
        OperationKind::Input => InputStep { field, rows: 1, length: 2 }.into(),
        OperationKind::Constant => ConstantStep { field, elements: vec![one] }.into(),
        OperationKind::Powers => PowersStep { field, base: one, first: one, length: 2 }.into(),
        OperationKind::Ntt => {
            let (inverse, input_reversed, output_reversed) = Default::default();
            let coset = Some(one);
            let plan = NttPlan { lg_n: 1, inverse, coset, input_reversed, output_reversed };
            NttStep { input, plan }.into()
        }
        OperationKind::Pointwise => {
            PointwiseStep { operation: PointwiseOperation::Invert, inputs }.into()
        }
        OperationKind::LinearCombination => {
            LinearCombinationStep { inputs, factors: vec![one] }.into()
        }
        OperationKind::Slice => SliceStep { input, offset, length: 1 }.into(),
        OperationKind::Concat => ConcatStep { inputs }.into(),
        OperationKind::Pad => PadStep { input, length: 3 }.into(),
        OperationKind::Evaluate => EvaluateStep { input, point: one }.into(),
        OperationKind::PrefixProduct => PrefixProductStep { input }.into(),
        OperationKind::DivideByLinear => DivideByLinearStep { input, point }.into(),
        OperationKind::DivideByVanishing => {
            DivideByVanishingStep { input, lg_n: 1, coset_generator: point }.into()
        }
        OperationKind::Msm => MsmStep { input, group: Group::G1, object_id, offset }.into(),
        OperationKind::SparseProduct => {
            SparseProductStep { input, object_id, rows: 1, terms: 1 }.into()
        }
        OperationKind::PolyMul => {
            PolyMulStep { inputs: vec![input, input], reduction: PolyReduction::None }.into()
        }
        OperationKind::Gf2Reduce => Gf2ReduceStep { inputs: [input, input], columns: 64 }.into(),
        OperationKind::Gf2Echelon => Gf2EchelonStep { input, columns: 64 }.into(),
        OperationKind::IntMul => IntMulStep { inputs: vec![input, input] }.into(),
        OperationKind::IntSum => IntSumStep { inputs, factors: vec![1], length: 2 }.into(),
        OperationKind::Reshape => ReshapeStep { input, rows: 2 }.into(),
    }
}

pub fn takes(field: FieldId, step: Operation) -> bool {
    let input = InputStep { field, rows: 1, length: 2 }.into();
    match OperationProgram::new(vec![input, step]) {
        Ok(_) => true,
        Err(InputError::Invalid { problem: FieldProblem::UnsupportedField { .. }, .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

/// The cells of each operation, which are "yes" or "no" for Fr, 31-bit primes, GF(2) and integers.
type FieldCells = BTreeMap<String, [String; 4]>;

/// The rows of the table with this header. The first cell of a row names operations in backticks.
fn table(text: &str, header: &str) -> FieldCells {
    let (_, rows) = text.split_once(header).expect("the header of the table");
    let mut table = FieldCells::new();
    for row in rows.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [names, cells @ ..] = cells.as_slice() else { panic!("{row}") };
        let cells: [&str; 4] = cells.try_into().expect("a cell for each kind of field");
        for name in names.split('`').skip(1).step_by(2) {
            let earlier = table.insert(name.to_owned(), cells.map(str::to_owned));
            assert!(earlier.is_none(), "{name} has two rows");
        }
    }
    table
}

fn page_table() -> FieldCells {
    table(PAGE, "| operation | Fr | 31-bit primes | GF(2) | integers |")
}

#[test]
fn the_page_says_which_step_takes_which_field() {
    let yes_or_no = |takes| if takes { "yes" } else { "no" }.to_owned();
    for prime in Prime31::ALL {
        let fields = [FieldId::Bls12381Fr, FieldId::from(*prime), FieldId::Gf2, FieldId::Integers];
        let mut expected = FieldCells::new();
        for kind in OperationKind::ALL {
            let step = |field| step(*kind, field);
            let answers = fields.map(|field| yes_or_no(takes(field, step(field))));
            assert_eq!(step(fields[0]).name(), kind.name());
            expected.insert(kind.name().to_owned(), answers);
        }
        let mut page = page_table();
        for call in CALLS {
            assert!(page.remove(call).is_some(), "docs/fields.md needs a row of {call}");
        }
        assert_eq!(page, expected, "the table of docs/fields.md");
        let (name, order) = (prime.name(), prime.modulus() - 1);
        let (lg_n, generator) = (prime.two_adicity(), prime.generator());
        let factor = order >> lg_n;
        let order = format!("| `{name}` | {factor} * 2^{lg_n} + 1");
        let row = PAGE.lines().find(|line| line.contains(&order));
        let row = row.unwrap_or_else(|| panic!("docs/fields.md needs a row with {order}"));
        let end = format!("| {generator} | 2^{lg_n} | 4 |");
        assert!(row.ends_with(&end), "{row} should end with {end}");
    }
}

#[test]
fn the_readme_says_the_same_as_the_page() {
    assert_eq!(table(README, "| | Fr | 31-bit primes | GF(2) | integers |"), page_table());
}
