//! Elements, encodings and parameters that do not suit a field of a prime below 2^31.

use bytes::Bytes;
use capstan::{
    curve::G1Affine,
    wire::v1::{self, ScalarEncoding, step::Operation},
};
use tonic::Code;

use crate::{
    daemon::{
        messages,
        programs::{self, chunk, msm, pad, poly_mul, run, send, sparse_product, upload},
    },
    runs::{KIND, LARGE, LENGTH, RANGE, run_call},
    table::{Call, Row, World, good, invalid, refused},
};

const P: u32 = 2_013_265_921;

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    transforms(&mut rows);
    scalars(&mut rows, world);
    steps(&mut rows, world);
    streams(&mut rows);
    products(&mut rows);
    rows
}

fn words(words: &[u32]) -> Bytes {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn spec(lg_n: u32) -> v1::NttSpec {
    v1::NttSpec {
        field: v1::Field::BabyBear.into(),
        output_encoding: ScalarEncoding::Canonical31.into(),
        ..messages::ntt_spec(lg_n)
    }
}

fn elements(data: impl Into<Bytes>) -> v1::InlineVector {
    messages::scalars(ScalarEncoding::Canonical31, data)
}

fn transforms(rows: &mut Vec<Row>) {
    let two = || elements(words(&[P - 1, 1]));
    rows.push(good("a transform over BabyBear", Call::ntt(spec(1), two()), words(&[0, P - 2])));
    for (value, name) in [(99, "an unknown field"), (-1, "a negative field")] {
        let spec = v1::NttSpec { field: value, ..spec(1) };
        rows.push(invalid(name, Call::ntt(spec, two()), RANGE, "spec.field"));
    }
    for large in [P, P + 1, u32::MAX] {
        for encoding in [ScalarEncoding::Canonical31, ScalarEncoding::Montgomery31] {
            let input = messages::scalars(encoding, words(&[1, large]));
            let call = Call::ntt(spec(1), input);
            rows.push(invalid("an element too large", call, "NOT_CANONICAL", "input").at(1));
        }
    }
    let reduced = v1::NttSpec { reduce: true, ..spec(1) };
    let call = Call::ntt(reduced, elements(words(&[P + 2, P])));
    rows.push(good("elements to reduce", call, words(&[2, 2])));
    for length in [1, 6, 7] {
        let call = Call::ntt(spec(1), elements(vec![0; length]));
        rows.push(invalid(format!("{length} bytes"), call, LENGTH, "inline.data"));
    }
    rows.push(invalid("a long row", Call::ntt(spec(0), two()), LENGTH, "input"));
    let mut row = |name: &str, spec, input, reason, field| {
        rows.push(invalid(name, Call::ntt(spec, input), reason, field));
    };
    row("above the two-adicity", spec(28), two(), LARGE, "spec.lg_n");
    let small = v1::NttSpec { field: v1::Field::P7340033.into(), ..spec(21) };
    row("above the two-adicity of 7340033", small, two(), LARGE, "spec.lg_n");
    let of_fr = messages::scalars(ScalarEncoding::Canonical, vec![0; 64]);
    row("elements of Fr", spec(1), of_fr, RANGE, "encoding");
    let integers = messages::scalars(ScalarEncoding::U32, vec![0; 8]);
    row("integers", spec(1), integers, RANGE, "encoding");
    row("elements for Fr", messages::ntt_spec(1), two(), RANGE, "encoding");
    let wrong = v1::NttSpec { output_encoding: ScalarEncoding::Canonical.into(), ..spec(1) };
    row("a result in an encoding of Fr", wrong, two(), RANGE, "spec.output_encoding");
    for (generator, reason) in [
        (words(&[0]), "SIZE_ZERO"),
        (words(&[P]), "NOT_CANONICAL"),
        (vec![1; 32].into(), LENGTH),
        (vec![1; 3].into(), LENGTH),
    ] {
        let coset = v1::NttSpec { coset_generator: generator, ..spec(1) };
        row("a coset generator", coset, two(), reason, "spec.coset_generator");
    }
}

/// Elements that are not canonical, in a later chunk.
fn streams(rows: &mut Vec<Row>) {
    let (encoding, wrong) = (ScalarEncoding::Canonical31, "NOT_CANONICAL");
    let all = words(&[1, 2, 3, P - 1, 4, P, u32::MAX, 5]);
    let piece = |range: std::ops::Range<usize>| (range.start as u64, all.slice(range));
    let cases = [
        ("whole elements", vec![piece(0..16), piece(16..32)]),
        ("parts of the element", vec![piece(0..22), piece(22..32)]),
        ("the last chunk first", vec![piece(24..32), piece(20..24), piece(0..20)]),
    ];
    for (name, pieces) in cases {
        let chunks = pieces.iter().map(|(offset, data)| messages::chunk(*offset, data.clone()));
        let vector = messages::new_vector(encoding, 8);
        let call = Call::ntt_stream(spec(3), vector, chunks.collect());
        rows.push(invalid(format!("a transform of {name}"), call, wrong, "input").at(5));
        let input = v1::InputStep { field: v1::Field::BabyBear.into(), rows: 1, length: 8 };
        let sent = v1::SendVector { encoding: encoding.into() };
        let delivery = Some(v1::program_output::Delivery::Send(sent));
        let header = programs::call(
            [Operation::Input(input), pad(0, 9)],
            vec![upload(messages::new_vector(encoding, 8))],
            vec![v1::ProgramOutput { delivery, ..send(1) }],
        );
        let chunks = pieces.into_iter().map(|(offset, data)| chunk(0, offset, data));
        let call = Call::Run(run(header, chunks.collect()));
        let field = "program.steps[0].input.elements";
        rows.push(invalid(format!("a program on {name}"), call, wrong, field).at(5));
    }
}

/// Products of as many rows and elements as a value may have, and of more.
fn products(rows: &mut Vec<Row>) {
    const ROWS_MAX: u32 = 65_536;
    let encoding = ScalarEncoding::Canonical31;
    let squares = |count: u32, length: u64, reduction, data: Option<Bytes>| {
        let field = v1::Field::BabyBear.into();
        let input = v1::InputStep { field, rows: count, length };
        let vector = || messages::new_vector(encoding, u64::from(count) * length);
        let given = match data {
            Some(data) => v1::ProgramInput {
                source: Some(v1::program_input::Source::Inline(messages::scalars(encoding, data))),
                reduce: false,
            },
            None => upload(vector()),
        };
        let sent = v1::SendVector { encoding: encoding.into() };
        let delivery = Some(v1::program_output::Delivery::Send(sent));
        let output = v1::ProgramOutput { delivery, ..send(1) };
        let steps = [Operation::Input(input), poly_mul(&[0, 0], reduction)];
        run_call(programs::call(steps, vec![given], vec![output]))
    };
    let elements: Vec<u32> = (0..ROWS_MAX).map(|row| P - row % 1000 - 1).collect();
    let square = |x: &u32| (u64::from(*x) * u64::from(*x) % u64::from(P)) as u32;
    let expected: Vec<u32> = elements.iter().map(square).collect();
    let most_rows = squares(ROWS_MAX, 1, None, Some(words(&elements)));
    rows.push(good("products of the most rows", most_rows, words(&expected)));
    use v1::poly_mul_step::Reduction::{Cyclic, Negacyclic};
    let mut row = |name, call, reason, field| rows.push(invalid(name, call, reason, field));
    let length = 1 << 24;
    let too_many = |reduction| squares(ROWS_MAX, length, reduction, None);
    let name = "rows of products of too many elements";
    row(name, too_many(None), LARGE, "program.steps[1].poly_mul.inputs");
    let field = "program.steps[1].poly_mul.cyclic";
    row(name, too_many(Some(Cyclic(length + 1))), LARGE, field);
    row(name, too_many(Some(Cyclic(1 << 40))), LARGE, field);
    let field = "program.steps[1].poly_mul.negacyclic";
    row(name, too_many(Some(Negacyclic(2 * length))), LARGE, field);
    let call = squares(ROWS_MAX + 1, 1, None, None);
    row("too many rows of a factor", call, LARGE, "program.steps[0].input.rows");
    // The largest value: only the server's memory is too small.
    let (name, code) = ("rows of products of the most elements", Code::ResourceExhausted);
    let call = too_many(Some(Cyclic(length)));
    rows.push(refused(name, call, code, "CONNECTION_BYTES").naming("program.steps[1].poly_mul"));
}

fn scalars(rows: &mut Vec<Row>, world: &World) {
    let scalars = elements(words(&[1; 8]));
    let call = Call::msm(world.spec(), scalars);
    rows.push(invalid("scalars over BabyBear", call, RANGE, "encoding"));
}

fn steps(rows: &mut Vec<Row>, world: &World) {
    let field = v1::Field::BabyBear.into();
    let input = || Operation::Input(v1::InputStep { field, rows: 1, length: 2 });
    let with = |data: Bytes, encoding: ScalarEncoding, out: ScalarEncoding, step: Operation| {
        let inline = messages::scalars(encoding, data);
        let source = Some(v1::program_input::Source::Inline(inline));
        let given = v1::ProgramInput { source, reduce: false };
        let sent = v1::SendVector { encoding: out.into() };
        let delivery = Some(v1::program_output::Delivery::Send(sent));
        let output = v1::ProgramOutput { delivery, ..send(1) };
        run_call(programs::call([input(), step], vec![given], vec![output]))
    };
    let canonical = ScalarEncoding::Canonical31;
    let two = words(&[1, 2]);
    let call = with(two.clone(), canonical, canonical, pad(0, 3));
    rows.push(good("a program over BabyBear", call, words(&[1, 2, 0])));
    let call = with(words(&[1, P]), canonical, canonical, pad(0, 3));
    let name = "program.steps[0].input.elements";
    rows.push(invalid("an element too large", call, "NOT_CANONICAL", name).at(1));
    let call = with(vec![0; 64].into(), ScalarEncoding::Canonical, canonical, pad(0, 3));
    rows.push(invalid("an input of Fr", call, RANGE, "inputs").at(0));
    let call = with(two.clone(), ScalarEncoding::U32, canonical, pad(0, 3));
    rows.push(invalid("an input of integers", call, RANGE, "inputs").at(0));
    let call = with(two.clone(), canonical, ScalarEncoding::Montgomery, pad(0, 3));
    rows.push(invalid("an output of Fr", call, RANGE, "outputs").at(0));
    let mut row = |step, reason, field| {
        let call = with(two.clone(), canonical, canonical, step);
        rows.push(invalid(field, call, reason, field));
    };
    row(msm::<G1Affine>(0, &world.g1_id, 0), KIND, "program.steps[1].msm.input");
    let step = sparse_product(0, &world.matrix_id, 4, 6);
    row(step, KIND, "program.steps[1].sparse_product.input");
    let point = |bytes| Operation::Evaluate(v1::EvaluateStep { input: 0, point: bytes });
    row(point(words(&[P])), "NOT_CANONICAL", "program.steps[1].evaluate.point");
    row(point(vec![0; 32].into()), LENGTH, "program.steps[1].evaluate.point");
    let constant = |elements| Operation::Constant(v1::ConstantStep { field, elements });
    row(constant(vec![0; 5].into()), LENGTH, "program.steps[1].constant.elements");
    let powers = |base| v1::PowersStep { field, base, first: Bytes::new(), length: 2 };
    row(Operation::Powers(powers(words(&[P]))), "NOT_CANONICAL", "program.steps[1].powers.base");
    let factors = |factors| v1::LinearCombinationStep { inputs: vec![0], factors };
    let step = Operation::LinearCombination(factors(vec![0; 5].into()));
    row(step, LENGTH, "program.steps[1].linear_combination.factors");
    let step = Operation::LinearCombination(factors(words(&[P])));
    let call = with(two.clone(), canonical, canonical, step);
    let name = "program.steps[1].linear_combination.factors";
    rows.push(invalid("a factor too large", call, "NOT_CANONICAL", name).at(0));
}
