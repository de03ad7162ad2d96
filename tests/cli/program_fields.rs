//! `capstan run` with every kind of step, over every kind of field.

use std::fs;

use ark_bls12_381::{Fr, G1Affine};
use ark_ff::Field;
use capstan::{
    client::{Prime31, blocking::BlockingClient},
    gf2::BitMatrix,
    ops::OperationKind,
    sparse::SparseBuilder,
};
use serde_json::{Value, json};

use crate::cli::{CliFixture, canonical, common::points};

/// A step of this kind, as a program has it. The inputs are f, w over BabyBear, m over GF(2) and n.
fn step(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Input => r#""input": {"field": "integers"}"#,
        OperationKind::Constant => r#""constant": {"elements": [1, "-1"], "field": "babybear"}"#,
        OperationKind::Powers => r#""powers": {"base": 3, "length": 4, "field": "koalabear"}"#,
        OperationKind::Ntt => r#""ntt": {"input": "w", "coset_generator": 31}"#,
        OperationKind::Pointwise => r#""multiply_add": {"inputs": ["w", "w", "w"]}"#,
        OperationKind::LinearCombination => {
            r#""linear_combination": {"inputs": ["w", "w"], "factors": [-3, 1]}"#
        }
        OperationKind::Slice => r#""slice": {"input": "n", "offset": 1, "length": 1}"#,
        OperationKind::Concat => r#""concat": {"inputs": ["m", "m"]}"#,
        OperationKind::Pad => r#""pad": {"input": "n", "length": 3}"#,
        OperationKind::Evaluate => r#""evaluate": {"input": "w", "point": "0x2"}"#,
        OperationKind::PrefixProduct => r#""prefix_product": {"input": "w"}"#,
        OperationKind::DivideByLinear => r#""divide_by_linear": {"input": "f", "point": 2}"#,
        OperationKind::DivideByVanishing => {
            r#""divide_by_vanishing": {"input": "f", "lg_n": 2, "coset_generator": 7}"#
        }
        OperationKind::Msm => r#""msm": {"input": "f", "bases": "BASES"}"#,
        OperationKind::SparseProduct => r#""sparse_product": {"input": "f", "matrix": "MATRIX"}"#,
        OperationKind::PolyMul => r#""poly_mul": {"inputs": ["w", "w"], "negacyclic": 4}"#,
        OperationKind::Gf2Reduce => r#""gf2_reduce": {"pivots": "p", "rows": "m"}"#,
        OperationKind::Gf2Echelon => r#""gf2_echelon": {"input": "m"}"#,
        OperationKind::IntMul => r#""int_mul": {"inputs": ["n", "n"]}"#,
        OperationKind::IntSum => {
            r#""int_sum": {"inputs": ["n", "n"], "factors": [3, -1], "length": 2}"#
        }
        OperationKind::Reshape => r#""reshape": {"input": "n", "rows": 1}"#,
    }
}

fn hex31(values: &[i64]) -> Value {
    let modulus = i64::from(Prime31::BabyBear.modulus());
    values.iter().map(|value| format!("{:#010x}", value.rem_euclid(modulus))).collect()
}

fn hex_fr(values: impl IntoIterator<Item = Fr>) -> Value {
    let hex = |value| {
        let mut bytes = canonical(&[value]);
        bytes.reverse();
        format!("0x{}", hex::encode(bytes))
    };
    values.into_iter().map(hex).collect()
}

/// Runs a program with a step of every kind; returns its outputs.
fn run_every_kind(cli: &CliFixture) -> Value {
    let bases = cli.put(&points::<G1Affine>(4));
    let mut builder = SparseBuilder::new(1, 4);
    builder.push_row([(Fr::from(2), 1)]).unwrap();
    let client = BlockingClient::connect(cli.server.target.clone()).unwrap();
    let matrix = client.put_matrix(&builder.build().unwrap()).unwrap().id().to_string();
    let inputs = r#"{"name": "f", "input": {}},
        {"name": "w", "input": {"field": "babybear"}},
        {"name": "m", "input": {"field": "gf2", "columns": 70}},
        {"name": "p", "input": {"field": "gf2"}},
        {"name": "scaled", "scale": {"input": "w", "factor": -2}}"#;
    let steps = OperationKind::ALL.iter().enumerate().map(|(number, kind)| {
        // The first kind is the input of integers.
        let name = if number == 0 { "n".to_owned() } else { format!("{kind:?}") };
        format!(r#"{{"name": "{name}", {}}}"#, step(*kind))
    });
    let steps: Vec<_> = steps.collect();
    let names = OperationKind::ALL[1..].iter().map(|kind| format!(r#""{kind:?}""#));
    let outputs = names.collect::<Vec<_>>().join(", ");
    let program = format!(
        r#"{{"steps": [{inputs}, {}], "outputs": [{outputs}, "scaled"]}}"#,
        steps.join(",")
    );
    let program = program.replace("BASES", &bases).replace("MATRIX", &matrix);
    let program = cli.file("program.json", program);
    let files = [
        ("f", "1\n2\n3\n4\n"),
        ("w", "1\n2\n3\n4\n"),
        ("m", "3 0\n69 3 1\n"),
        ("p", "69 3\n"),
        ("n", "0x100000005\n7\n"),
    ];
    let files = files.map(|(name, content)| format!("{name}={}", cli.file(name, content)));
    let mut line = vec!["run", &program, "--encoding", "decimal"];
    files.iter().for_each(|file| line.extend(["--input", file]));
    cli.json(&line)["outputs"].take()
}

#[test]
fn programs_have_every_kind_of_step() {
    let cli = CliFixture::new();
    let outputs = run_every_kind(&cli);
    let is = |kind: OperationKind, expected: Value| {
        assert_eq!(outputs[format!("{kind:?}")], expected, "{kind:?}");
    };
    is(OperationKind::Constant, hex31(&[1, -1]));
    is(OperationKind::Powers, hex31(&[1, 3, 9, 27]));
    is(OperationKind::Pointwise, hex31(&[2, 6, 12, 20]));
    let w = cli.file("w", "1\n2\n3\n4\n");
    let ntt = ["ntt", &w, "--field", "babybear", "--coset", "0x1f", "--encoding", "hex"];
    is(OperationKind::Ntt, cli.ok(&ntt).text().lines().collect());
    is(OperationKind::LinearCombination, hex31(&[-2, -4, -6, -8]));
    assert_eq!(outputs["scaled"], outputs["LinearCombination"]);
    is(OperationKind::Evaluate, hex31(&[1 + 4 + 12 + 32]));
    // 1 4 10 20 25 24 16, with the powers from X^4 on subtracted.
    is(OperationKind::PolyMul, hex31(&[1 - 25, 4 - 24, 10 - 16, 20]));
    is(OperationKind::Slice, json!(["0x1", "0x0"]));
    is(OperationKind::Pad, json!(["0x100000005", "0x7"]));
    is(OperationKind::Reshape, json!(["0x70000000100000005"]));
    is(OperationKind::IntMul, json!(["0x10000000a00000019", "0x31"]));
    is(OperationKind::IntSum, json!(["0x20000000a", "0xe"]));
    is(OperationKind::Concat, json!(["3 0", "69 3 1", "3 0", "69 3 1"]));
    is(OperationKind::Gf2Reduce, json!(["3 0", "1"]));
    is(OperationKind::Gf2Echelon, json!(["69 1 0", "3 0"]));
    is(OperationKind::PrefixProduct, hex31(&[1, 2, 6, 24]));
    // 1 2 3 4 is 49 at 2.
    is(OperationKind::DivideByLinear, hex_fr([24, 11, 4, 0].map(Fr::from)));
    // X^4 - 1 is 7^4 - 1 on the coset.
    let quotient = |value: u64| Fr::from(value) / (Fr::from(7).pow([4_u64]) - Fr::from(1));
    is(OperationKind::DivideByVanishing, hex_fr((1..=4).map(quotient)));
    // `programs.rs` tests MSMs.
    assert_eq!(outputs["Msm"].as_array().map(Vec::len), Some(1));
    assert_eq!(outputs["SparseProduct"], json!([format!("{:#066x}", 4)]));
}

#[test]
fn outputs_have_the_format_of_their_field() {
    let cli = CliFixture::new();
    let steps = r#"{"name": "w", "input": {"field": "babybear"}},
        {"name": "m", "input": {"field": "gf2"}},
        {"name": "n", "input": {"field": "integers", "length": 2}}"#;
    let program = format!(r#"{{"steps": [{steps}], "outputs": ["w", "m", "n"]}}"#);
    let program = cli.file("program.json", program);
    let outputs = ["w", "m", "n"].map(|name| cli.path(&format!("{name}.out")));
    let run = |encoding: &str, inputs: [&[u8]; 3]| {
        let mut line =
            vec!["run".to_owned(), program.clone(), "--encoding".into(), encoding.into()];
        for ((name, content), output) in ["w", "m", "n"].iter().zip(inputs).zip(&outputs) {
            line.extend(["--input".into(), format!("{name}={}", cli.file(name, content))]);
            line.extend(["--output".into(), format!("{name}={}", output.display())]);
        }
        cli.ok(&line.iter().map(String::as_str).collect::<Vec<_>>());
        outputs.each_ref().map(|output| fs::read(output).unwrap())
    };
    let packed = {
        let matrix = BitMatrix::from_words(1, 3, vec![5]).unwrap();
        let mut bytes = b"GF2BITS1".to_vec();
        for word in [1, 3, matrix.words()[0]] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    };
    let words: Vec<u8> =
        [7_u32, 2_013_265_920].iter().flat_map(|word| word.to_le_bytes()).collect();
    for encoding in ["canonical", "montgomery"] {
        let done = run(encoding, [&words, &packed, b"18446744073709551615"]);
        assert_eq!(done, [words.clone(), packed.clone(), b"0xffffffffffffffff\n".to_vec()]);
    }
    let text: [&[u8]; 3] = [b"7\n8\n", b"2 0\n\n", b"12\n13\n"];
    assert_eq!(run("decimal", text), text.map(<[u8]>::to_vec));
}

#[test]
fn elements_that_do_not_suit_their_field_are_refused() {
    let cli = CliFixture::new();
    let refused = |step: &str, file: &str, code: i32, words: &[&str]| {
        let program = format!(r#"{{"steps": [{step}], "outputs": ["x"]}}"#);
        let program = cli.file("program.json", program);
        let input = format!("x={}", cli.file("x", file));
        let given = ["--input", &input, "--encoding", "decimal"];
        let line = [&["run", &program][..], if file.is_empty() { &[] } else { &given }].concat();
        cli.fails(&line, code, words);
    };
    let integers = r#"{"name": "x", "input": {"field": "integers"}}"#;
    refused(
        integers,
        "12\n1a\n",
        65,
        &["integers[1]: line 2, column 2: 'a' is not a decimal digit"],
    );
    let bits = r#"{"name": "x", "input": {"field": "gf2", "columns": 2}}"#;
    refused(bits, "2 1\n", 65, &["3 columns, but the program has 2"]);
    refused(bits, "", 2, &["input 'x'"]);
    let over = r#"{"name": "x", "constant": {"elements": [2013265921], "field": "babybear"}}"#;
    refused(over, "", 65, &["step 'x': program.steps[0].constant.elements[0]: not canonical"]);
    let text = r#"{"name": "x", "constant": {"elements": ["q"], "field": "babybear"}}"#;
    refused(text, "", 65, &["step 'x' over babybear: \"q\" is not a number"]);
    let gf2 = r#"{"name": "x", "constant": {"elements": [1], "field": "gf2"}}"#;
    refused(gf2, "", 65, &["step 'x': ", "gf2"]);
    let bits = format!(r#"{bits}, {{"name": "y", "invert": {{"inputs": ["x"]}}}}"#);
    refused(&bits, "1 0\n", 65, &["step 'y': ", "gf2"]);
    let orders =
        r#"{"name": "x", "input": {"field": "gf2"}}, {"name": "y", "input": {"field": "gf2"}}"#;
    let program = cli.file("program.json", format!(r#"{{"steps": [{orders}], "outputs": ["x"]}}"#));
    let inputs = [("x", "2 1\n"), ("y", "1 2\n")]
        .map(|(name, text)| format!("{name}={}", cli.file(name, text)));
    let line = ["run", &program, "--input", &inputs[0], "--input", &inputs[1]];
    cli.fails(&line, 65, &["y: ", "different leading columns"]);
    cli.ok(&["run", &program, "--input", &inputs[0], "--input", &inputs[0].replace("x=", "y=")]);
}

#[test]
fn shapes_that_are_too_large_are_refused_by_the_name_of_their_step() {
    let cli = CliFixture::new();
    let file = format!("x={}", cli.file("x", "1\n"));
    let input = |shape: &str| {
        let step = format!(r#"{{"name": "x", "input": {shape}}}"#);
        cli.file("program.json", format!(r#"{{"steps": [{step}], "outputs": ["x"]}}"#))
    };
    for (field, member, length, max) in [
        ("integers", "length", 1_u64 << 62, 1_u64 << 26),
        ("integers", "length", 1 << 40, 1 << 26),
        ("integers", "length", (1 << 26) + 1, 1 << 26),
        ("gf2", "columns", 1 << 62, 1 << 20),
        ("gf2", "columns", (1 << 20) + 1, 1 << 20),
        ("babybear", "length", 1 << 62, 1 << 40),
        ("bls12-381-fr", "length", 1 << 62, 1 << 40),
    ] {
        let program = input(&format!(r#"{{"field": "{field}", "{member}": {length}}}"#));
        let (problem, rows) = (format!("{member}: must be at most {max}"), r#""rows": 1, "#);
        let line = ["run", &program, "--encoding", "decimal", "--input", &file];
        cli.fails(&line, 65, &["program.json: step 'x': ", &problem]);
        let shape = format!(r#"{{"field": "{field}", {rows}"{member}": {length}}}"#);
        cli.fails(&["run", &input(&shape), "--estimate"], 65, &["step 'x': ", &problem]);
    }
    let long = format!("x={}", cli.file("long", "1\n0x100000000\n"));
    let program = input(r#"{"field": "integers", "length": 1}"#);
    let words = ["long: integers[1]: too long in limbs: at most 1, got 2"];
    cli.fails(&["run", &program, "--input", &long], 65, &words);
    let many = format!("x={}", cli.file("many", "1\n".repeat(17)));
    let program = input(r#"{"field": "integers", "length": 67108864}"#);
    let words = ["many: 17 integers of 67108864 limbs: at most 1073741824 limbs in all"];
    cli.fails(&["run", &program, "--input", &many], 65, &words);
}

#[test]
fn encodings_that_an_output_cannot_have_are_refused() {
    let cli = CliFixture::new();
    let steps = r#"{"name": "w", "constant": {"elements": [1], "field": "babybear"}},
        {"name": "m", "input": {"field": "gf2"}},
        {"name": "n", "input": {"field": "integers"}}"#;
    let program = format!(r#"{{"steps": [{steps}], "outputs": ["w", "m", "n"]}}"#);
    let program = cli.file("program.json", program);
    let inputs = [("m", "2 1\n"), ("n", "7\n")]
        .map(|(name, text)| format!("{name}={}", cli.file(name, text)));
    let path = cli.path("out");
    let run = |encoding: &str, output: &str| {
        let output = format!("{output}={}", path.display());
        let line = ["run", &program, "--encoding", encoding, "--output", &output];
        cli.run(&[&line[..], &["--input", &inputs[0], "--input", &inputs[1]]].concat())
    };
    for (output, problem) in [
        ("w", "fields of a prime below 2^31 take the encodings canonical, montgomery, hex"),
        ("m", "matrices of bits have the format of their input: remove --encoding"),
        ("n", "integers take the encodings hex and decimal"),
    ] {
        for encoding in ["big-endian", "u64"] {
            let done = run(encoding, output);
            assert_eq!(done.code, 2, "{encoding}: {}", done.err);
            assert!(done.err.contains(&format!("--output {output}: {problem}")), "{}", done.err);
        }
        assert!(!path.exists(), "{output}");
    }
    for encoding in ["canonical", "hex", "decimal"] {
        assert_eq!(run(encoding, "n").code, 0, "{encoding}");
    }
    // The encoding is that of f.
    let steps = r#"{"name": "f", "input": {}}, {"name": "n", "input": {"field": "integers"}}"#;
    let program = format!(r#"{{"steps": [{steps}], "outputs": ["f", "n"]}}"#);
    let program = cli.file("mixed.json", program);
    let mut one = [0_u8; 32];
    one[31] = 1;
    let (f, output) = (format!("f={}", cli.file("f", one)), format!("n={}", path.display()));
    let line = ["run", &program, "--encoding", "big-endian", "--input", &f, "--input", &inputs[1]];
    assert_eq!(
        cli.ok(&[&line[..], &["--output", &output]].concat()).text(),
        format!("f: {:#066x}\n", 1)
    );
    assert_eq!(fs::read(&path).unwrap(), b"0x7\n");
}

#[test]
fn steps_over_gf2_make_whole_rows() {
    let cli = CliFixture::new();
    let files = [("m", "70 3\n1\n"), ("p", "5 2\n"), ("f", "1\n")];
    let files = files.map(|(name, text)| format!("{name}={}", cli.file(name, text)));
    let line = |step: &str| {
        let inputs = r#"{"name": "m", "input": {"field": "gf2", "columns": 71}},
            {"name": "p", "input": {"field": "gf2"}}, {"name": "f", "input": {}}"#;
        let text = format!(r#"{{"steps": [{inputs}, {{"name": "x", {step}}}], "outputs": ["x"]}}"#);
        let mut line = vec!["run".to_owned(), cli.file("program.json", text)];
        line.extend(["--encoding", "decimal"].map(str::to_owned));
        files.iter().for_each(|file| line.extend(["--input".to_owned(), file.clone()]));
        line
    };
    for (step, problem) in [
        (r#""slice": {"input": "m", "offset": 0, "length": 1}"#, "slice: offset and length must"),
        (r#""slice": {"input": "m", "offset": 1, "length": 2}"#, "slice: offset and length must"),
        (r#""pad": {"input": "m", "length": 5}"#, "pad: the result has 5 words: expected a"),
        (r#""poly_mul": {"inputs": ["m", "m"]}"#, "poly_mul.inputs[0]: is a vector over gf2"),
        (r#""concat": {"inputs": ["m", "p"]}"#, "concat: the inputs have different numbers of"),
        (r#""gf2_reduce": {"pivots": "f", "rows": "m"}"#, "gf2_reduce.pivots: is a vector over"),
        (r#""gf2_reduce": {"pivots": "p", "rows": "f"}"#, "gf2_reduce.rows: is a vector over"),
        (r#""gf2_echelon": {"input": "f"}"#, "gf2_echelon.input: is a vector over bls12-381-fr"),
    ] {
        let line = line(step);
        let line: Vec<_> = line.iter().map(String::as_str).collect();
        cli.fails(&line, 65, &["program.json: step 'x': ", problem]);
    }
    let line = line(r#""slice": {"input": "m", "offset": 2, "length": 2}"#);
    let line: Vec<_> = line.iter().map(String::as_str).collect();
    assert_eq!(cli.json(&line)["outputs"]["x"], json!(["1"]));
}
