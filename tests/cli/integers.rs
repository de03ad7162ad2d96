//! `capstan int`: products here and on a server, and what is refused.

use std::fs;

use num_bigint::BigUint;
use serde_json::{Value, json};

use crate::cli::{CliFixture, CommandOutput, run, sweep};

/// The command needs no server, except with --remote.
const UNREACHABLE: &str = "http://127.0.0.1:1";

struct IntegerFiles(tempfile::TempDir);

impl IntegerFiles {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

fn mul(line: &[&str]) -> CommandOutput {
    run(UNREACHABLE, &[&["int", "mul"], line].concat(), &[])
}

fn printed(line: &[&str]) -> String {
    let done = mul(line);
    assert_eq!(done.code, 0, "{line:?}: {}", done.err);
    assert!(done.err.starts_with("multiplied in "), "{}", done.err);
    done.text()
}

fn fails(line: &[&str], code: i32, word: &str) {
    let done = mul(line);
    assert_eq!(done.code, code, "{line:?}: {}", done.err);
    assert!(done.err.contains(word), "{line:?}: no '{word}' in: {}", done.err);
}

#[test]
fn products_have_the_radix_of_the_factors() {
    let files = IntegerFiles::new();
    let seven = files.file("seven", "7\n");
    let large = files.file("large", "123456789012345678901234567890");
    let hex = files.file("hex", "0xFFff \n\n");
    assert_eq!(printed(&[&seven, &large]), "864197523086419752308641975230\n");
    assert_eq!(printed(&[&seven, &seven]), "49\n");
    assert_eq!(printed(&[&hex, &hex]), "0xfffe0001\n");
    assert_eq!(printed(&[&hex, &seven]), "458745\n");
    assert_eq!(printed(&[&seven, &seven, "--hex"]), "0x31\n");
    let zero = files.file("zero", "000");
    assert_eq!(printed(&[&large, &zero]), "0\n");
    let done = run(UNREACHABLE, &["int", "mul", "-", &seven], b"0x10\n");
    assert_eq!(done.text(), "112\n");
}

#[test]
fn long_products_equal_those_of_num_bigint() {
    let files = IntegerFiles::new();
    let three = BigUint::from(3_u32);
    // Long enough for transforms: more than 6144 limbs each.
    let (a, b) = (three.pow(180_000), three.pow(170_001));
    let hex = |integer: &BigUint| format!("{integer:#x}");
    let (a_file, b_file) = (files.file("a", hex(&a)), files.file("b", hex(&b)));
    let out = files.path("out");
    let done = mul(&[&a_file, &b_file, "--out", &out]);
    assert_eq!((done.code, done.text().as_str()), (0, ""), "{}", done.err);
    assert!(fs::read_to_string(&out).unwrap().trim_end() == hex(&(&a * &b)));
    let decimal = files.file("decimal", a.to_string());
    assert!(printed(&[&decimal, &decimal, "--hex"]).trim_end() == hex(&(&a * &a)));
}

#[test]
fn reports_are_json() {
    let files = IntegerFiles::new();
    let (a, b) = (files.file("a", "256"), files.file("b", "3"));
    let report = |line: &[&str]| {
        let done = mul(&[line, &["--json"]].concat());
        assert_eq!(done.code, 0, "{line:?}: {}", done.err);
        let mut report: Value = serde_json::from_slice(&done.out).unwrap();
        assert!(report["time_us"].take().is_u64(), "{report}");
        report
    };
    let mut expected = json!({
        "a_bits": 9, "b_bits": 2, "bits": 10, "radix": "decimal", "time_us": null, "product": "768",
    });
    assert_eq!(report(&[&a, &b]), expected);
    // The product is in the file only.
    let out = files.path("out");
    expected.as_object_mut().unwrap().remove("product");
    assert_eq!(report(&[&a, &b, "--out", &out]), expected);
    assert_eq!(fs::read_to_string(&out).unwrap(), "768\n");
}

#[test]
fn bad_digits_are_refused_with_their_position() {
    let files = IntegerFiles::new();
    let good = files.file("good", "1");
    for (content, message) in [
        ("", "bad: no digits"),
        ("0x\n", "bad: no digits"),
        ("12a", "bad: line 1, column 3: 'a' is not a decimal digit"),
        ("0x12g", "bad: line 1, column 5: 'g' is not a hexadecimal digit"),
        ("-1", "bad: line 1, column 1: negative integers are not supported"),
        ("1_0", "bad: line 1, column 2: '_' is not a decimal digit"),
        ("1\n2\n", "bad: line 1, column 2: whitespace is allowed at the end only"),
    ] {
        let bad = files.file("bad", content);
        fails(&[&bad, &good], 65, message);
        fails(&[&good, &bad], 65, message);
    }
    fails(&[&good, &files.path("missing")], 66, "missing");
    fails(&["-", "-"], 2, "only one factor can be standard input");
    fails(&[&good, &good, "--out", &good], 2, "would replace an input");
    fails(&[&good, &good, "--verify"], 2, "--remote");
}

/// The files have half a GiB of digits.
#[test]
#[ignore = "sweep"]
fn products_of_more_than_two_to_the_26_limbs_are_refused() {
    if !sweep::is_chosen("products of integers that are too long") {
        return;
    }
    let files = IntegerFiles::new();
    // 2^26 + 1 limbs.
    let half = files.file("half", format!("0x{}", "f".repeat(8 << 25)));
    let more = files.file("more", format!("0x{}", "f".repeat((8 << 25) + 1)));
    fails(&[&half, &more], 65, "the product has 67108865 limbs of 32 bits: at most 67108864");
}

#[test]
fn a_server_multiplies_and_checks() {
    let (files, cli) = (IntegerFiles::new(), CliFixture::new());
    let a = files.file("a", "0xffffffffffffffffffffffff");
    let b = files.file("b", "99999999999999999999");
    let product = (BigUint::from(1_u32) << 96_u32) - 1_u32;
    let product = product * BigUint::from(99_999_999_999_999_999_999_u128);
    for verify in ["--verify", "--verify=full"] {
        let done = cli.ok(&["int", "mul", &a, &b, "--remote", verify]);
        assert_eq!(done.text(), format!("{product}\n"));
    }
    let report = cli.json(&["int", "mul", &b, &b, "--remote"]);
    assert_eq!(report["product"], "9999999999999999999800000000000000000001");
    assert_eq!(report["execution"]["engine"], json!("cpu"), "{report}");
    fails(&[&a, &b, "--remote"], 69, "");
}
