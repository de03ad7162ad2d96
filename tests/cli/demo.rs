//! `capstan demo`, which needs no server and no files.

use std::collections::BTreeSet;

use ark_bls12_381::G1Affine;
use ark_serialize::CanonicalDeserialize;
use serde_json::Value;

use crate::cli::run;

/// Set in the environment; the demo must ignore it.
const UNREACHABLE: &str = "http://127.0.0.1:1";

#[test]
fn demo_reports_phases_and_checks_as_json() {
    let done = run(UNREACHABLE, &["demo", "--blobs", "2", "--json"], &[]);
    assert_eq!(done.code, 0, "{}", done.err);
    let report: Value = serde_json::from_slice(&done.out).unwrap();
    assert!(["cpu", "cuda"].contains(&report["engine"].as_str().unwrap()), "{report}");
    assert!(!report["engine_reason"].as_str().unwrap().is_empty());
    let phases = report["phases"].as_array().unwrap();
    let times: u64 = phases.iter().map(|phase| phase["time_us"].as_u64().unwrap()).sum();
    assert!(times > 0 && times <= report["total_us"].as_u64().unwrap(), "{report}");
    let jobs = phases.iter().filter(|phase| phase["compute_us"].as_u64() > Some(0));
    assert_eq!(jobs.count(), 6, "{report}");
    let checks = report["checks"].as_array().unwrap();
    let counts = checks.iter().map(|check| check["count"].as_u64().unwrap());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 2, 2, 1, 1, 2, 2, 1]);
    let commitments = report["commitments"].as_array().unwrap().iter().map(|commitment| {
        let bytes = hex::decode(commitment.as_str().unwrap()).unwrap();
        let _point = G1Affine::deserialize_compressed(bytes.as_slice()).unwrap();
        bytes
    });
    assert_eq!(commitments.collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn demo_prints_a_table() {
    let done = run(UNREACHABLE, &["demo", "--blobs", "1"], &[]);
    assert_eq!(done.code, 0, "{}", done.err);
    for words in
        ["engine c", "import bases", "1 x 4096 inverse NTT", "arkworks' MSMs", "All checks passed"]
    {
        assert!(done.text().contains(words), "no '{words}' in: {}", done.text());
    }
}

/// A fault of an emulated GPU that its self-test does not find, and how the demo ends.
struct DemoFault {
    /// A fault of the fourth launch: the self-test launches the kernel three times.
    setting: &'static str,
    code: i32,
    words: &'static str,
}

const WRONG_RESULT: DemoFault = DemoFault {
    setting: "ntt_dif_columns_e1_b2:4:flip1",
    code: 1,
    words: "differ from arkworks' NTTs, first at index 0",
};

const LOST_GPU: DemoFault =
    DemoFault { setting: "ntt_dif_columns_e1_b2:4:700", code: 75, words: "capstan: " };

impl DemoFault {
    fn makes_the_demo_fail(&self) {
        use crate::cli::{command, emulated};

        let Some(library) = emulated::driver() else {
            return println!("skipped: faults cannot be injected into a real GPU");
        };
        let folder = tempfile::tempdir().unwrap();
        for name in ["libcuda.so", "libcuda.so.1"] {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        let mut demo = command(UNREACHABLE, &["demo", "--blobs", "1"]);
        demo.env("LD_LIBRARY_PATH", folder.path()).env("EMU_FAULT", self.setting);
        let output = demo.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let done = (output.status.code(), output.stdout.as_slice());
        assert_eq!(done, (Some(self.code), &b""[..]), "{err}");
        assert!(err.contains(self.words), "{err}");
    }
}

#[test]
fn demo_fails_if_a_result_is_wrong() {
    WRONG_RESULT.makes_the_demo_fail();
}

#[test]
#[ignore = "sweep"]
fn demo_fails_if_its_gpu_is_lost() {
    if crate::cli::sweep::is_chosen("a demo whose GPU is lost") {
        LOST_GPU.makes_the_demo_fail();
    }
}

#[test]
fn demo_refuses_zero_blobs() {
    let done = run(UNREACHABLE, &["demo", "--blobs", "0"], &[]);
    assert_eq!((done.code, done.out.as_slice()), (2, &b""[..]), "{}", done.err);
}
