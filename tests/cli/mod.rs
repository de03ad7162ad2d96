//! The command line: the real binary against a server in this process.

mod bases;
mod demo;
mod doctor;
mod exit_codes;
mod gf2;
mod groth16;
mod integers;
mod jobs;
mod poly;
mod program_fields;
mod programs;
mod proof_files;
mod tokens;

use crate::{daemon_process, emulated, example_support as common, stable_port, sweep, tls_files};

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use ark_bls12_381::{Fr, G1Affine, G1Projective};
use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_ff::{BigInteger, PrimeField};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use common::{TestServer, server};
use serde_json::Value;
use tempfile::TempDir;

const CEREMONY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/trusted_setup_4096.json");

/// A server, a directory for files, and the binary.
struct CliFixture {
    server: TestServer,
    files: TempDir,
}

struct CommandOutput {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl CliFixture {
    fn new() -> Self {
        Self::with(server())
    }

    fn with(server: TestServer) -> Self {
        Self { server, files: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Writes a file; returns its path.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn run(&self, line: &[&str]) -> CommandOutput {
        self.run_with(line, &[])
    }

    fn run_with(&self, line: &[&str], stdin: &[u8]) -> CommandOutput {
        run(&self.server.target, line, stdin)
    }

    /// Runs a command that must succeed.
    fn ok(&self, line: &[&str]) -> CommandOutput {
        let done = self.run(line);
        assert_eq!(done.code, 0, "{line:?}: {}", done.err);
        done
    }

    fn json(&self, line: &[&str]) -> Value {
        let done = self.ok(&[line, &["--json"]].concat());
        serde_json::from_slice(&done.out).unwrap()
    }

    /// Runs a command that must exit with `code` and print `words` to stderr.
    fn fails(&self, line: &[&str], code: i32, words: &[&str]) {
        let done = self.run(line);
        assert_eq!(done.code, code, "{line:?}: {}", done.err);
        for word in words {
            assert!(done.err.contains(word), "{line:?}: no '{word}' in: {}", done.err);
        }
    }

    /// Imports points; returns their id.
    fn put(&self, points: &[G1Affine]) -> String {
        let mut file = Vec::new();
        points.serialize_uncompressed(&mut file).unwrap();
        let file = self.file("bases.ark", file);
        let imported = self.json(&["bases", "import", &file]);
        imported[0]["id"].as_str().unwrap().to_owned()
    }
}

impl CommandOutput {
    fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    /// The points of a hex result.
    fn points(&self) -> Vec<G1Affine> {
        let line = |line: &str| {
            G1Affine::deserialize_compressed(hex::decode(line).unwrap().as_slice()).unwrap()
        };
        self.text().lines().map(line).collect()
    }
}

fn command(server: &str, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(line).env("CAPSTAN_SERVER", server);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(server: &str, line: &[&str], stdin: &[u8]) -> CommandOutput {
    let mut child = command(server, line).spawn().unwrap();
    // A command that does not read its input closes the pipe: that is not a failure.
    let _closed = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{line:?}: {err}");
    CommandOutput { code: output.status.code().unwrap(), out: output.stdout, err }
}

fn canonical(values: &[Fr]) -> Vec<u8> {
    values.iter().flat_map(|value| value.into_bigint().to_bytes_le()).collect()
}

fn msm(points: &[G1Affine], scalars: &[Fr]) -> G1Affine {
    G1Projective::msm_unchecked(points, scalars).into_affine()
}
