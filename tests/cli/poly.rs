//! `capstan poly`.

use std::fs;

use ark_bls12_381::Fr;

use crate::cli::{CliFixture, canonical};

#[test]
fn products_are_read_and_written_in_every_format() {
    let cli = CliFixture::new();
    let a = cli.file("a", "1 2\n3\n");
    let b = cli.file("b", "5 -1");
    let decimal = ["poly", "mul", &a, &b, "--encoding", "decimal"];
    let with = |more: &[&'static str]| cli.ok(&[&decimal, more].concat()).text();
    let minus = |value: u64| (-Fr::from(value)).to_string();
    assert_eq!(with(&["--verify"]), format!("5\n9\n13\n{}\n", minus(3)));
    assert_eq!(with(&["--cyclic", "3"]), "2\n9\n13\n");
    assert_eq!(with(&["--negacyclic", "2"]), format!("{}\n12\n", minus(8)));
    let hex = cli.run_with(&["poly", "mul", "-", "-", "--encoding", "hex"], b"1 2");
    assert!(hex.code == 2 && hex.err.contains("only one factor"), "{}", hex.err);
    // The same file twice is squared, row by row.
    let rows = cli.file("rows", canonical(&[1, 2, 3, 4].map(Fr::from)));
    let out = cli.path("out").display().to_string();
    let line = ["poly", "mul", &rows, &rows, "--batch", "2", "--verify=full", "--out", &out];
    let report = cli.json(&line);
    assert_eq!((&report["coefficients"], &report["batch"]), (&6.into(), &2.into()));
    assert_eq!(report["execution"]["verified"], "full");
    let expected = canonical(&[1, 4, 4, 9, 24, 16].map(Fr::from));
    assert_eq!(fs::read(&out).unwrap(), expected);
}

#[test]
fn products_over_fields_of_31_bits_take_4_bytes_a_coefficient() {
    let cli = CliFixture::new();
    let a = cli.file("a", "2013265920 1");
    let line = ["poly", "mul", &a, &a, "--field", "babybear", "--encoding", "decimal"];
    assert_eq!(cli.ok(&line).text(), "1\n2013265919\n1\n");
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let p = 7_340_033_u64;
    let montgomery = |value: u64| ((value << 32) % p) as u32;
    let a = cli.file("montgomery", words(&[montgomery(3), montgomery(5)]));
    let line = ["poly", "mul", &a, &a, "--field", "7340033", "--encoding", "montgomery"];
    assert_eq!(cli.ok(&line).out, words(&[9, 30, 25].map(montgomery)));
}

#[test]
fn factors_that_cannot_be_multiplied_are_refused() {
    let cli = CliFixture::new();
    let three = cli.file("three", "1 2 3");
    let wrong = cli.file("wrong", "1 x");
    let empty = cli.file("empty", "");
    let large = cli.file("large", "7340033");
    let of = |a: &str, b: &str, more: &[&str], code, words: &[&str]| {
        let line = ["poly", "mul", a, b, "--encoding", "decimal"];
        cli.fails(&[&line, more].concat(), code, words);
    };
    of(&three, &wrong, &[], 65, &["wrong", "scalars[1]"]);
    of(&three, &wrong, &["--field", "babybear"], 65, &["wrong", "scalars[1]"]);
    of(&empty, &three, &[], 65, &["empty: no coefficients"]);
    of(&three, &three, &["--batch", "2"], 65, &["3 coefficients are not 2 rows"]);
    of(&three, &three, &["--cyclic", "0"], 65, &["poly_mul.cyclic: must not be zero"]);
    of(&three, &large, &["--field", "7340033"], 65, &["elements[0]", "not canonical"]);
    of(&three, &three, &["--cyclic", "3", "--negacyclic", "3"], 2, &["cannot be used with"]);
    of(&three, &three, &["--json"], 2, &["--out"]);
}
