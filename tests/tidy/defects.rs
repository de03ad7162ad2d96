//! `tests/DEFECTS.md` names tests that always run.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::{
    report,
    source::{read, root},
    sweeps::{ignored, is_model},
};

pub const TABLE: &str = "tests/DEFECTS.md";

/// The number of defects.
const DEFECTS: u32 = 67;

/// A test as a table names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedTest {
    pub file: String,
    pub function: String,
}

impl NamedTest {
    /// The test of a text like `a/b.rs: name` or `a/b.py: name`; `None` for other texts.
    pub fn parse(quoted: &str) -> Option<Self> {
        let (file, function) = quoted.split_once(": ")?;
        let is_code = file.ends_with(".rs") || file.ends_with(".py");
        is_code.then(|| Self { file: file.into(), function: function.into() })
    }

    /// Why the file has no such test that always runs.
    pub fn complaint(&self, table: &str) -> Option<String> {
        let Self { file, function } = self;
        if !root().join(file).exists() {
            return Some(format!("{table} names {file}, which does not exist"));
        }
        let exists = match file.ends_with(".py") {
            true => read(file).lines().any(|line| line.starts_with(&format!("def {function}("))),
            false => TestFunctions::of(&read(file)).0.contains(function),
        };
        (!exists).then(|| format!("{table}: {file} has no test {function} that always runs"))
    }
}

/// What a row names.
#[derive(Debug, Default, PartialEq, Eq)]
struct DefectRow {
    tests: Vec<NamedTest>,
    /// Texts with `.rs` that do not name a test.
    malformed: Vec<String>,
}

impl DefectRow {
    fn add(&mut self, text: &str) {
        for (at, part) in text.split('`').enumerate() {
            let is_quoted = at % 2 == 1;
            match NamedTest::parse(part).filter(|_| is_quoted) {
                Some(test) => self.tests.push(test),
                None if part.contains(".rs") => self.malformed.push(part.to_owned()),
                None => {}
            }
        }
    }

    fn complaints(&self, number: u32) -> Vec<String> {
        let missing = self.tests.iter().filter_map(|test| test.complaint(TABLE));
        let malformed = |text| format!("{TABLE}: row {number}: {text:?} is not `file.rs: test`");
        let malformed = self.malformed.iter().map(malformed);
        let mut found: Vec<_> = missing.chain(malformed).collect();
        if self.tests.iter().all(|test| is_model(&test.file)) {
            found.push(format!("{TABLE}: row {number} names no test that always runs"));
        }
        found
    }
}

/// The rows of the table by their number.
fn rows(table: &str) -> BTreeMap<u32, DefectRow> {
    let mut rows = BTreeMap::<u32, DefectRow>::new();
    for line in table.lines() {
        let Some((number, rest)) = line.strip_prefix("| ").and_then(|row| row.split_once(" |"))
        else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        rows.entry(number).or_default().add(rest);
    }
    rows
}

/// The names of a file's tests that always run.
pub struct TestFunctions(pub BTreeSet<String>);

impl TestFunctions {
    pub fn of(text: &str) -> Self {
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
fn the_table_of_defects_names_tests_that_always_run() {
    let rows = rows(&read(TABLE));
    let expected: Vec<_> = (1..=DEFECTS).collect();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), expected, "the rows of {TABLE}");
    report(rows.iter().flat_map(|(number, row)| row.complaints(*number)).collect());
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
    assert_eq!(rows(table), BTreeMap::from([(7, DefectRow { tests, malformed: vec![] })]));
    let table = "| 8 | breaks | `a/b.rs:holds`, `a/c.rs: holds`, a/d.rs: holds |\n";
    assert_eq!(rows(table)[&8].malformed, ["a/b.rs:holds", ", a/d.rs: holds |"]);
    let model = named("tests/models/runs.rs", "a_run_that_panics_leaves_the_table");
    let row = DefectRow { tests: vec![model], malformed: vec!["a.rs".to_owned()] };
    assert_eq!(row.complaints(1).len(), 2, "{row:?}");
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
