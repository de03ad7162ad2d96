//! `tests/DEFECTS.md` names tests that exist.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::{
    report,
    source::{read, root},
    sweeps::ignored,
};

const TABLE: &str = "tests/DEFECTS.md";

/// The number of defects that the audit found.
const DEFECTS: u32 = 31;

/// A test as a table names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedTest {
    pub file: String,
    pub function: String,
}

impl NamedTest {
    /// The test of a text like `a/b.rs: name`; `None` for other texts.
    pub fn parse(quoted: &str) -> Option<Self> {
        let (file, function) = quoted.split_once(".rs: ")?;
        Some(Self { file: format!("{file}.rs"), function: function.into() })
    }

    /// Why there is no such test.
    pub fn complaint(&self, table: &str) -> Option<String> {
        let Self { file, function } = self;
        if !root().join(file).exists() {
            return Some(format!("{table} names {file}, which does not exist"));
        }
        let exists = TestFunctions::of(&read(file)).0.contains(function);
        (!exists).then(|| format!("{table}: {file} has no test {function} that always runs"))
    }
}

/// The tests of each row, by the row's number.
fn rows(table: &str) -> BTreeMap<u32, Vec<NamedTest>> {
    let mut rows = BTreeMap::new();
    for line in table.lines() {
        let Some((number, rest)) = line.strip_prefix("| ").and_then(|row| row.split_once(" |"))
        else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let quoted = rest.split('`').skip(1).step_by(2);
        rows.entry(number).or_insert_with(Vec::new).extend(quoted.filter_map(NamedTest::parse));
    }
    rows
}

/// The names of a file's test functions.
struct TestFunctions(BTreeSet<String>);

impl TestFunctions {
    fn of(text: &str) -> Self {
        let mut found = Self(BTreeSet::new());
        found.visit_file(&syn::parse_file(text).expect("the file compiles"));
        found
    }
}

impl<'ast> Visit<'ast> for TestFunctions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        // `#[test]` or `#[tokio::test]`.
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().segments.last().is_some_and(|name| name.ident == "test")
        };
        // A sweep runs a share of its cases: a promise has a test that always runs.
        if function.attrs.iter().any(is_test) && ignored(function).is_none() {
            self.0.insert(function.sig.ident.to_string());
        }
    }
}

#[test]
fn the_table_of_defects_names_tests_that_exist() {
    let rows = rows(&read(TABLE));
    let expected: Vec<_> = (1..=DEFECTS).collect();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), expected, "the rows of {TABLE}");
    let untested = rows.iter().filter(|(_, tests)| tests.is_empty());
    let untested = untested.map(|(number, _)| format!("{TABLE}: row {number} names no test"));
    let missing = rows.values().flatten().filter_map(|test| test.complaint(TABLE));
    report(untested.chain(missing).collect());
}

#[test]
fn rows_and_missing_tests_are_found() {
    let table = "| | defect | tests |\n|---|---|---|\n\
                 | 7 | `x` breaks | `a/b.rs: holds`, `a/c.rs: holds_too`; `a.md` says so |\n";
    let named = |file: &str, function: &str| NamedTest {
        file: file.to_owned(),
        function: function.to_owned(),
    };
    let tests = vec![named("a/b.rs", "holds"), named("a/c.rs", "holds_too")];
    assert_eq!(rows(table), BTreeMap::from([(7, tests)]));
    let own = "tests/tidy/defects.rs";
    let complaint = |file, function| named(file, function).complaint(TABLE);
    assert_eq!(complaint(own, "rows_and_missing_tests_are_found"), None);
    assert!(complaint(own, "rows").is_some_and(|text| text.contains("no test rows")));
    assert!(complaint("tests/none.rs", "x").is_some());
    let found = TestFunctions::of(
        "mod tests { #[tokio::test(a = 1)] async fn b() {} fn c() {} #[test] #[ignore] fn d() {} }",
    );
    assert_eq!(found.0.into_iter().collect::<Vec<_>>(), ["b"]);
}
