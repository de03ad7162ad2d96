//! `capstan gf2`: reduced rows, echelon forms, ranks, and what is refused, here and on a server.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{CliFixture, CommandOutput, run};

/// The commands need no server, except with --remote.
const UNREACHABLE: &str = "http://127.0.0.1:1";

/// The leading column is the highest: 9, 5 and 3.
const PIVOTS: &str = "9 5 2\n5 3\n3 0\n";
/// Reduced to 8 5, to 2, and to zero, because 2 is promoted.
const ROWS: &str = "8 5\n9 5\n2\n\n";

struct Gf2Files(tempfile::TempDir);

impl Gf2Files {
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

fn gf2(line: &[&str]) -> CommandOutput {
    run(UNREACHABLE, &[&["gf2"], line].concat(), &[])
}

fn report(line: &[&str]) -> Value {
    let done = gf2(&[line, &["--json"]].concat());
    assert_eq!(done.code, 0, "{line:?}: {}", done.err);
    let mut report: Value = serde_json::from_slice(&done.out).unwrap();
    assert!(report["time_us"].take().is_u64(), "{report}");
    report
}

fn fails(line: &[&str], code: i32, words: &[&str]) {
    let done = gf2(line);
    assert_eq!(done.code, code, "{line:?}: {}", done.err);
    for word in words {
        assert!(done.err.contains(word), "{line:?}: no '{word}' in: {}", done.err);
    }
}

/// A file of packed bits.
fn packed(rows: u64, columns: u64, words: &[u64]) -> Vec<u8> {
    let numbers = [rows, columns].into_iter().chain(words.iter().copied());
    b"GF2BITS1".iter().copied().chain(numbers.flat_map(u64::to_le_bytes)).collect()
}

#[test]
fn reduced_rows_are_in_the_place_of_the_rows() {
    let files = Gf2Files::new();
    let (pivots, rows) = (files.file("pivots", PIVOTS), files.file("rows", ROWS));
    let output = files.path("reduced");
    let done = gf2(&["reduce", &pivots, &rows, "--output", &output]);
    assert_eq!(done.code, 0, "{}", done.err);
    let text = "4 rows of 10 columns, 3 pivots: 2 promoted, 2 zero, rank 5\n";
    assert_eq!(done.text(), text);
    assert!(done.err.starts_with("reduced in "), "{}", done.err);
    assert_eq!(fs::read_to_string(&output).unwrap(), "8 5\n2\n\n\n");
    let expected = json!({
        "columns": 10, "pivots": 3, "rows": 4, "promoted": 2, "zero": 2, "rank": 5, "time_us": null,
    });
    assert_eq!(report(&["reduce", &pivots, &rows]), expected);
}

#[test]
fn packed_bits_are_written_for_packed_bits() {
    let files = Gf2Files::new();
    // The leading column is the lowest.
    let pivots = files.file("pivots", "0 65\n64 69\n");
    let rows = files.file("rows", packed(2, 70, &[1, 1, 0, 1 << 5]));
    let output = files.path("reduced");
    let expected = json!({
        "columns": 70, "pivots": 2, "rows": 2, "promoted": 2, "zero": 0, "rank": 4, "time_us": null,
    });
    assert_eq!(report(&["reduce", &pivots, &rows, "--output", &output]), expected);
    assert_eq!(fs::read(&output).unwrap(), packed(2, 70, &[0, 1 << 1 | 1 << 5, 0, 1 << 5]));
}

#[test]
fn ranks_and_echelon_forms_are_printed() {
    let files = Gf2Files::new();
    let matrix = files.file("matrix", "2 0\n2 1 0\n3 2\n3 1 0\n");
    let report_of = json!({ "columns": 4, "rows": 4, "rank": 3, "time_us": null });
    assert_eq!(report(&["rank", &matrix]), report_of);
    assert_eq!(gf2(&["rank", &matrix]).text(), "4 rows of 4 columns: rank 3\n");
    let output = files.path("form");
    assert_eq!(report(&["echelon", &matrix, "--output", &output]), report_of);
    assert_eq!(fs::read_to_string(&output).unwrap(), "3 0\n2 0\n1\n\n");
    // Standard input, and a matrix without rows.
    let done = run(UNREACHABLE, &["gf2", "rank", "-"], b"");
    assert_eq!((done.code, done.text().as_str()), (0, "0 rows of 0 columns: rank 0\n"));
}

#[test]
fn malformed_files_are_refused_by_line_and_character() {
    let files = Gf2Files::new();
    let good = files.file("good", PIVOTS);
    let bad = files.file("bad", "3 1\n2 x\n");
    let words = ["bad: line 2, character 3", "decimal digits"];
    fails(&["rank", &bad], 65, &words);
    fails(&["reduce", &good, &bad], 65, &words);
    fails(&["reduce", &bad, &good], 65, &words);
    let truncated = files.file("truncated", &packed(2, 64, &[1, 2])[..39]);
    fails(&["rank", &truncated], 65, &["truncated: wrong length", "40 bytes", "it has 39"]);
    // Sixteen gibibytes and more, of a few kilobytes.
    let text = String::from("1048575 0\n") + &"0\n".repeat(1 << 17);
    fails(&["rank", &files.file("large", text)], 65, &["large: 131073 rows of 1048576 columns"]);
    fails(&["rank", &files.path("none")], 66, &["cannot read", "none"]);
}

#[test]
fn pivots_that_do_not_suit_the_rows_are_refused() {
    let files = Gf2Files::new();
    let rows = files.file("rows", ROWS);
    let zero = files.file("zero", "9 5\n\n");
    fails(&["reduce", &zero, &rows], 65, &["zero: pivot 1 is zero"]);
    let twice = files.file("twice", "9 5\n4\n9 3\n");
    let done = gf2(&["reduce", &twice, &rows, "--json"]);
    let error: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!((done.code, &error["error"]["index"]), (65, &json!(2)), "{error}");
    let ascending = files.file("ascending", "5 9\n");
    fails(&["reduce", &ascending, &rows], 65, &["ascending, ", "different leading columns"]);
    let narrow = files.file("narrow", packed(0, 9, &[]));
    let wide = files.file("wide", packed(1, 10, &[1]));
    fails(&["reduce", &narrow, &wide], 65, &["different numbers of columns: 9 and 10"]);
}

#[test]
fn results_do_not_replace_inputs() {
    let files = Gf2Files::new();
    let (pivots, rows) = (files.file("pivots", PIVOTS), files.file("rows", ROWS));
    fails(&["reduce", &pivots, &rows, "--output", &rows], 2, &["would replace an input"]);
    fails(&["echelon", &rows, "--output", &rows], 2, &["would replace an input"]);
    // A command that fails leaves no file behind.
    let bad = files.file("bad", "1 2\n2 1\n");
    let output = files.path("none");
    fails(&["echelon", &bad, "--output", &output], 65, &["line 2, character 3"]);
    assert_eq!(fs::read_dir(files.0.path()).unwrap().count(), 3);
}

#[test]
fn servers_eliminate_with_the_same_results() {
    let (files, cli) = (Gf2Files::new(), CliFixture::new());
    let (pivots, rows) = (files.file("pivots", PIVOTS), files.file("rows", ROWS));
    let output = files.path("reduced");
    let line = ["gf2", "reduce", &pivots, &rows, "--output", &output, "--remote"];
    let done = cli.ok(&line);
    let text = "4 rows of 10 columns, 3 pivots: 2 promoted, 2 zero, rank 5\n";
    assert_eq!(done.text(), text);
    assert_eq!(fs::read_to_string(&output).unwrap(), "8 5\n2\n\n\n");
    let report = cli.json(&line);
    assert_eq!((&report["rank"], &report["promoted"]), (&json!(5), &json!(2)), "{report}");
    assert_eq!(report["execution"]["engine"], json!("cpu"), "{report}");

    let form = files.path("form");
    let line = ["gf2", "echelon", &rows, "--output", &form];
    cli.ok(&line);
    let in_process = fs::read(&form).unwrap();
    let done = cli.ok(&[&line[..], &["--remote"]].concat());
    assert_eq!(done.text(), "4 rows of 10 columns: rank 3\n");
    assert_eq!(fs::read(&form).unwrap(), in_process);

    let twice = files.file("twice", "9 5\n4\n9 3\n");
    let words = ["gf2_reduce.pivots[2]", "has the leading column of pivot 0"];
    cli.fails(&["gf2", "reduce", &twice, &rows, "--remote"], 65, &words);
    let done = gf2(&["reduce", &pivots, &rows, "--remote"]);
    assert_eq!(done.code, 69, "{}", done.err);
}
