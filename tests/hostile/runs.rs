//! Calls of programs whose messages, inputs or outputs are malformed, or that exceed the budget.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    wire::v1::{self, step::Operation},
};
use tonic::Code;

use crate::{
    daemon::{
        messages,
        programs::{
            call, chunk, evaluate, header, inline, inline_bytes, input, keep, linear_combination,
            msm, new_upload, ntt, pad, points, run, run_request, send, stored, stored_program,
            upload,
        },
    },
    table::{Call, Row, World, good, invalid, refused},
};

pub const LENGTH: &str = "LENGTH_MISMATCH";
pub const LARGE: &str = "SIZE_TOO_LARGE";
pub const RANGE: &str = "OUT_OF_RANGE";
pub const KIND: &str = "VALUE_TYPE";

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    messages_of_a_stream(&mut rows);
    headers(&mut rows);
    lists(&mut rows);
    for (value, reason) in [(0, "UNSPECIFIED"), (99, RANGE), (-1, RANGE)] {
        header_enums(&mut rows, value, reason);
    }
    inputs(&mut rows, world);
    outputs(&mut rows, world);
    budgets(&mut rows);
    unusual(&mut rows, world);
    rows
}

/// Runs the steps with one inline input of two elements, and wants the last value.
pub fn with_input(steps: impl IntoIterator<Item = Operation>) -> v1::RunHeader {
    let steps: Vec<_> = std::iter::once(input(1, 2)).chain(steps).collect();
    let last = steps.len() as u32 - 1;
    call(steps, vec![inline(&[Fr::from(1), Fr::from(2)])], vec![send(last)])
}

pub fn run_call(header: v1::RunHeader) -> Call {
    Call::Run(run(header, vec![]))
}

/// A call with one upload of two elements, and these chunks of it.
fn with_chunks(chunks: Vec<v1::RunRequest>) -> Call {
    let steps = [input(1, 2), input(1, 1), evaluate(0, Fr::from(1))];
    let inputs = vec![new_upload(2), inline(&[Fr::from(1)])];
    Call::Run(run(call(steps, inputs, vec![send(2), send(1)]), chunks))
}

fn messages_of_a_stream(rows: &mut Vec<Row>) {
    let mut row = |name: &str, call, reason, field| rows.push(invalid(name, call, reason, field));
    let elements = || chunk(0, 0, vec![0; 64]);
    row("no run message", Call::Run(vec![]), "MISSING", "header");
    row("an empty run message", Call::Run(vec![Default::default()]), "MISSING", "header");
    row("a run chunk before the header", Call::Run(vec![elements()]), "MISSING", "header");
    let twice = vec![run_request(with_input([]))];
    row("two run headers", with_chunks(twice), RANGE, "message");
    let empty = vec![v1::RunRequest::default()];
    row("an empty message after a run header", with_chunks(empty), RANGE, "message");
    row(
        "a chunk of an inline input",
        with_chunks(vec![chunk(1, 0, vec![0; 32])]),
        RANGE,
        "chunk.input",
    );
    for input in [2, u32::MAX] {
        let chunks = vec![chunk(input, 0, vec![0; 32])];
        row("a chunk of no input", with_chunks(chunks), RANGE, "chunk.input");
    }
    let empty = v1::RunInputChunk { input: 0, chunk: None };
    let message = Some(v1::run_request::Message::Chunk(empty));
    let empty = vec![v1::RunRequest { message }];
    row("a message without its chunk", with_chunks(empty), "MISSING", "chunk.chunk");
    for (offset, len) in [(0, 65), (64, 1), (63, 2), (u64::MAX, 1), (1 << 40, 4)] {
        let chunks = vec![chunk(0, offset, vec![0; len])];
        row("a chunk over the end of an input", with_chunks(chunks), LARGE, "chunk");
    }
    row("a truncated input", with_chunks(vec![chunk(0, 0, vec![0; 63])]), LENGTH, "chunk");
    row("an input without a byte", with_chunks(vec![]), LENGTH, "chunk");
    let hole = vec![chunk(0, 0, vec![0; 32]), chunk(0, 33, vec![0; 31])];
    row("an input with a hole", with_chunks(hole), LENGTH, "chunk");
    let zero = Bytes::from(vec![0; 32]);
    let one = messages::canonical(&[Fr::from(1)]);
    let both = Bytes::from([zero, one].concat());
    rows.push(good("an input as it should be", with_chunks(vec![elements()]), both));
}

fn headers(rows: &mut Vec<Row>) {
    let mut row =
        |name: &str, call: Call, reason, field| rows.push(invalid(name, call, reason, field));
    let valid = || with_input([pad(0, 4)]);
    let run_without = run_call(v1::RunHeader { program: None, ..valid() });
    row("a run without a program", run_without, "MISSING", "program");
    let empty = Some(v1::ProgramRef::default());
    row(
        "an empty reference",
        run_call(v1::RunHeader { program: empty, ..valid() }),
        "MISSING",
        "program",
    );
    let request = v1::PutProgramRequest { program: None };
    row("no program to put", Call::PutProgram(request), "MISSING", "program");
    for (value, reason) in [(0, "UNSPECIFIED"), (99, RANGE), (-1, RANGE)] {
        let run = run_call(v1::RunHeader { verify: value, ..valid() });
        row("the check of a run", run, reason, "verify");
        let program = valid().program;
        let request = v1::EstimateRequest { program, outputs: vec![], verify: value };
        row("the check of an estimate", Call::Estimate(request), reason, "verify");
    }
    let outputs = vec![0; 257];
    let (program, verify) = (valid().program, v1::Verify::None as i32);
    let request = v1::EstimateRequest { program, outputs, verify };
    row("an estimate of too many outputs", Call::Estimate(request), "SIZE_TOO_LARGE", "outputs");
    for length in [0, 31, 32, 33] {
        let program = stored_program(&vec![7; length].into());
        let run = run_call(header(program.clone(), vec![], vec![send(0)]));
        let name = format!("a program id of {length}");
        rows.push(refused(name.clone(), run, Code::NotFound, "OBJECT_UNKNOWN"));
        let verify = v1::Verify::None as i32;
        let estimate = Call::Estimate(v1::EstimateRequest { program, outputs: vec![], verify });
        rows.push(refused(name, estimate, Code::NotFound, "OBJECT_UNKNOWN"));
    }
}

fn lists(rows: &mut Vec<Row>) {
    let mut row = |name: &str, header, reason, field| {
        rows.push(invalid(name, run_call(header), reason, field));
    };
    let zeros = |count| vec![inline(&[Fr::from(0); 2]); count];
    let steps = |count: usize| std::iter::repeat_n(pad(0, 2), count);
    row("no step", call([], vec![], vec![send(0)]), "MISSING", "program.steps");
    row("too many steps", with_input(steps(1024)), LARGE, "program.steps");
    let inputs = std::iter::repeat_n(input(1, 2), 257);
    let many = call(inputs.clone(), zeros(256), vec![send(0)]);
    row("too many input steps", many, LARGE, "program.steps[256].input");
    row("too many inputs", call([input(1, 2)], zeros(257), vec![send(0)]), LARGE, "inputs");
    row("no input", call([input(1, 2)], zeros(0), vec![send(0)]), LENGTH, "inputs");
    row("one input too many", call([input(1, 2)], zeros(2), vec![send(0)]), LENGTH, "inputs");
    row("no output", call([input(1, 2)], zeros(1), vec![]), "MISSING", "outputs");
    let many = call([input(1, 2)], zeros(1), vec![send(0); 257]);
    row("too many outputs", many, LARGE, "outputs");
    let missing = v1::Program { steps: vec![v1::Step::default()] };
    let program = crate::daemon::programs::inline_program(missing);
    row(
        "an empty step",
        header(program, vec![], vec![send(0)]),
        "MISSING",
        "program.steps[0].operation",
    );
    let everything = call(inputs.take(256), zeros(256), vec![send(255); 256]);
    let expected = Bytes::from(vec![0; 256 * 64]);
    rows.push(good("the most inputs and outputs", run_call(everything), expected));
    let expected = messages::canonical(&[Fr::from(1), Fr::from(2)]);
    rows.push(good("the most steps", run_call(with_input(steps(1023))), expected));
}

fn header_enums(rows: &mut Vec<Row>, value: i32, reason: &'static str) {
    let mut row = |header, field| {
        rows.push(invalid(format!("{field} = {value}"), run_call(header), reason, field));
    };
    let with = |input| call([self::input(1, 2)], vec![input], vec![send(0)]);
    let vector = v1::InlineVector { encoding: value, data: Bytes::new() };
    let source = Some(v1::program_input::Source::Inline(vector));
    row(with(v1::ProgramInput { source, reduce: false }), "inputs[0].inline.encoding");
    let vector = v1::VectorUpload {
        encoding: value,
        ..messages::new_vector(v1::ScalarEncoding::Canonical, 2)
    };
    row(with(upload(vector)), "inputs[0].upload.encoding");
    use v1::program_output::Delivery;
    let upload_id = messages::id();
    for (delivery, field) in [
        (Delivery::Send(v1::SendVector { encoding: value }), "outputs[0].send.encoding"),
        (Delivery::Keep(v1::KeepVector { upload_id, encoding: value }), "outputs[0].keep.encoding"),
        (
            Delivery::Points(v1::SendPoints { encoding: value, early: false }),
            "outputs[0].points.encoding",
        ),
    ] {
        let output = v1::ProgramOutput { value: 0, delivery: Some(delivery) };
        row(v1::RunHeader { outputs: vec![output], ..with(new_upload(2)) }, field);
    }
}

fn inputs(rows: &mut Vec<Row>, world: &World) {
    let with = |second: v1::ProgramInput| {
        let steps = [input(1, 2), input(1, 2), evaluate(0, Fr::from(1)), evaluate(1, Fr::from(1))];
        call(steps, vec![inline(&[Fr::from(1); 2]), second], vec![send(2), send(3)])
    };
    let mut row = |name: &str, header, reason, field| {
        rows.push(invalid(name, run_call(header), reason, field));
    };
    row("an input without a source", with(Default::default()), "MISSING", "inputs[1].source");
    row(
        "half an element of an input",
        with(inline_bytes(vec![0; 48])),
        LENGTH,
        "inputs[1].inline.data",
    );
    for length in [0, 15, 17] {
        let id = vec![1; length].into();
        let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, 2);
        row(
            "a malformed upload id of an input",
            with(upload(vector)),
            LENGTH,
            "inputs[1].upload.upload_id",
        );
    }
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, u64::MAX);
    row("an input that overflows", with(upload(vector)), LARGE, "inputs[1].upload.count");
    let streams =
        v1::VectorUpload { streams: 65, ..messages::new_vector(v1::ScalarEncoding::Canonical, 2) };
    row("too many streams of an input", with(upload(streams)), LARGE, "inputs[1].upload.streams");
    let same = new_upload(2);
    let twice = call([input(1, 2), input(1, 2)], vec![same.clone(), same], vec![send(1)]);
    row("one upload as two inputs", twice, RANGE, "inputs[1].upload.upload_id");
    for count in [0, 1, 3] {
        let elements = vec![Fr::from(1); count];
        let call = run_call(with(inline(&elements)));
        rows.push(invalid(format!("{count} of 2 elements"), call, LENGTH, "inputs").at(1));
        let call = run_call(with(new_upload(count as u64)));
        rows.push(invalid(format!("{count} of 2 uploaded"), call, LENGTH, "inputs").at(1));
    }
    let narrow = || messages::new_vector(v1::ScalarEncoding::U8, 2);
    let call_of = |header| run_call(header);
    rows.push(invalid("a narrow input", call_of(with(upload(narrow()))), RANGE, "inputs").at(1));
    // An MSM reads narrow elements, but the input is an output as well.
    let steps = [input(1, 2), msm::<G1Affine>(0, &world.g1_id, 0)];
    let header = call(steps, vec![upload(narrow())], vec![points(1), send(0)]);
    rows.push(invalid("a narrow output", run_call(header), RANGE, "inputs").at(0));
    for length in [0, 15, 16] {
        let call = run_call(with(stored(&vec![9; length].into(), 0)));
        let name = format!("an unknown vector with an id of {length}");
        let row = refused(name, call, Code::NotFound, "OBJECT_UNKNOWN");
        rows.push(row.naming("inputs[1].stored.upload_id"));
    }
    not_canonical(rows, world);
}

fn not_canonical(rows: &mut Vec<Row>, world: &World) {
    let elements = Bytes::from([&[0; 32 * 3][..], &[0xff; 32], &[0; 32 * 4]].concat());
    let scale = linear_combination(&[1], &[Fr::from(1)]);
    let sum = msm::<G1Affine>(1, &world.g1_id, 0);
    for (name, step, output) in
        [("a vector", scale, send(2)), ("an MSM", sum, points(2)), ("no step", pad(1, 8), send(1))]
    {
        let header = |second| {
            let steps = [input(1, 1), input(2, 4), step.clone()];
            let steps = match &step {
                Operation::Msm(_) => [input(1, 1), input(1, 8), step.clone()],
                _ => steps,
            };
            call(steps, vec![inline(&[Fr::from(1)]), second], vec![output.clone()])
        };
        for (how, input, chunks) in [
            ("inline", inline_bytes(elements.clone()), vec![]),
            ("uploaded", new_upload(8), vec![chunk(1, 0, elements.clone())]),
        ] {
            let call = Call::Run(run(header(input), chunks));
            let name = format!("an element of {name} that is not canonical, {how}");
            let field = "program.steps[1].input.elements";
            rows.push(invalid(name, call, "NOT_CANONICAL", field).at(3));
        }
    }
}

fn outputs(rows: &mut Vec<Row>, world: &World) {
    let steps = || [input(1, 2), msm::<G1Affine>(0, &world.g1_id, 0), pad(0, 2)];
    let wanting = |outputs| call(steps(), vec![inline(&[Fr::from(1); 2])], outputs);
    let with = |outputs| run_call(wanting(outputs));
    let mut row = |name: &str, output, reason| {
        rows.push(invalid(name, with(vec![send(0), output]), reason, "outputs").at(1));
    };
    row("an output that no step makes", send(3), RANGE);
    row("points that no step makes", points(u32::MAX), RANGE);
    row("points as elements", send(1), KIND);
    row("points to keep", keep(1, &messages::id()), KIND);
    row("elements as points", points(2), KIND);
    let mut row = |name: &str, outputs, reason, field| {
        rows.push(invalid(name, with(outputs), reason, field));
    };
    let nothing = v1::ProgramOutput { value: 0, delivery: None };
    row("an output that goes nowhere", vec![send(0), nothing], "MISSING", "outputs[1].delivery");
    for length in [0, 15, 17] {
        let output = keep(0, &vec![1; length].into());
        row("a malformed id to keep", vec![output], LENGTH, "outputs[0].keep.upload_id");
    }
    let encoding = v1::ScalarEncoding::U8 as i32;
    let narrow = v1::program_output::Delivery::Send(v1::SendVector { encoding });
    let narrow = v1::ProgramOutput { value: 0, delivery: Some(narrow) };
    row("a narrow vector", vec![narrow], RANGE, "outputs[0].send.encoding");
    let id = messages::id();
    let conflict = |name: &str, call| refused(name, call, Code::Aborted, "UPLOAD_CONFLICT");
    rows.push(conflict("an id kept twice", with(vec![keep(0, &id), keep(2, &id)])));
    let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, 2);
    let inputs = vec![upload(vector)];
    let header = v1::RunHeader { inputs, ..wanting(vec![keep(2, &id)]) };
    rows.push(conflict("an input's id to keep", run_call(header)));
    let header = v1::RunHeader { inputs: vec![stored(&id, 0)], ..wanting(vec![keep(2, &id)]) };
    rows.push(conflict("a vector to replace by itself", run_call(header)));
    // 65536 points of 48 bytes.
    let steps = [input(65_536, 0), msm::<G1Affine>(0, &world.g1_id, 0)];
    let header = call(steps, vec![inline(&[])], vec![points(1)]);
    rows.push(invalid("points above one message", run_call(header), LARGE, "outputs"));
}

/// Calls that can never fit are refused with their largest step, before any payload, without a
/// retry delay.
fn budgets(rows: &mut Vec<Row>) {
    let mut row = |name: &str, steps: Vec<Operation>, input, outputs, largest| {
        let call = run_call(call(steps, vec![input], outputs));
        let row = refused(name, call, Code::ResourceExhausted, "CONNECTION_BYTES");
        rows.push(row.naming(largest));
    };
    let long = |length| vec![input(1, 2), pad(0, length), evaluate(1, Fr::from(1))];
    let [step, largest] = ["program.steps[0].input", "program.steps[1].pad"];
    row(
        "an input above the budget",
        vec![input(1, 1 << 20)],
        new_upload(1 << 20),
        vec![send(0)],
        step,
    );
    row("the largest value", long(1 << 40), new_upload(2), vec![send(1)], largest);
    row("a value above the budget", long(1 << 20), new_upload(2), vec![send(2)], largest);
    let many = |count| std::iter::once(input(1, 2)).chain((0..count).map(|_| pad(0, 1 << 14)));
    let sum: Vec<_> = (1..65).collect();
    let summed = many(64).chain([linear_combination(&sum, &[Fr::from(1); 64])]).collect();
    // All values are held from the last of them on.
    let last = "program.steps[64].pad";
    row("values above the budget together", summed, new_upload(2), vec![send(65)], last);
    // Each value is sent when it has been made, and 1 MiB is held at once.
    let sent = (1..65).map(send).collect();
    row("outputs above the budget together", many(64).collect(), new_upload(2), sent, largest);
}

fn unusual(rows: &mut Vec<Row>, world: &World) {
    let zero = Bytes::from(vec![0; 32]);
    let infinity = messages::compressed::<G1Affine>(messages::sum::<G1Affine>(&[], &[]));
    let empty = |step, output| run_call(call([input(1, 0), step], vec![inline(&[])], vec![output]));
    let row = good("the value of nothing", empty(evaluate(0, Fr::from(3)), send(1)), zero.clone());
    rows.push(row);
    rows.push(good("a transform of nothing", empty(ntt(0, 0), send(1)), zero.clone()));
    rows.push(good("a vector of nothing", empty(pad(0, 0), send(1)), Bytes::new()));
    let sum = msm::<G1Affine>(0, &world.g1_id, 8);
    rows.push(good("an MSM of nothing", empty(sum, points(1)), infinity));
    let upload = call([input(1, 0), evaluate(0, Fr::from(3))], vec![new_upload(0)], vec![send(1)]);
    rows.push(good("an upload of nothing", run_call(upload), zero.clone()));
    // No output needs the second input, so its bytes are not looked at.
    let steps = [input(1, 1), input(1, 1)];
    let inputs = vec![inline(&[Fr::from(0)]), inline_bytes(vec![0xff; 32])];
    rows.push(good(
        "an input that no output needs",
        run_call(call(steps, inputs, vec![send(0)])),
        zero,
    ));
}
