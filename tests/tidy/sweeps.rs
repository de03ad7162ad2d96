//! The second tier of tests: all of them are sweeps, of which each run has a share of the cases.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::{
    report,
    source::{File, code_files},
    sweep::{SHARES, share_of},
};

/// The reason that an ignored test gives.
const REASON: &str = "sweep";

/// The sweeps of one file.
#[derive(Default)]
struct Sweeps {
    /// What is wrong.
    complaints: Vec<String>,
    /// Their names, once for each use.
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
    let reason = attribute.meta.require_name_value().ok().and_then(|pair| match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    });
    Some(reason.unwrap_or_default())
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
}

#[test]
fn ignored_tests_are_sweeps_with_unique_names() {
    let (mut complaints, mut files) = (Vec::new(), BTreeMap::new());
    for File { path, text } in code_files() {
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
}

/// Each case is in exactly one share, and shares of many cases differ by one case at most.
#[test]
fn the_shares_of_a_sweep_add_up_to_all_cases() {
    for name in ["", "a", "faults at every call", "sizes"] {
        for count in [1, 2, SHARES - 1, SHARES, 11 * SHARES + 3] {
            let mut cases = [const { Vec::new() }; SHARES];
            (0..count).for_each(|index| cases[share_of(name, index)].push(index));
            let all: BTreeSet<_> = cases.iter().flatten().copied().collect();
            assert_eq!(all, (0..count).collect(), "{name}");
            assert_eq!(cases.iter().map(Vec::len).sum::<usize>(), count, "{name}");
            let least = count / SHARES;
            assert!(cases.iter().all(|cases| (least..=least + 1).contains(&cases.len())), "{name}");
        }
    }
}
