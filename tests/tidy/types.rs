//! A type's name is declared once, and docs name only errors that exist.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use syn::visit::Visit;

use crate::{
    report,
    source::{File, code_files, is_test},
};

/// Every module of errors has its own `Result`.
const MAY_REPEAT: [&str; 1] = ["Result"];

/// What a file declares outside test modules.
#[derive(Default)]
struct Declarations {
    /// Name and line (from 1) of each type.
    types: Vec<(String, usize)>,
    variants: BTreeSet<String>,
}

impl Declarations {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        found.visit_file(&syn::parse_file(text).expect("the file compiles"));
        found
    }

    fn add(&mut self, name: &syn::Ident) {
        self.types.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Declarations {
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
        self.variants.extend(item.variants.iter().map(|variant| variant.ident.to_string()));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident);
    }
}

/// The files of `src` that are not test modules.
fn product_files() -> impl Iterator<Item = File> {
    let is_product =
        |file: &File| file.path.starts_with("src/") && !file.path.ends_with("/tests.rs");
    code_files().into_iter().filter(is_product)
}

/// The names in backticks of each paragraph of docs that begins with "Errors:", and their line.
fn documented_errors(text: &str) -> Vec<(String, usize)> {
    let name = Regex::new(r"(?:\[`|`)([A-Z][A-Za-z]*)(?:`\]|`)").expect("a valid regex");
    let (mut found, mut is_errors) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let doc = line.trim_start().strip_prefix("///").map(str::trim);
        is_errors =
            doc.is_some_and(|doc| doc.starts_with("Errors:") || is_errors && !doc.is_empty());
        if is_errors {
            found.extend(name.captures_iter(line).map(|name| (name[1].to_owned(), at + 1)));
        }
    }
    found
}

#[test]
fn a_type_name_is_declared_once() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for File { path, text } in product_files() {
        for (name, line) in Declarations::of(&text).types {
            places.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    places.retain(|name, places| places.len() > 1 && !MAY_REPEAT.contains(&name.as_str()));
    let complaint = |(name, places): (String, Vec<String>)| {
        format!("{name} is declared in {}: give each type its own name", places.join(", "))
    };
    report(places.into_iter().map(complaint).collect());
}

#[test]
fn documented_errors_exist() {
    let mut known = BTreeSet::from(["Option".to_owned(), "None".to_owned()]);
    for File { text, .. } in product_files() {
        let found = Declarations::of(&text);
        known.extend(found.types.into_iter().map(|(name, _)| name));
        known.extend(found.variants);
    }
    let mut complaints = Vec::new();
    for File { path, text } in product_files() {
        for (name, line) in documented_errors(&text) {
            if !known.contains(&name) {
                complaints.push(format!("{path}:{line}: {name} is no variant and no type"));
            }
        }
    }
    report(complaints);
}

#[test]
fn declarations_are_found() {
    let text = "// struct Comment;\npub(crate) struct A<'a>(&'a str);\nenum B { C }\n\
                impl X for [A<'_>; 2] {\n    type No = u8;\n    fn x() { type C = u8; }\n}\n\
                trait D { type No; }\n#[cfg(test)]\nmod tests {\n    struct No;\n}\n\
                mod m {\n    type E = u8;\n}\nconst S: &str = \"struct No;\";\n";
    let found = Declarations::of(text);
    let names = ["A", "B", "C", "D", "E"].map(str::to_owned);
    assert_eq!(found.types.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
    assert_eq!(found.types[4].1, 14);
    assert_eq!(found.variants, BTreeSet::from(["C".to_owned()]));
    let docs = "/// `No`.\n/// Errors: `A`, [`B`]\n/// and `C` of `d`.\n///\n/// `No`.\nfn x();";
    let names = ["A", "B", "C"].map(str::to_owned);
    assert_eq!(
        documented_errors(docs).into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        names
    );
}
