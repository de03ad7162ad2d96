//! The promises of `SECURITY.md` state who can rely on them, and name tests that always run.

use crate::{
    defects::{self, NamedTest, TestFunctions},
    report,
    source::{File, code_files, read, root},
    sweeps::is_model,
};

const TABLE: &str = "SECURITY.md";
const HEADER: &str = "| promise | to whom | tests |\n|---|---|---|\n";
const AUDIENCES: [&str; 5] = ["stranger", "caller", "other tenant", "operator", "user of the host"];

/// Whether a quoted text names tests; other files are quoted for what they say or do.
fn names_tests(quoted: &str) -> bool {
    NamedTest::parse(quoted).is_some() || quoted.ends_with(".rs") || root().join(quoted).is_dir()
}

/// Whether a file, or a file of a folder, has a test that is not ignored.
fn has_test(path: &str, files: &[File]) -> bool {
    let folder = format!("{path}/");
    let mut inside =
        files.iter().filter(|file| file.path == path || file.path.starts_with(&folder));
    inside.any(|file| !TestFunctions::of(&file.text).0.is_empty())
}

/// What is wrong with a quoted text.
fn complaint(quoted: &str, files: &[File]) -> Option<String> {
    if let Some(test) = NamedTest::parse(quoted) {
        return test.complaint(TABLE);
    }
    if !root().join(quoted).exists() {
        return Some(format!("{TABLE} names {quoted}, which does not exist"));
    }
    let has_none = names_tests(quoted) && !has_test(quoted, files);
    has_none.then(|| format!("{TABLE} names {quoted}, which has no test that always runs"))
}

/// What is wrong with a row of the table. `files` are those of the code.
fn complaints(row: &str, files: &[File]) -> Vec<String> {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [promise, audience, tests] = cells[..] else {
        return vec![format!("{TABLE}: not three cells: {row}")];
    };
    let mut found = Vec::new();
    if let Some(unknown) = audience.split(", ").find(|who| !AUDIENCES.contains(who)) {
        found.push(format!("{TABLE}: {promise}: nobody is called {unknown:?}"));
    }
    let quoted: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
    // The table of defects names tests that always run.
    let always_runs =
        |quoted: &&str| !is_model(quoted) && (names_tests(quoted) || *quoted == defects::TABLE);
    if !quoted.iter().any(always_runs) {
        found.push(format!("{TABLE}: {promise}: names no test that always runs"));
    }
    found.extend(quoted.into_iter().filter_map(|quoted| complaint(quoted, files)));
    found
}

#[test]
fn the_table_of_promises_names_tests_that_always_run() {
    let text = read(TABLE);
    let (_, table) = text.split_once(HEADER).expect("the table of promises");
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    let files = code_files();
    report(rows.into_iter().flat_map(|row| complaints(row, &files)).collect());
}

#[test]
fn wrong_promises_are_found() {
    let files = code_files();
    let own = "`tests/tidy/promises.rs: wrong_promises_are_found`, `tests/tidy`";
    for row in [
        format!("| x | caller, operator | {own} |"),
        format!("| x | caller | {own}, `tests/models`, `scripts/fuzz` |"),
        "| x | caller | `tests/DEFECTS.md` lists the tests |".into(),
    ] {
        assert_eq!(complaints(&row, &files), [""; 0], "{row}");
    }
    let wrong = [
        format!("| x | {own} |"),
        format!("| x | friend | {own} |"),
        "| x | caller | none |".into(),
        "| x | caller | `tests/none.rs` |".into(),
        "| x | caller | `tests/tidy/promises.rs: complaints` |".into(),
        "| x | caller | `tests/tidy/source.rs` |".into(),
        "| x | caller | `tests/data` |".into(),
        "| x | caller | `tests/models`, `tests/models/runs.rs`, `scripts/fuzz` |".into(),
    ];
    for row in wrong {
        assert_eq!(complaints(&row, &files).len(), 1, "{row}");
    }
}
