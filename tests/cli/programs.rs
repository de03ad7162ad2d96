//! `capstan run`.

use std::fs;

use ark_bls12_381::{Fr, G1Affine};
use ark_poly::{DenseUVPolynomial, Polynomial, univariate::DensePolynomial};
use ark_serialize::CanonicalSerialize;

use crate::cli::{
    CEREMONY, CliFixture, canonical,
    common::{points, scalars},
    msm,
};

const OPENING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kzg_open.json");

fn hex(point: &G1Affine) -> String {
    let mut bytes = Vec::new();
    point.serialize_compressed(&mut bytes).unwrap();
    hex::encode(bytes)
}

/// The README's commands.
#[test]
fn opens_a_commitment_over_the_ceremony() {
    let cli = CliFixture::new();
    cli.ok(&["bases", "import", CEREMONY]);
    let numbers: String = (1..=4096).map(|number| format!("{number}\n")).collect();
    let line = ["run", OPENING, "--input", "f=-", "--encoding", "decimal"];
    let done = cli.run_with(&line, numbers.as_bytes());
    assert_eq!(done.code, 0, "{}", done.err);
    let coefficients: Vec<_> = (1..=4096_u64).map(Fr::from).collect();
    let value = DensePolynomial::from_coefficients_vec(coefficients).evaluate(&Fr::from(0x5eed));
    let text = done.text();
    let [commitment, y, proof] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(y, format!("y: {}", number(value)));
    let commitment = commitment.strip_prefix("commitment: ").unwrap();
    assert_eq!((commitment.len(), proof.len()), (96, "proof: ".len() + 96));
    assert_ne!(proof.strip_prefix("proof: ").unwrap(), commitment);
}

fn number(value: Fr) -> String {
    let mut bytes = canonical(&[value]);
    bytes.reverse();
    format!("0x{}", hex::encode(bytes))
}

/// Two rows that are evaluated and summed.
const ROWS: &str = r#"{"steps": [
    {"name": "f", "input": {"rows": 2}},
    {"name": "double", "add": {"inputs": ["f", "f"]}},
    {"name": "y", "evaluate": {"input": "double", "point": "2"}},
    {"name": "sums", "msm": {"input": "f", "bases": "BASES", "offset": 1}}],
    "outputs": ["sums", "y", "double"]}"#;

#[test]
fn outputs_are_printed_or_written_to_files() {
    let cli = CliFixture::new();
    let (points, rows) = (points::<G1Affine>(10), scalars(12));
    let id = cli.put(&points);
    let program = cli.file("program.json", ROWS.replace("BASES", &id));
    let input = format!("f={}", cli.file("rows", canonical(&rows)));
    let doubled = cli.path("doubled").display().to_string();
    let output = format!("double={doubled}");
    let line = ["run", &program, "--input", &input, "--output", &output];
    let done = cli.ok(&[&line[..], &["--verify", "-v"]].concat());
    let twice: Vec<_> = rows.iter().map(|value| *value + value).collect();
    assert_eq!(fs::read(&doubled).unwrap(), canonical(&twice));
    let sums: Vec<_> = rows.chunks(6).map(|row| hex(&msm(&points[1..7], row))).collect();
    let values: Vec<_> = twice
        .chunks(6)
        .map(|row| number(DensePolynomial::from_coefficients_slice(row).evaluate(&Fr::from(2))))
        .collect();
    let [first, second] = &sums[..] else { panic!("two sums") };
    let expected =
        format!("sums[0]: {first}\nsums[1]: {second}\ny[0]: {}\ny[1]: {}\n", values[0], values[1]);
    assert_eq!(done.text(), expected);
    for word in ["run:", "verified: full", "step y (evaluate): ", "step sums (msm): "] {
        assert!(done.err.contains(word), "no '{word}' in: {}", done.err);
    }
    let json = cli.json(&line);
    assert_eq!(json["outputs"], serde_json::json!({ "sums": sums, "y": values }));
    assert_eq!(
        (&json["steps"][1]["name"], &json["steps"][1]["kind"]),
        (&"double".into(), &"add".into())
    );
    assert!(json["timing"]["total_us"].as_u64().unwrap() > 0);
    // Points in a file are compressed; text inputs give text outputs.
    let text: String = rows.iter().map(|value| format!("{value}\n")).collect();
    let input = format!("f={}", cli.file("text", text));
    let sums_file = cli.path("sums").display().to_string();
    let outputs = [format!("double={doubled}"), format!("sums={sums_file}")];
    let line = ["run", &program, "--input", &input, "--encoding", "decimal"];
    let line = [&line[..], &["--output", &outputs[0], "--output", &outputs[1]]].concat();
    assert_eq!(cli.ok(&line).text().lines().count(), 2);
    assert_eq!(hex::encode(fs::read(&sums_file).unwrap()), sums.concat());
    let lines = twice.iter().map(|value| format!("{value}\n"));
    assert_eq!(fs::read_to_string(&doubled).unwrap(), lines.collect::<String>());
}

#[test]
fn an_estimate_needs_no_elements_but_lengths() {
    let cli = CliFixture::new();
    let id = cli.put(&points(10));
    let program = ROWS.replace("BASES", &id);
    let unsized_file = cli.file("unsized", &program);
    cli.fails(&["run", &unsized_file, "--estimate"], 2, &["step 'f'", "length", "--input f=FILE"]);
    let sized = cli.file("sized", program.replace("\"rows\": 2", "\"rows\": 2, \"length\": 6"));
    let json = cli.json(&["run", &sized, "--estimate"]);
    assert_eq!((&json["input_bytes"], &json["engine"]), (&(12 * 32).into(), &"cpu".into()));
    assert!(json["modelled_time_us"].as_u64().unwrap() > 0, "{json}");
    assert_eq!((&json["jobs_ahead"], &json["time_ahead_us"]), (&0.into(), &0.into()));
    let text = cli.ok(&["run", &sized, "--estimate"]).text();
    assert!(text.contains("inputs 384 B") && text.contains("engine cpu"), "{text}");
    assert!(text.starts_with("modelled time "), "{text}");
    assert!(text.contains("jobs ahead 0 (modelled time "), "{text}");
}

#[test]
fn errors_name_the_step() {
    let cli = CliFixture::new();
    let id = cli.put(&points(10));
    let steps = |steps: &str| {
        let input = r#"{"name": "f", "input": {}}"#;
        let text = format!(r#"{{"steps": [{input}, {steps}], "outputs": ["x"]}}"#);
        cli.file("program.json", text.replace("BASES", &id))
    };
    let elements = cli.file("elements", canonical(&scalars(6)));
    let input = format!("f={elements}");
    let refused = |step: &str, code, words: &[&str]| {
        let line = ["run", &steps(step), "--input", &input];
        cli.fails(&line, code, &[words, &["program.json: step 'x': "]].concat());
    };
    let ntt = r#"{"name": "x", "ntt": {"input": "f"}}"#;
    refused(ntt, 65, &["program.steps[1].ntt.input: wrong length: expected 8, got 6"]);
    let slice = r#"{"name": "x", "slice": {"input": "g", "offset": 0, "length": 1}}"#;
    refused(slice, 65, &["program.steps[1].slice: no earlier step has the name 'g'"]);
    let bases = r#"{"name": "x", "msm": {"input": "f", "bases": "none"}}"#;
    refused(bases, 1, &["the server has no bases 'none'"]);
    let few = r#"{"name": "x", "msm": {"input": "f", "bases": "BASES", "offset": 5}}"#;
    refused(few, 65, &["program.steps[1].msm.input: too long: at most 5, got 6"]);
    let offset = few.replace("\"offset\": 5", "\"offset\": 11");
    refused(&offset, 65, &["offset: must be at most 10"]);
    let points = format!(
        r#"{}, {{"name": "x", "invert": {{"inputs": ["sum"]}}}}"#,
        few.replace("\"x\"", "\"sum\"").replace("\"offset\": 5", "\"offset\": 4")
    );
    refused(&points, 65, &["program.steps[2].invert: 'sum' is a list of points"]);
    refused(r#"{"name": "x", "pads": {}}"#, 65, &["unknown variant `pads`"]);
    // Refused by the server: the third element is not below r.
    let mut bytes = canonical(&scalars(6));
    bytes[64..96].copy_from_slice(&[0xff; 32]);
    let over = format!("f={}", cli.file("over", bytes));
    let program = steps(r#"{"name": "x", "invert": {"inputs": ["f"]}}"#);
    let line = ["run", &program, "--input", &over];
    let words = ["step 'f'", "program.steps[0].input.elements[2]", "not canonical", "--reduce"];
    cli.fails(&line, 65, &words);
    cli.ok(&[&line[..], &["--reduce"]].concat());
}

#[test]
fn names_on_the_command_line_must_be_those_of_the_program() {
    let cli = CliFixture::new();
    let program = r#"{"steps": [{"name": "f", "input": {"length": 2}}], "outputs": ["f"]}"#;
    let program = cli.file("program.json", program);
    let elements = format!("f={}", cli.file("elements", canonical(&scalars(3))));
    cli.fails(&["run", &program], 2, &["input 'f'", "--input f=FILE"]);
    cli.fails(&["run", &program, "--input", "f"], 2, &["expected NAME=FILE"]);
    cli.fails(&["run", &program, "--input", "g=x"], 2, &["--input g: the program has no input"]);
    let twice = ["run", &program, "--input", &elements, "--input", &elements];
    cli.fails(&twice, 2, &["--input f is given twice"]);
    let line = ["run", &program, "--input", &elements];
    cli.fails(&[&line[..], &["--output", "g=x"]].concat(), 2, &["--output g: the program has no"]);
    let words = ["program.json: step 'f': inputs[0]: wrong length: expected 2, got 3"];
    cli.fails(&line, 65, &words);
    cli.fails(&["run", "-", "--input", "f=-"], 65, &["-: EOF"]);
    cli.fails(&["run", "/nowhere"], 66, &["cannot read /nowhere"]);
}
