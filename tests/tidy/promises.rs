//! The promises of `SECURITY.md` state who can rely on them, and name tests that exist.

use crate::{
    defects::NamedTest,
    report,
    source::{read, root},
};

const TABLE: &str = "SECURITY.md";
const HEADER: &str = "| promise | to whom | tests |\n|---|---|---|\n";
const AUDIENCES: [&str; 5] = ["stranger", "caller", "other tenant", "operator", "user of the host"];

/// What is wrong with a row of the table.
fn complaints(row: &str) -> Vec<String> {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [promise, audience, tests] = cells[..] else {
        return vec![format!("{TABLE}: not three cells: {row}")];
    };
    let mut found = Vec::new();
    if let Some(unknown) = audience.split(", ").find(|who| !AUDIENCES.contains(who)) {
        found.push(format!("{TABLE}: {promise}: nobody is called {unknown:?}"));
    }
    let quoted: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
    if quoted.is_empty() {
        found.push(format!("{TABLE}: {promise}: names no test"));
    }
    found.extend(quoted.into_iter().filter_map(|quoted| match NamedTest::parse(quoted) {
        Some(test) => test.complaint(TABLE),
        None if root().join(quoted).exists() => None,
        None => Some(format!("{TABLE} names {quoted}, which does not exist")),
    }));
    found
}

#[test]
fn the_table_of_promises_names_tests_that_exist() {
    let text = read(TABLE);
    let (_, table) = text.split_once(HEADER).expect("the table of promises");
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    report(rows.into_iter().flat_map(complaints).collect());
}

#[test]
fn wrong_promises_are_found() {
    let own = "`tests/tidy/promises.rs: wrong_promises_are_found`, `tests/tidy`";
    assert_eq!(complaints(&format!("| x | caller, operator | {own} |")), [""; 0]);
    let wrong = [
        format!("| x | {own} |"),
        format!("| x | friend | {own} |"),
        "| x | caller | none |".into(),
        "| x | caller | `tests/none.rs` |".into(),
        "| x | caller | `tests/tidy/promises.rs: complaints` |".into(),
    ];
    for row in wrong {
        assert_eq!(complaints(&row).len(), 1, "{row}");
    }
}
