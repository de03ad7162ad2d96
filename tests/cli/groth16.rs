//! `capstan groth16`: keys, proofs, and what is refused.

use std::{fs, path::Path};

use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{BigInteger, PrimeField};
use ark_groth16::{Groth16, Proof, VerifyingKey, prepare_verifying_key};
use ark_serialize::CanonicalDeserialize;
use capstan::groth16::{
    ConstraintMatrices,
    files::{read_r1cs, read_wtns, write_r1cs, write_wtns},
};
use serde_json::Value;

use crate::cli::{CliFixture, CommandOutput, run};

const UNREACHABLE: &str = "http://127.0.0.1:1";
pub const CIRCUIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/repeated_square.r1cs");
pub const WITNESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/repeated_square.wtns");
/// Made by circom itself.
pub const FACTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/short_factor.r1cs");
pub const FACTOR_WITNESS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/short_factor.wtns");

/// Writes the files of `tests/data`.
#[path = "../../examples/groth16_files.rs"]
#[allow(dead_code)]
mod example;

/// A folder with keys, and a server.
pub struct ProofFiles {
    pub cli: CliFixture,
    circuit: &'static str,
    pub key: String,
    pub verifying_key: String,
    pub proof: String,
    pub public: String,
}

impl ProofFiles {
    pub fn new() -> Self {
        Self::of(CIRCUIT)
    }

    pub fn of(circuit: &'static str) -> Self {
        let cli = CliFixture::new();
        let path = |name: &str| cli.path(name).display().to_string();
        let (key, verifying_key) = (path("square.key"), path("square.vk"));
        let (proof, public) = (path("square.proof"), path("public.json"));
        let setup = ["groth16", "setup", circuit, "--key", &key, "--verifying-key", &verifying_key];
        let done = run(UNREACHABLE, &setup, &[]);
        assert_eq!(done.code, 0, "{}", done.err);
        assert!(done.text().contains("forge proofs"), "{}", done.text());
        Self { key, verifying_key, proof, public, circuit, cli }
    }

    pub fn prove(&self, witness: &str, options: &[&str]) -> CommandOutput {
        let Self { circuit, key, proof, public, .. } = self;
        let line = ["groth16", "prove", circuit, witness, "--key", key, "--proof", proof];
        self.cli.run(&[&line[..], &["--public", public], options].concat())
    }

    pub fn verify(&self, options: &[&str]) -> CommandOutput {
        let Self { proof, verifying_key, public, .. } = self;
        let line = ["groth16", "verify", proof, "--verifying-key", verifying_key];
        run(UNREACHABLE, &[&line[..], &["--public", public], options].concat(), &[])
    }

    /// Whether ark-groth16 accepts the files.
    pub fn verifies(&self) -> bool {
        let key = fs::read(&self.verifying_key).unwrap();
        let key = VerifyingKey::deserialize_uncompressed(key.as_slice()).unwrap();
        let proof = fs::read(&self.proof).unwrap();
        assert_eq!(proof.len(), 192);
        let proof = Proof::deserialize_compressed(proof.as_slice()).unwrap();
        let inputs: Vec<String> = serde_json::from_slice(&fs::read(&self.public).unwrap()).unwrap();
        let inputs: Vec<Fr> = inputs.iter().map(|text| text.parse().unwrap()).collect();
        let prepared = prepare_verifying_key(&key);
        Groth16::<Bls12_381>::verify_proof(&prepared, &proof, &inputs).unwrap()
    }

    /// The names of all files in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.cli.files.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The witness with another last value.
    fn wrong_witness(&self) -> String {
        let mut values = read_wtns(&fs::read(WITNESS).unwrap()).unwrap();
        *values.last_mut().unwrap() += Fr::from(1);
        self.cli.file("wrong.wtns", write_wtns(&values).unwrap().as_slice())
    }
}

pub fn words(done: &CommandOutput, code: i32, words: &[&str]) {
    assert_eq!(done.code, code, "{}", done.err);
    for word in words {
        assert!(done.err.contains(word), "no '{word}' in: {}", done.err);
    }
}

#[test]
fn a_proof_of_circoms_files_verifies() {
    let files = ProofFiles::new();
    let plot = files.cli.path("phases.svg").display().to_string();
    let done = files.prove(WITNESS, &["--check", "--plot", &plot]);
    assert_eq!(done.code, 0, "{}", done.err);
    for words in ["read files", "register the key", "compute", "engine cpu"] {
        assert!(done.text().contains(words), "no '{words}' in: {}", done.text());
    }
    assert!(files.verifies());
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("<svg") && svg.contains("register the key"), "{svg}");
    let done = files.verify(&[]);
    assert_eq!((done.code, done.text().as_str()), (0, "the proof verifies\n"), "{}", done.err);
    let names = ["phases.svg", "public.json", "square.key", "square.proof", "square.vk"];
    assert_eq!(files.names(), names);
}

#[test]
fn proofs_of_a_circuit_that_circom_compiled_verify() {
    let files = ProofFiles::of(FACTOR);
    let done = files.prove(FACTOR_WITNESS, &["--check", "--quiet"]);
    let printed = format!("proof: {}, verified\n", files.proof);
    assert_eq!((done.code, done.text()), (0, printed), "{}", done.err);
    assert!(files.verifies());
    // The square and the product of 1234 and 5678, then 5678: outputs precede inputs.
    let public: Value = serde_json::from_slice(&fs::read(&files.public).unwrap()).unwrap();
    assert_eq!(public, serde_json::json!(["1522756", "7006652", "5678"]));
    assert_eq!(files.verify(&[]).code, 0);
    fs::write(&files.public, r#"["1522756", "7006653", "5678"]"#).unwrap();
    words(&files.verify(&[]), 3, &["the proof does not verify"]);
    // A factor of 17 bits. The witness begins with 1, two outputs, the public input, the factor.
    let mut values = read_wtns(&fs::read(FACTOR_WITNESS).unwrap()).unwrap();
    values[4] += Fr::from(1 << 16);
    let wrong = files.cli.file("wrong.wtns", write_wtns(&values).unwrap().as_slice());
    words(&files.prove(&wrong, &["--check"]), 65, &["does not satisfy constraint"]);
}

#[test]
fn a_registered_key_is_described_without_its_points() {
    let files = ProofFiles::of(FACTOR);
    let (circuit, key) = (files.circuit, files.key.as_str());
    let description = files.cli.path("key.json").display().to_string();
    let line = ["groth16", "register", circuit, "--key", key, "--description", &description];
    let described = files.cli.json(&[&line[..], &["--label", "factor"]].concat());
    let written: Value = serde_json::from_slice(&fs::read(&description).unwrap()).unwrap();
    assert_eq!(written, described);
    let matrices = read_r1cs(&fs::read(FACTOR).unwrap()).unwrap();
    let counts = ["constraints", "public_variables", "variables"];
    let expected = [matrices.constraints(), matrices.public_variables(), matrices.variables()];
    assert_eq!(counts.map(|name| written[name].as_u64().unwrap() as usize), expected);
    // The server has all parts, under the label.
    let listed = files.cli.json(&["bases", "list"]);
    for id in written["objects"].as_object().unwrap().values().filter(|id| id.is_string()) {
        let part = listed.as_array().unwrap().iter().find(|part| part["id"] == *id).unwrap();
        assert!(part["label"].as_str().unwrap().starts_with("factor: "), "{part}");
    }
    // A second registration sends nothing new.
    assert_eq!(files.cli.json(&line), described);
    assert_eq!(files.cli.json(&["bases", "list"]), listed);
    let own = ["groth16", "register", circuit, "--key", key, "--description", key];
    assert_ne!(files.cli.run(&own).code, 0, "overwrites its key");
}

#[test]
fn reports_are_json() {
    let files = ProofFiles::new();
    let done = files.prove(WITNESS, &["--local", "--json", "--server", UNREACHABLE]);
    assert_eq!(done.code, 0, "{}", done.err);
    let report: Value = serde_json::from_slice(&done.out).unwrap();
    assert_eq!((&report["constraints"], &report["variables"]), (&16.into(), &18.into()));
    let public: Value = serde_json::from_slice(&fs::read(&files.public).unwrap()).unwrap();
    assert_eq!(report["public"], public);
    assert_eq!(report["proof"], hex::encode(fs::read(&files.proof).unwrap()));
    let phases = report["phases"].as_array().unwrap();
    let times: u64 = phases.iter().map(|phase| phase["time_us"].as_u64().unwrap()).sum();
    assert!(times > 0 && times <= report["total_us"].as_u64().unwrap(), "{report}");
    let verified = |done: CommandOutput| {
        let report: Value = serde_json::from_slice(&done.out).unwrap();
        (done.code, report["verified"].as_bool().unwrap())
    };
    assert_eq!(verified(files.verify(&["--json"])), (0, true));
    fs::write(&files.public, r#"["7"]"#).unwrap();
    assert_eq!(verified(files.verify(&["--json"])), (3, false));
    let line = ["groth16", "setup", CIRCUIT, "--compressed", "--key", &files.key];
    let line = [&line[..], &["--verifying-key", &files.verifying_key, "--json"]].concat();
    let report: Value = serde_json::from_slice(&files.cli.ok(&line).out).unwrap();
    assert_eq!(report["public_inputs"], 1);
    assert!(report["warning"].as_str().unwrap().contains("ceremony"), "{report}");
    // A compressed key is read without an option.
    assert_eq!(files.prove(WITNESS, &[]).code, 0);
    assert_eq!(verified(files.verify(&["--json"])), (0, true));
}

#[test]
fn a_wrong_witness_makes_no_proof() {
    let files = ProofFiles::new();
    let wrong = files.wrong_witness();
    let done = files.prove(&wrong, &["--check"]);
    words(&done, 65, &["wrong.wtns: the assignment does not satisfy constraint 14"]);
    // The check comes first: it needs no server.
    let line = ["groth16", "prove", CIRCUIT, &wrong, "--key", &files.key, "--proof", &files.proof];
    let done = run(UNREACHABLE, &[&line[..], &["--check"]].concat(), &[]);
    words(&done, 65, &["does not satisfy constraint 14"]);
    words(&files.prove(&wrong, &[]), 3, &["does not verify", "wrong.wtns", "--check"]);
    assert_eq!(files.names(), ["square.key", "square.vk", "wrong.wtns"]);
    let error = files.prove(&wrong, &["--check", "--json"]).err;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!((&error["error"]["exit"], &error["error"]["index"]), (&65.into(), &14.into()));
}

#[test]
fn a_key_of_another_setup_makes_no_verifying_proof() {
    let files = ProofFiles::new();
    assert_eq!(files.prove(WITNESS, &[]).code, 0);
    let other = ProofFiles::new();
    fs::copy(&other.verifying_key, &files.verifying_key).unwrap();
    words(&files.verify(&[]), 3, &["square.proof: the proof does not verify"]);
}

#[test]
fn a_key_of_another_circuit_makes_no_proof() {
    let files = ProofFiles::new();
    let matrices = read_r1cs(&fs::read(CIRCUIT).unwrap()).unwrap();
    // With 15 constraints, all parts of the key are as long as with 16.
    let expected = [
        (15, 3, "square.key was not made for"),
        (10, 65, "square.key: h_query of the key has 15 elements"),
    ];
    for (constraints, code, word) in expected {
        let rows = [0, 1, 2].map(|matrix| -> Vec<_> {
            (0..constraints).map(|at| matrices.constraint(at)[matrix].clone()).collect()
        });
        let other = ConstraintMatrices::new(rows, 2, matrices.variables()).unwrap();
        let other = files.cli.file("other.r1cs", write_r1cs(&other).unwrap());
        let line = ["groth16", "setup", &other, "--key", &files.key];
        files.cli.ok(&[&line[..], &["--verifying-key", &files.verifying_key]].concat());
        words(&files.prove(WITNESS, &["--check"]), code, &[word]);
    }
    assert_eq!(files.names(), ["other.r1cs", "square.key", "square.vk"]);
}

#[test]
fn invalid_files_are_named() {
    let files = ProofFiles::new();
    words(&files.prove("/nowhere", &[]), 66, &["cannot read /nowhere"]);
    words(&files.prove(CIRCUIT, &[]), 65, &["repeated_square.r1cs: not a .wtns file"]);
    let short = read_wtns(&fs::read(WITNESS).unwrap()).unwrap();
    let short = write_wtns(&short[..17]).unwrap();
    let short = files.cli.file("short.wtns", short.as_slice());
    words(&files.prove(&short, &[]), 65, &["short.wtns: the assignment has 17 elements", "18"]);
    let mut over = fs::read(WITNESS).unwrap();
    let at = over.len() - 32;
    over[at..].copy_from_slice(&Fr::MODULUS.to_bytes_le());
    let over = files.cli.file("over.wtns", over);
    words(&files.prove(&over, &[]), 65, &["over.wtns: the value of wire 17"]);
    let key = fs::read(&files.key).unwrap();
    fs::write(&files.key, &key[..key.len() - 1]).unwrap();
    words(&files.prove(WITNESS, &[]), 65, &["square.key: truncated: the proving key"]);
    // A point that only the server checks: the first of a_query.
    let at = 96 + 3 * 192 + 8 + 2 * 96 + 2 * 96 + 8;
    let mut forged = key.clone();
    forged[at..at + 96].copy_from_slice(&off_curve());
    fs::write(&files.key, forged).unwrap();
    words(&files.prove(WITNESS, &[]), 65, &["square.key: a_query: ", "[0]", "not on the curve"]);
    fs::write(&files.key, key).unwrap();
    assert_eq!(files.names(), ["over.wtns", "short.wtns", "square.key", "square.vk"]);
    let line = ["groth16", "prove", CIRCUIT, WITNESS, "--key", &files.key];
    files.cli.fails(&[&line[..], &["--proof", "/nowhere/p"]].concat(), 73, &["/nowhere/p"]);
    let line = ["groth16", "setup", WITNESS, "--key", "k", "--verifying-key", "v"];
    files.cli.fails(&line, 65, &["repeated_square.wtns: not a .r1cs file"]);
    let line = ["groth16", "setup", CIRCUIT, "--key", "/dev/null", "--verifying-key", "v"];
    files.cli.fails(&line, 73, &["/dev/null: not a regular file"]);
    let line = ["groth16", "setup", CIRCUIT, "--key", "k", "--verifying-key", "k"];
    files.cli.fails(&line, 2, &["k is named for two outputs"]);
    let line = ["groth16", "setup", &short, "--key", "-", "--verifying-key", &short];
    files.cli.fails(&line, 2, &["short.wtns would replace an input"]);
    assert!(!Path::new("k").exists() && !Path::new("v").exists());
    let done = files.prove(WITNESS, &["--plot", &files.public]);
    words(&done, 2, &["public.json is named for two outputs"]);
}

/// x = 1, y = 1.
fn off_curve() -> [u8; 96] {
    let mut point = [0; 96];
    (point[47], point[95]) = (1, 1);
    point
}

#[test]
fn invalid_proofs_keys_and_public_inputs_are_named() {
    let files = ProofFiles::new();
    assert_eq!(files.prove(WITNESS, &[]).code, 0);
    let with_public = |text: &str, expected: &[&str]| {
        fs::write(&files.public, text).unwrap();
        words(&files.verify(&[]), 65, expected);
    };
    let public = fs::read_to_string(&files.public).unwrap();
    with_public("[1]", &["public.json: expected a JSON list of decimal numbers in strings"]);
    with_public(r#"["1", "2"]"#, &["public.json: 2 public inputs, but", "is for 1"]);
    with_public(r#"["-1"]"#, &["public.json: [0]: expected a decimal number below the prime"]);
    let over = format!("[\"{}\"]", Fr::MODULUS);
    with_public(&over, &["public.json: [0]: expected a decimal number below the prime"]);
    fs::write(&files.public, public).unwrap();
    assert_eq!(files.verify(&[]).code, 0);
    let proof = fs::read(&files.proof).unwrap();
    fs::write(&files.proof, &proof[..191]).unwrap();
    words(&files.verify(&[]), 65, &["square.proof: truncated: the proof ends too early"]);
    fs::write(&files.proof, [&[0xff_u8; 48][..], &proof[48..]].concat()).unwrap();
    words(&files.verify(&[]), 65, &["square.proof: a[0], at byte 0, is not a valid point"]);
    fs::write(&files.proof, &proof).unwrap();
    fs::write(&files.verifying_key, [0; 96]).unwrap();
    words(&files.verify(&[]), 65, &["square.vk: "]);
}

#[test]
fn an_unreachable_server_is_reported_with_advice() {
    let files = ProofFiles::new();
    let done = files.prove(WITNESS, &["--server", UNREACHABLE]);
    words(&done, 69, &["cannot reach", UNREACHABLE, "is capstand running"]);
    assert_eq!(files.names(), ["square.key", "square.vk"]);
}

#[test]
fn the_example_writes_the_files_of_the_tests() {
    let folder = tempfile::tempdir().unwrap();
    example::write_files(folder.path()).unwrap();
    for file in [CIRCUIT, WITNESS] {
        let name = Path::new(file).file_name().unwrap();
        assert!(fs::read(folder.path().join(name)).unwrap() == fs::read(file).unwrap(), "{file}");
    }
}

/// The README's commands from a circuit to a verified proof, on files in another folder.
#[test]
fn the_readmes_commands_run() {
    const CARGO: &str = "cargo run --release -- ";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let readme = readme.replace("\\\n", " ");
    let files = tempfile::tempdir().unwrap();
    let folder = format!("{}/", files.path().display());
    let commands = readme.lines().filter_map(|line| line.strip_prefix(CARGO));
    let commands: Vec<_> = commands.filter(|line| line.starts_with("groth16 ")).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let command = command.split('#').next().unwrap().replace("/tmp/", &folder);
        let words: Vec<_> = command.split_whitespace().collect();
        let done = crate::cli::command(UNREACHABLE, &words).current_dir(root).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{command}: {err}");
    }
}
