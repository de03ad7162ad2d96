//! Vectors that cannot be factors or terms of integers, and rows that they cannot have.

use bytes::Bytes;
use capstan::wire::v1::{self, ScalarEncoding, step::Operation};

use crate::{
    daemon::{
        messages,
        programs::{
            call, concat, input, int_mul, int_sum, new_upload, ntt, pad, pointwise, send, word_call,
        },
    },
    runs::{KIND, LARGE, LENGTH, RANGE, run_call},
    table::{Call, Row, World, good, invalid},
};

const LIMBS: ScalarEncoding = ScalarEncoding::Limbs32;

pub fn rows(_: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    shapes(&mut rows);
    sums(&mut rows);
    reshapes(&mut rows);
    other_fields(&mut rows);
    // Other tests mutate it.
    rows.push(good("all steps on words", run_call(word_call()), None));
    rows
}

fn bytes(limbs: &[u32]) -> Bytes {
    limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect()
}

fn integers(rows: u32, length: u64) -> Operation {
    Operation::Input(v1::InputStep { field: v1::Field::Integers.into(), rows, length })
}

fn given(encoding: ScalarEncoding, data: Bytes) -> v1::ProgramInput {
    let source = Some(v1::program_input::Source::Inline(messages::scalars(encoding, data)));
    v1::ProgramInput { source, reduce: false }
}

fn upload(count: u64) -> v1::ProgramInput {
    let source = Some(v1::program_input::Source::Upload(messages::new_vector(LIMBS, count)));
    v1::ProgramInput { source, reduce: false }
}

fn sent(value: u32, encoding: ScalarEncoding) -> v1::ProgramOutput {
    let delivery = v1::program_output::Delivery::Send(v1::SendVector { encoding: encoding.into() });
    v1::ProgramOutput { delivery: Some(delivery), ..send(value) }
}

/// Runs a step on two integers of two limbs.
fn on_two(step: Operation) -> Call {
    let inputs = vec![given(LIMBS, bytes(&[1, 2])), given(LIMBS, bytes(&[3, u32::MAX]))];
    run_call(call([integers(1, 2), integers(1, 2), step], inputs, vec![sent(2, LIMBS)]))
}

fn sums(rows: &mut Vec<Row>) {
    // 1 + 2^33 - (3 + 2^64 - 2^32), modulo 2^64.
    let difference = bytes(&[u32::MAX - 1, 2]);
    rows.push(good("a difference below zero", on_two(int_sum(&[0, 1], &[1, -1], 2)), difference));
    let [inputs, factors] = ["program.steps[2].int_sum.inputs", "program.steps[2].int_sum.factors"];
    let mut row = |name: &str, step, reason, field| {
        rows.push(invalid(name, on_two(step), reason, field));
    };
    row("a sum of nothing", int_sum(&[], &[], 2), "MISSING", inputs);
    row("a sum of nine integers", int_sum(&[0; 9], &[1; 9], 2), LARGE, inputs);
    row("a term without a factor", int_sum(&[0, 1], &[1], 2), LENGTH, factors);
    row("a factor without a term", int_sum(&[0], &[1; 100_000], 2), LENGTH, factors);
    row("a factor of 2^32", int_sum(&[0], &[1 << 32], 2), LARGE, factors);
    row("the least factor", int_sum(&[0, 1], &[i64::MIN, i64::MIN], 2), LARGE, factors);
    row(
        "a sum of too many limbs",
        int_sum(&[0], &[1], u64::MAX),
        LARGE,
        "program.steps[2].int_sum.length",
    );
    let later = on_two(int_sum(&[0, 2], &[1, 1], 2));
    rows.push(invalid("a term of no step", later, RANGE, inputs).at(1));
}

fn reshapes(rows: &mut Vec<Row>) {
    let of_rows = |rows| on_two(Operation::Reshape(v1::ReshapeStep { input: 0, rows }));
    rows.push(good("a row for each limb", of_rows(2), bytes(&[1, 2])));
    let field = "program.steps[2].reshape.rows";
    rows.push(invalid("no rows", of_rows(0), "SIZE_ZERO", field));
    rows.push(invalid("rows that do not divide the elements", of_rows(3), RANGE, field));
    rows.push(invalid("far too many rows", of_rows(u32::MAX), RANGE, field));
    let step = Operation::Reshape(v1::ReshapeStep { input: 0, rows: 65537 });
    let empty = call([integers(1, 0), step], vec![upload(0)], vec![sent(1, LIMBS)]);
    let field = "program.steps[1].reshape.rows";
    rows.push(invalid("too many rows", run_call(empty), LARGE, field));
}

fn shapes(rows: &mut Vec<Row>) {
    // (1 + 2^33) (3 + 2^64 - 2^32).
    let product = bytes(&[3, 5, u32::MAX, 1]);
    rows.push(good("a product as it should be", on_two(int_mul(&[0, 1])), product));
    let field = "program.steps[2].int_mul.inputs";
    let mut row = |name: &str, inputs: &[u32], reason| {
        rows.push(invalid(name, on_two(int_mul(inputs)), reason, field));
    };
    row("no factor", &[], LENGTH);
    row("one factor", &[0], LENGTH);
    row("three factors", &[0, 1, 0], LENGTH);
    let later = on_two(int_mul(&[0, 2]));
    rows.push(invalid("a factor of no step", later, RANGE, field).at(1));
    let far = on_two(int_mul(&[u32::MAX, 0]));
    rows.push(invalid("a factor far away", far, RANGE, field).at(0));

    let of = |a: (u32, u64), b: (u32, u64)| {
        let steps = [integers(a.0, a.1), integers(b.0, b.1), int_mul(&[0, 1])];
        let inputs = [a, b].map(|(rows, length)| upload(u64::from(rows) * length));
        run_call(call(steps, inputs.to_vec(), vec![sent(2, LIMBS)]))
    };
    rows.push(invalid("a factor of no limb", of((1, 1), (1, 0)), "SIZE_ZERO", field).at(1));
    rows.push(invalid("no limb at all", of((1, 0), (1, 1)), "SIZE_ZERO", field).at(0));
    rows.push(invalid("rows without factors", of((1, 1), (2, 1)), KIND, field).at(1));
    rows.push(invalid("a product too long", of((1, 1 << 26), (1, 1)), LARGE, field));
    rows.push(invalid("a product far too long", of((1, 1 << 39), (1, 1 << 39)), LARGE, field));
}

/// Integers if a field is needed, and the reverse.
fn other_fields(rows: &mut Vec<Row>) {
    let mut row = |name: &str, step, field| {
        rows.push(invalid(name, on_two(step), KIND, field));
    };
    row("a transform of integers", ntt(0, 1), "program.steps[2].ntt.input");
    let element = Bytes::from(vec![0; 4]);
    let field = v1::Field::Integers.into();
    let constant = v1::ConstantStep { field, elements: element.clone() };
    row("a constant integer", Operation::Constant(constant), "program.steps[2].constant.field");
    let powers = v1::PowersStep { field, base: element, first: Bytes::new(), length: 2 };
    row("powers of an integer", Operation::Powers(powers), "program.steps[2].powers.field");
    let field = "program.steps[2].pointwise.inputs";
    let sum = pointwise(v1::PointwiseOperation::Add, &[0, 1]);
    rows.push(invalid("a sum of integers", on_two(sum), KIND, field).at(0));
    let product = v1::PolyMulStep { inputs: vec![0, 1], reduction: None };
    let product = on_two(Operation::PolyMul(product));
    let field = "program.steps[2].poly_mul.inputs";
    rows.push(invalid("a polynomial of limbs", product, KIND, field).at(0));

    let steps = [input(1, 2), int_mul(&[0, 0])];
    let of_fr = call(steps, vec![new_upload(2)], vec![sent(1, LIMBS)]);
    let field = "program.steps[1].int_mul.inputs";
    rows.push(invalid("integers of elements of Fr", run_call(of_fr), KIND, field).at(0));
    let mixed = [input(1, 2), integers(1, 2), concat(&[0, 1])];
    let inputs = vec![new_upload(2), given(LIMBS, bytes(&[1, 2]))];
    let field = "program.steps[2].concat.inputs";
    let mixed = call(mixed, inputs, vec![send(2)]);
    rows.push(invalid("integers after elements of Fr", run_call(mixed), KIND, field).at(1));

    let with = |encoding, data: Bytes, out| {
        let steps = [integers(1, 2), pad(0, 3)];
        run_call(call(steps, vec![given(encoding, data)], vec![sent(1, out)]))
    };
    let two = || bytes(&[1, 2]);
    let scalars = with(ScalarEncoding::U32, two(), LIMBS);
    rows.push(invalid("scalars as integers", scalars, RANGE, "inputs").at(0));
    let words = with(ScalarEncoding::Canonical31, two(), LIMBS);
    rows.push(invalid("elements of 31 bits as integers", words, RANGE, "inputs").at(0));
    let canonical = with(LIMBS, two(), ScalarEncoding::Canonical);
    rows.push(invalid("integers sent as elements of Fr", canonical, RANGE, "outputs").at(0));
    let half = with(LIMBS, vec![0; 6].into(), LIMBS);
    rows.push(invalid("half a limb", half, LENGTH, "inputs[0].inline.data"));
    let spec = v1::NttSpec { field: v1::Field::Integers.into(), ..messages::ntt_spec(1) };
    let call = Call::ntt(spec, messages::scalars(LIMBS, two()));
    rows.push(invalid("an NTT of integers", call, KIND, "spec.field"));
}
