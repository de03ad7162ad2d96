//! Vectors that cannot be matrices of bits, and rows that cannot be pivots.

use bytes::Bytes;
use capstan::wire::v1::{self, ScalarEncoding, step::Operation};

use crate::{
    daemon::{
        messages,
        programs::{call, concat, input, new_upload, ntt, pad, pointwise, send},
    },
    runs::{KIND, LARGE, LENGTH, RANGE, run_call},
    table::{Call, Row, World, good, invalid},
};

const BITS: ScalarEncoding = ScalarEncoding::PackedBits64;

pub fn rows(_: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    shapes(&mut rows);
    contents(&mut rows);
    other_fields(&mut rows);
    rows
}

fn words(words: &[u64]) -> Bytes {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn bits(length: u64) -> Operation {
    Operation::Input(v1::InputStep { field: v1::Field::Gf2.into(), rows: 1, length })
}

fn reduce(columns: u64) -> Operation {
    Operation::Gf2Reduce(v1::Gf2ReduceStep { pivots: 0, rows: 1, columns })
}

fn echelon(columns: u64) -> Operation {
    Operation::Gf2Echelon(v1::Gf2EchelonStep { input: 0, columns })
}

fn given(encoding: ScalarEncoding, data: Bytes) -> v1::ProgramInput {
    let source = Some(v1::program_input::Source::Inline(messages::scalars(encoding, data)));
    v1::ProgramInput { source, reduce: false }
}

fn sent(value: u32, encoding: ScalarEncoding) -> v1::ProgramOutput {
    let delivery = v1::program_output::Delivery::Send(v1::SendVector { encoding: encoding.into() });
    v1::ProgramOutput { delivery: Some(delivery), ..send(value) }
}

/// Runs a step on two matrices.
fn on_two(pivots: &[u64], rows: &[u64], step: Operation) -> Call {
    let steps = [bits(pivots.len() as u64), bits(rows.len() as u64), step];
    let inputs = [pivots, rows].map(|matrix| given(BITS, words(matrix)));
    run_call(call(steps, inputs.to_vec(), vec![sent(2, BITS)]))
}

fn shapes(rows: &mut Vec<Row>) {
    let mut row = |name: &str, step: Operation, reason, field| {
        rows.push(invalid(name, on_two(&[1, 0, 2, 0], &[3, 0], step), reason, field));
    };
    row("no column", reduce(0), "SIZE_ZERO", "program.steps[2].gf2_reduce.columns");
    row("no column of a form", echelon(0), "SIZE_ZERO", "program.steps[2].gf2_echelon.columns");
    for columns in [(1 << 20) + 1, u64::MAX] {
        row("too many columns", reduce(columns), LARGE, "program.steps[2].gf2_reduce.columns");
        row("columns of a form", echelon(columns), LARGE, "program.steps[2].gf2_echelon.columns");
    }
    row("half a pivot", reduce(300), LENGTH, "program.steps[2].gf2_reduce.pivots");
    row("half a row", reduce(200), LENGTH, "program.steps[2].gf2_reduce.rows");
    row("half a row of a form", echelon(1 << 20), LENGTH, "program.steps[2].gf2_echelon.input");
    let later =
        |pivots, rows| Operation::Gf2Reduce(v1::Gf2ReduceStep { pivots, rows, columns: 128 });
    row("pivots of no step", later(2, 1), RANGE, "program.steps[2].gf2_reduce.pivots");
    row("rows of no step", later(0, u32::MAX), RANGE, "program.steps[2].gf2_reduce.rows");
    let upload = |count| {
        let vector = messages::new_vector(BITS, count);
        let source = Some(v1::program_input::Source::Upload(vector));
        v1::ProgramInput { source, reduce: false }
    };
    let many = |length, columns| {
        run_call(call([bits(length), echelon(columns)], vec![upload(length)], vec![sent(1, BITS)]))
    };
    let field = "program.steps[1].gf2_echelon.input";
    rows.push(invalid("too many rows", many((1 << 24) + 1, 1), LARGE, field));
    let length = (1 << 31) + (1 << 14);
    rows.push(invalid("a matrix too large", many(length, 1 << 20), LARGE, field));
    let two_rows =
        Operation::Input(v1::InputStep { field: v1::Field::Gf2.into(), rows: 2, length: 2 });
    let call = call([two_rows, echelon(64)], vec![upload(4)], vec![sent(1, BITS)]);
    rows.push(invalid("a vector of two rows", run_call(call), KIND, field));
}

fn contents(rows: &mut Vec<Row>) {
    let expected = words(&[0, 1 << 5]);
    let call = on_two(&[1, 0, 2, 0], &[3, 1 << 5], reduce(70));
    rows.push(good("a reduction as it should be", call, expected));
    rows.push(good("a form of no row", on_two(&[], &[], echelon(70)), Bytes::new()));
    let mut row = |name: &str, pivots: &[u64], given: &[u64], reason, field, at| {
        let call = on_two(pivots, given, reduce(70));
        rows.push(invalid(name, call, reason, field).at(at));
    };
    let encoding = "BAD_ENCODING";
    row(
        "a pivot of zero",
        &[1, 0, 0, 0],
        &[],
        "SIZE_ZERO",
        "program.steps[2].gf2_reduce.pivots",
        1,
    );
    row(
        "two equal pivots",
        &[1, 0, 2, 0, 1, 0],
        &[],
        RANGE,
        "program.steps[2].gf2_reduce.pivots",
        2,
    );
    row("bits after a pivot", &[1, 1 << 6], &[], encoding, "program.steps[2].gf2_reduce.pivots", 0);
    row(
        "bits after a row",
        &[],
        &[0, 0, 0, 1 << 63],
        encoding,
        "program.steps[2].gf2_reduce.rows",
        1,
    );
    let call = on_two(&[0, 0, 0, 1 << 6], &[], echelon(70));
    let field = "program.steps[2].gf2_echelon.input";
    rows.push(invalid("bits after a row of a form", call, encoding, field).at(1));
}

/// GF(2) where another field is needed, and the reverse.
fn other_fields(rows: &mut Vec<Row>) {
    let mut row = |name: &str, step, field| {
        rows.push(invalid(name, on_two(&[1, 2], &[1, 2], step), KIND, field));
    };
    row("a transform of bits", ntt(0, 1), "program.steps[2].ntt.input");
    let point = Bytes::from(vec![0; 8]);
    let field = v1::Field::Gf2.into();
    let constant = v1::ConstantStep { field, elements: point.clone() };
    row("constant bits", Operation::Constant(constant), "program.steps[2].constant.field");
    let powers = v1::PowersStep { field, base: point, first: Bytes::new(), length: 2 };
    row("powers of bits", Operation::Powers(powers), "program.steps[2].powers.field");
    let sum = pointwise(v1::PointwiseOperation::Add, &[0, 1]);
    let field = "program.steps[2].pointwise.inputs";
    rows.push(invalid("a sum of bits", on_two(&[1, 2], &[1, 2], sum), KIND, field).at(0));

    let steps = [input(1, 2), echelon(64)];
    let call_of = call(steps, vec![new_upload(2)], vec![sent(1, BITS)]);
    let field = "program.steps[1].gf2_echelon.input";
    rows.push(invalid("a form of elements of Fr", run_call(call_of), KIND, field));
    let mixed = [input(1, 2), bits(2), concat(&[0, 1])];
    let inputs = vec![new_upload(2), given(BITS, words(&[1, 2]))];
    let field = "program.steps[2].concat.inputs";
    let call_of = call(mixed, inputs, vec![send(2)]);
    rows.push(invalid("bits after elements of Fr", run_call(call_of), KIND, field).at(1));

    let step = || [bits(2), pad(0, 3)];
    let with = |encoding, data: Bytes, out| {
        run_call(call(step(), vec![given(encoding, data)], vec![sent(1, out)]))
    };
    let two = || words(&[1, 2]);
    rows.push(
        invalid("integers as bits", with(ScalarEncoding::U64, two(), BITS), RANGE, "inputs").at(0),
    );
    let wide = with(ScalarEncoding::Canonical, vec![0; 64].into(), BITS);
    rows.push(invalid("elements of Fr as bits", wide, RANGE, "inputs").at(0));
    let canonical = with(BITS, two(), ScalarEncoding::Canonical);
    rows.push(invalid("bits sent as elements of Fr", canonical, RANGE, "outputs").at(0));
    let spec = v1::NttSpec { field: v1::Field::Gf2.into(), ..messages::ntt_spec(1) };
    let call = Call::ntt(spec, messages::scalars(BITS, two()));
    rows.push(invalid("a transform over GF(2)", call, KIND, "spec.field"));
    let half = with(BITS, vec![0; 12].into(), BITS);
    rows.push(invalid("half a word", half, LENGTH, "inputs[0].inline.data"));
}
