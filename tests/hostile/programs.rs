//! Programs whose steps are malformed, or do not suit the values that they read.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine, G2Affine},
    wire::v1::{self, step::Operation},
};
use tonic::Code;

use super::runs::{KIND, LARGE, LENGTH, RANGE, run_call, with_input};
use crate::{
    daemon::{
        messages,
        programs::{
            call, constant, coset_ntt, input, linear_combination, msm, new_upload, ntt, pad,
            points, pointwise, poly_mul, send, slice, sparse_product,
        },
    },
    table::{Row, World, invalid, refused},
};

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    references(&mut rows, world);
    sizes(&mut rows);
    bases(&mut rows, world);
    matrices(&mut rows, world);
    products(&mut rows);
    fields(&mut rows);
    for (value, reason) in [(0, "UNSPECIFIED"), (99, RANGE), (-1, RANGE)] {
        enums(&mut rows, value, reason);
    }
    rows
}

fn references(rows: &mut Vec<Row>, world: &World) {
    use v1::PointwiseOperation::Add;
    let mut row = |name: &str, steps: Vec<Operation>, reason, field| {
        rows.push(invalid(name, run_call(with_input(steps)), reason, field));
    };
    row("a step that reads itself", vec![pad(1, 2)], RANGE, "program.steps[1].pad.input");
    row(
        "a step that reads a later one",
        vec![pad(2, 2), pad(0, 2)],
        RANGE,
        "program.steps[1].pad.input",
    );
    row("a step that reads no value", vec![pad(u32::MAX, 2)], RANGE, "program.steps[1].pad.input");
    let (sum, inputs) = (msm::<G1Affine>(0, &world.g1_id, 0), "program.steps[2].pad.input");
    row("points as a vector", vec![sum.clone(), pad(1, 2)], KIND, inputs);
    let mut at_one = |name: &str, steps: Vec<Operation>, reason, field| {
        rows.push(invalid(name, run_call(with_input(steps)), reason, field).at(1));
    };
    at_one(
        "points in a list",
        vec![sum, pointwise(Add, &[0, 1])],
        KIND,
        "program.steps[2].pointwise.inputs",
    );
    at_one(
        "a later value in a list",
        vec![pointwise(Add, &[0, 9])],
        RANGE,
        "program.steps[1].pointwise.inputs",
    );
    let other_length = vec![pad(0, 4), pointwise(Add, &[0, 1])];
    at_one("vectors of other lengths", other_length, LENGTH, "program.steps[2].pointwise.inputs");
}

/// Steps whose lists or sizes do not suit what they read.
fn sizes(rows: &mut Vec<Row>) {
    use v1::PointwiseOperation::{Add, Invert, MultiplyAdd};
    let mut row = |name: &str, step: Operation, reason, field| {
        rows.push(invalid(name, run_call(with_input([step])), reason, field));
    };
    for (name, operation, inputs) in [
        ("one operand of a sum", Add, &[0][..]),
        ("two operands of an inverse", Invert, &[0, 0]),
        ("two of three operands", MultiplyAdd, &[0, 0]),
        ("no operand", Add, &[]),
    ] {
        row(name, pointwise(operation, inputs), LENGTH, "program.steps[1].pointwise.inputs");
    }
    let combination =
        |inputs: &[u32], factors| linear_combination(inputs, &vec![Fr::from(1); factors]);
    row(
        "no vector to combine",
        combination(&[], 0),
        "MISSING",
        "program.steps[1].linear_combination.inputs",
    );
    row(
        "too few factors",
        combination(&[0, 0], 1),
        LENGTH,
        "program.steps[1].linear_combination.factors",
    );
    row(
        "too many vectors",
        combination(&[0; 257], 257),
        LARGE,
        "program.steps[1].linear_combination.inputs",
    );
    row("a slice from beyond the end", slice(0, 3, 0), LARGE, "program.steps[1].slice.offset");
    row("a slice over the end", slice(0, 1, 2), LARGE, "program.steps[1].slice.length");
    row("a slice that overflows", slice(0, 1, u64::MAX), LARGE, "program.steps[1].slice.length");
    row("a pad to less", pad(0, 1), RANGE, "program.steps[1].pad.length");
    row("a pad that overflows", pad(0, u64::MAX), LARGE, "program.steps[1].pad.length");
    row("a transform of too many", ntt(0, 0), LARGE, "program.steps[1].ntt.input");
    row("a transform too large", ntt(0, 33), LARGE, "program.steps[1].ntt.lg_n");
    row("more rows than allowed", input(65_537, 1), LARGE, "program.steps[1].input.rows");
    row("a value too large", input(2, 1 << 40), LARGE, "program.steps[1].input.length");
}

fn bases(rows: &mut Vec<Row>, world: &World) {
    let length = |steps: [Operation; 2], field| {
        let name = format!("bases: {field}");
        invalid(name, run_call(call(steps, vec![new_upload(9)], vec![points(1)])), LARGE, field)
    };
    let eight = &world.g1_id;
    rows.push(length([input(1, 9), msm::<G1Affine>(0, eight, 0)], "program.steps[1].msm.input"));
    let steps = [input(1, 3), msm::<G1Affine>(0, eight, 6)];
    rows.push(length(steps, "program.steps[1].msm.offset"));
    let steps = [input(1, 3), msm::<G1Affine>(0, eight, u64::MAX)];
    rows.push(length(steps, "program.steps[1].msm.offset"));
    for id_length in [0, 16, 31, 32, 33] {
        let id = vec![7; id_length].into();
        let header =
            call([input(1, 2), msm::<G1Affine>(0, &id, 0)], vec![new_upload(2)], vec![points(1)]);
        let name = format!("bases with an id of {id_length}");
        let row = refused(name, run_call(header), Code::NotFound, "OBJECT_UNKNOWN");
        rows.push(row.naming("program.steps[1].msm.object_id"));
    }
    for (name, step) in [
        ("G1 as G2 in a program", msm::<G2Affine>(0, &world.g1_id, 0)),
        ("G2 as G1 in a program", msm::<G1Affine>(0, &world.g2_id, 0)),
    ] {
        let header = call([input(1, 2), step], vec![new_upload(2)], vec![points(1)]);
        let row = refused(name, run_call(header), Code::FailedPrecondition, "OBJECT_KIND");
        rows.push(row.naming("program.steps[1].msm.group"));
    }
}

/// Steps that do not suit the stored matrix of 4 rows, 5 columns and 6 terms.
fn matrices(rows: &mut Vec<Row>, world: &World) {
    let with = |id: &Bytes, length, rows, terms| {
        let steps = [input(1, length), sparse_product(0, id, rows, terms)];
        run_call(call(steps, vec![new_upload(length)], vec![send(1)]))
    };
    let id = &world.matrix_id;
    let field = "program.steps[1].sparse_product.input";
    rows.push(invalid("a vector too short for a matrix", with(id, 4, 4, 6), LENGTH, field));
    rows.push(invalid("a vector too long for a matrix", with(id, 6, 4, 6), LENGTH, field));
    let field = "program.steps[1].sparse_product.rows";
    rows.push(invalid("more rows than a matrix has", with(id, 5, 1 << 30, 6), LENGTH, field));
    rows.push(invalid("2^41 rows of a matrix", with(id, 5, 1 << 41, 6), LARGE, field));
    let field = "program.steps[1].sparse_product.terms";
    rows.push(invalid("fewer terms than a matrix has", with(id, 5, 4, 0), LENGTH, field));
    rows.push(invalid("2^32 terms of a matrix", with(id, 5, 4, 1 << 32), LARGE, field));
    let field = "program.steps[1].sparse_product.object_id";
    for length in [0, 31, 32] {
        let name = format!("a matrix with an id of {length}");
        let call = with(&vec![7; length].into(), 5, 4, 6);
        rows.push(refused(name, call, Code::NotFound, "OBJECT_UNKNOWN").naming(field));
    }
    let call = with(&world.g1_id, 5, 4, 6);
    let row = refused("bases as a matrix", call, Code::FailedPrecondition, "OBJECT_KIND");
    rows.push(row.naming(field));
    let steps = [input(1, 2), msm::<G1Affine>(0, id, 0)];
    let call = run_call(call_of_points(steps));
    rows.push(refused("a matrix as bases", call, Code::FailedPrecondition, "OBJECT_KIND"));
}

fn products(rows: &mut Vec<Row>) {
    use v1::poly_mul_step::Reduction::{Cyclic, Negacyclic};
    let vector = |field: v1::Field, rows, length| {
        Operation::Input(v1::InputStep { field: field.into(), rows, length })
    };
    let fr = |rows, length| vector(v1::Field::Bls12381Fr, rows, length);
    let row = |name: &str, inputs: [Operation; 2], reduction, reason, field| {
        let steps = inputs.into_iter().chain([poly_mul(&[0, 1], reduction)]);
        let call = call(steps, vec![new_upload(2), new_upload(2)], vec![send(2)]);
        invalid(name, run_call(call), reason, field)
    };
    let two = || [fr(1, 2), fr(1, 2)];
    let inputs = "program.steps[2].poly_mul.inputs";
    let empty = [fr(1, 2), fr(1, 0)];
    rows.push(row("an empty factor", empty, None, "SIZE_ZERO", inputs).at(1));
    let other = [fr(1, 2), vector(v1::Field::BabyBear, 1, 2)];
    rows.push(row("factors over two fields", other, None, KIND, inputs).at(1));
    let other = [fr(2, 2), fr(1, 2)];
    rows.push(row("factors with other rows", other, None, KIND, inputs).at(1));
    let long = || [1 << 20, 2].map(|length| vector(v1::Field::P7340033, 1, length));
    rows.push(row("a product too long for its field", long(), None, LARGE, inputs));
    let longest = [1 << 40, 1 << 40].map(|length| fr(1, length));
    rows.push(row("a product too long for a vector", longest, None, LARGE, inputs));
    let long = || [1 << 20, 1 << 20].map(|length| vector(v1::Field::P7340033, 1, length));
    let without_root = Some(Negacyclic(1 << 20));
    rows.push(row("a degree without a root", long(), without_root, LARGE, inputs));
    let odd = Some(Cyclic((1 << 20) - 1));
    rows.push(row("a degree without a transform", long(), odd, LARGE, inputs));
    let cyclic = "program.steps[2].poly_mul.cyclic";
    rows.push(row("a cyclic degree of 0", two(), Some(Cyclic(0)), "SIZE_ZERO", cyclic));
    for degree in [(1 << 40) + 1, u64::MAX] {
        rows.push(row("a large degree", two(), Some(Cyclic(degree)), LARGE, cyclic));
    }
    let negacyclic = "program.steps[2].poly_mul.negacyclic";
    rows.push(row("a degree of 0", two(), Some(Negacyclic(0)), "SIZE_ZERO", negacyclic));
    for count in [0, 1, 3] {
        let run = run_call(with_input([poly_mul(&vec![0; count], None)]));
        let name = format!("{count} factors");
        rows.push(invalid(name, run, LENGTH, "program.steps[1].poly_mul.inputs"));
    }
}

fn call_of_points(steps: [Operation; 2]) -> v1::RunHeader {
    call(steps, vec![new_upload(2)], vec![points(1)])
}

/// Bytes of elements in steps.
fn fields(rows: &mut Vec<Row>) {
    let zero = Bytes::from(vec![0; 32]);
    let one = messages::canonical(&[Fr::from(1)]);
    let point = |point: &Bytes| v1::EvaluateStep { input: 0, point: point.clone() };
    let linear = |point: &Bytes| v1::DivideByLinearStep { input: 0, point: point.clone() };
    let vanishing = |coset_generator: &Bytes| {
        let coset_generator = coset_generator.clone();
        Operation::DivideByVanishing(v1::DivideByVanishingStep {
            input: 0,
            lg_n: 1,
            coset_generator,
        })
    };
    let powers = |base: &Bytes, first: &Bytes| {
        let (base, first) = (base.clone(), first.clone());
        let field = v1::Field::Bls12381Fr as i32;
        Operation::Powers(v1::PowersStep { field, base, first, length: 2 })
    };
    let coset = |generator: &Bytes| coset_ntt(0, 1, generator.clone());
    let bad = [
        (Bytes::from(vec![0xff; 32]), "NOT_CANONICAL"),
        (Bytes::from(vec![0; 31]), LENGTH),
        (Bytes::from(vec![0; 33]), LENGTH),
    ];
    let mut row = |step: Operation, reason, field| {
        let name = format!("{field} is {reason}");
        rows.push(invalid(name, run_call(with_input([step])), reason, field));
    };
    for (bytes, reason) in &bad {
        row(Operation::Evaluate(point(bytes)), *reason, "program.steps[1].evaluate.point");
        row(
            Operation::DivideByLinear(linear(bytes)),
            *reason,
            "program.steps[1].divide_by_linear.point",
        );
        row(powers(bytes, &one), *reason, "program.steps[1].powers.base");
        row(powers(&one, bytes), *reason, "program.steps[1].powers.first");
        row(coset(bytes), *reason, "program.steps[1].ntt.coset_generator");
        row(vanishing(bytes), *reason, "program.steps[1].divide_by_vanishing.coset_generator");
    }
    row(Operation::Evaluate(point(&Bytes::new())), LENGTH, "program.steps[1].evaluate.point");
    row(powers(&Bytes::new(), &one), LENGTH, "program.steps[1].powers.base");
    row(coset(&zero), "SIZE_ZERO", "program.steps[1].ntt.coset_generator");
    row(vanishing(&zero), "SIZE_ZERO", "program.steps[1].divide_by_vanishing.coset_generator");
    // The polynomial is zero on the domain itself.
    row(vanishing(&one), RANGE, "program.steps[1].divide_by_vanishing.coset_generator");
    let list = Bytes::from([&zero[..], &[0xff; 32]].concat());
    let field = v1::Field::Bls12381Fr as i32;
    let step = |elements: Bytes| Operation::Constant(v1::ConstantStep { field, elements });
    let name = "program.steps[1].constant.elements";
    row(step(list.slice(..33)), LENGTH, name);
    row(constant(&[Fr::from(0); 1025]), LARGE, name);
    let factors = v1::LinearCombinationStep { inputs: vec![0, 0], factors: list.clone() };
    let mut second = |step, field| {
        let run = run_call(with_input([step]));
        rows.push(invalid(format!("{field}[1]"), run, "NOT_CANONICAL", field).at(1));
    };
    second(step(list), name);
    second(Operation::LinearCombination(factors), "program.steps[1].linear_combination.factors");
}

fn enums(rows: &mut Vec<Row>, value: i32, reason: &'static str) {
    let mut row = |step: Operation, field| {
        let name = format!("{field} = {value}");
        rows.push(invalid(name, run_call(with_input([step])), reason, field));
    };
    let one = messages::canonical(&[Fr::from(1)]);
    row(
        Operation::Input(v1::InputStep { field: value, rows: 1, length: 1 }),
        "program.steps[1].input.field",
    );
    row(
        Operation::Constant(v1::ConstantStep { field: value, elements: one.clone() }),
        "program.steps[1].constant.field",
    );
    let (base, first) = (one.clone(), one);
    row(
        Operation::Powers(v1::PowersStep { field: value, base, first, length: 1 }),
        "program.steps[1].powers.field",
    );
    row(
        Operation::Pointwise(v1::PointwiseStep { operation: value, inputs: vec![0] }),
        "program.steps[1].pointwise.operation",
    );
    let Operation::Ntt(transform) = ntt(0, 1) else { panic!("an NTT") };
    let step = v1::NttStep { direction: value, ..transform.clone() };
    row(Operation::Ntt(step), "program.steps[1].ntt.direction");
    let step = v1::NttStep { input_order: value, ..transform.clone() };
    row(Operation::Ntt(step), "program.steps[1].ntt.input_order");
    let step = v1::NttStep { output_order: value, ..transform };
    row(Operation::Ntt(step), "program.steps[1].ntt.output_order");
    let step = v1::MsmStep { group: value, ..Default::default() };
    row(Operation::Msm(step), "program.steps[1].msm.group");
}
