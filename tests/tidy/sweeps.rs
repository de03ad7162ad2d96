//! The second tier of tests: every test is a sweep, and each run takes a share of its cases.

use std::{collections::BTreeMap, mem, path::Path};

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;
use syn::visit::Visit;

use crate::{
    report,
    source::{File, attribute_text, code_files, read},
    sweep::{SHARES, cases_of},
};

/// The reason that an ignored test gives.
const REASON: &str = "sweep";

/// Contains the attributes that it refuses.
const EXEMPT: &str = "tests/tidy/sweeps.rs";

/// The sweeps of one file.
#[derive(Default)]
struct Sweeps {
    /// Violations of the rule.
    complaints: Vec<String>,
    /// The names of its sweeps, one for each use.
    names: Vec<String>,
}

impl Sweeps {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        found.visit_file(&syn::parse_file(text).expect("the file compiles"));
        found
    }
}

/// The reason of `#[ignore = "reason"]`; empty without one, `None` if the test is not ignored.
pub fn ignored(function: &syn::ItemFn) -> Option<String> {
    let attribute = function.attrs.iter().find(|attribute| attribute.path().is_ident("ignore"))?;
    Some(attribute_text(attribute).unwrap_or_default())
}

/// Whether a path belongs to the model checks, which run only in a share of `scripts/sweep`.
pub fn is_model(path: &str) -> bool {
    Path::new(path).starts_with("tests/models")
}

/// Complaints about ignored tests that `scripts/sweep` does not run, and about tests that are
/// ignored under a condition.
fn misplaced(path: &str, text: &str) -> Vec<String> {
    let has = |pattern: &str| {
        // Most files do not have the word: compiling a regex takes longer than this search.
        text.contains("ignore") && Regex::new(pattern).expect("a valid regex").is_match(text)
    };
    let is_swept = !is_model(path) && (path.starts_with("src/") || path.starts_with("tests/"));
    let mut found = Vec::new();
    if !is_swept && has(r"#\s*\[\s*ignore\b") {
        found.push(format!("{path}: scripts/sweep does not run ignored tests of this file"));
    }
    if path != EXEMPT && has(r"\bcfg_attr\s*\([^\]]*\bignore\b") {
        found.push(format!("{path}: do not use cfg_attr to ignore a test"));
    }
    found
}

/// Whether the tokens of a macro have an attribute that ignores a test.
fn has_ignore(tokens: TokenStream) -> bool {
    let mut is_attribute = false;
    tokens.into_iter().any(|token| {
        let is_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        let is_attribute = mem::replace(&mut is_attribute, is_hash);
        let TokenTree::Group(group) = token else { return false };
        let first = group.stream().into_iter().next();
        let ignores = matches!(&first, Some(TokenTree::Ident(name)) if name == "ignore");
        is_attribute && ignores || has_ignore(group.stream())
    })
}

/// The names in calls of `sweep::cases("name", …)` and `sweep::is_chosen("name")`.
struct SweepNames(Vec<String>);

impl<'ast> Visit<'ast> for SweepNames {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            let path: Vec<_> =
                path.path.segments.iter().map(|part| part.ident.to_string()).collect();
            let is_of_sweeps = matches!(&path[..], [.., module, name]
                if module == "sweep" && (name == "cases" || name == "is_chosen"));
            if let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. })) =
                call.args.first().filter(|_| is_of_sweeps)
            {
                self.0.push(name.value());
            }
        }
        syn::visit::visit_expr_call(self, call);
    }
}

impl<'ast> Visit<'ast> for Sweeps {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let name = function.sig.ident.to_string();
        let mut used = SweepNames(Vec::new());
        used.visit_block(&function.block);
        match ignored(function) {
            Some(reason) if reason != REASON => {
                self.complaints.push(format!("{name} is ignored: give the reason {REASON:?}"));
            }
            Some(_) if used.0.len() != 1 => {
                self.complaints.push(format!("{name}: no call of sweep::cases or is_chosen"));
            }
            None if !used.0.is_empty() => {
                self.complaints.push(format!("{name} is a sweep: add #[ignore = {REASON:?}]"));
            }
            _ => self.names.extend(used.0),
        }
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if has_ignore(item.mac.tokens.clone()) {
            self.complaints.push("write ignored tests outside of macros".to_owned());
        }
    }
}

#[test]
fn ignored_tests_are_sweeps_with_unique_names() {
    let (mut complaints, mut files) = (Vec::new(), BTreeMap::new());
    for File { path, text } in code_files() {
        complaints.extend(misplaced(&path, &text));
        if !path.starts_with("tests/") && !path.starts_with("src/") {
            continue;
        }
        let found = Sweeps::of(&text);
        complaints.extend(found.complaints.into_iter().map(|text| format!("{path}: {text}")));
        for name in found.names {
            if let Some(first) = files.insert(name.clone(), path.clone()) {
                complaints.push(format!("{path} and {first} have sweeps {name:?}"));
            }
        }
    }
    report(complaints);
    assert!(files.len() > 5, "{files:?}");
}

#[test]
fn wrong_sweeps_are_found() {
    let complaints = |text| Sweeps::of(text).complaints.len();
    assert_eq!(complaints(r#"#[ignore = "sweep"] fn a() { sweep::cases("a", 0..9); }"#), 0);
    assert_eq!(complaints(r#"#[ignore] fn a() { sweep::cases("a", 0..9); }"#), 1);
    assert_eq!(complaints(r#"#[ignore = "slow"] fn a() { sweep::is_chosen("a"); }"#), 1);
    assert_eq!(complaints(r#"#[ignore = "sweep"] fn a() {}"#), 1);
    assert_eq!(complaints(r#"fn a() { for x in crate::sweep::cases("a", 0..9) {} }"#), 1);
    let two = r#"#[ignore = "sweep"] fn a() { if !sweep::is_chosen("b") { return } }"#;
    assert_eq!(Sweeps::of(two).names, ["b"]);
    let in_macro = "macro_rules! a { () => { #[test] #[ignore = \"sweep\"] fn a() {} } }";
    assert_eq!(complaints(in_macro), 1);
    assert_eq!(complaints("a! { [ignore]; #[test] fn ignore() { \"#[ignore]\" } }"), 0);
}

#[test]
fn misplaced_attributes_are_found() {
    let count = |path: &str, text: &str| misplaced(path, text).len();
    let ignored = "#[test]\n#[ignore = \"sweep\"]\nfn a() {}\n";
    let conditional = "#[cfg_attr(\n    not(feature = \"a\"),\n    ignore\n)]\nfn a() {}\n";
    for path in ["examples/a.rs", "integrations/arkworks/tests/a.rs", "tests/models/a.rs"] {
        assert_eq!((count(path, ignored), count(path, conditional)), (1, 1), "{path}");
    }
    for path in ["src/a.rs", "tests/a/b.rs"] {
        assert_eq!((count(path, ignored), count(path, conditional)), (0, 1), "{path}");
        assert_eq!(count(path, "#[cfg_attr(a, allow(b))] // ignored\nfn ignore() {}\n"), 0);
    }
}

/// Each case is in exactly one share, and shares of many cases differ by one case at most.
#[test]
fn the_shares_of_a_sweep_add_up_to_all_cases() {
    for name in ["", "a", "faults at every call", "sizes"] {
        for count in [0, 1, 2, SHARES - 1, SHARES, 11 * SHARES + 3] {
            let share = |number: usize| cases_of(&number.to_string(), name, 0..count);
            let shares: Vec<_> = (0..SHARES).map(share).collect();
            let mut together = shares.concat();
            together.sort_unstable();
            let all: Vec<_> = (0..count).collect();
            assert_eq!(together, all, "{name}");
            assert_eq!(cases_of("all", name, 0..count), all, "{name}");
            let sizes = count / SHARES..=count / SHARES + 1;
            assert!(shares.iter().all(|share| sizes.contains(&share.len())), "{name}");
        }
    }
}

#[test]
fn the_script_has_the_same_number_of_shares() {
    let script = read("scripts/sweep");
    // The second one is the pattern for the number of a share.
    for text in [format!("readonly shares={SHARES}\n"), format!("=~ ^[0-{}]$ ]]", SHARES - 1)] {
        assert!(script.contains(&text), "scripts/sweep does not contain {text:?}");
    }
}
