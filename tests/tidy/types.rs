//! A type's name is declared once, in Rust and in C++, and docs name only errors that exist.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use syn::visit::Visit;

use crate::{
    report,
    source::{File, code_files, is_test, prose_files},
};

/// Every module of errors has its own `Result`.
const MAY_REPEAT: [&str; 1] = ["Result"];

/// What a file declares outside test modules.
#[derive(Default)]
struct Declarations {
    /// Name and line (from 1) of each type.
    types: Vec<(String, usize)>,
    /// The enums that derive `Error`, and their variants.
    errors: BTreeSet<String>,
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
        if item.attrs.iter().any(derives_error) {
            self.errors.insert(item.ident.to_string());
            self.errors.extend(item.variants.iter().map(|variant| variant.ident.to_string()));
        }
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

fn derives_error(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let tokens = list.tokens.to_string();
    list.path.is_ident("derive") && tokens.split([',', ' ', ':']).any(|name| name == "Error")
}

/// The files of `src` that are not test modules.
fn product_files() -> impl Iterator<Item = File> {
    let is_product =
        |file: &File| file.path.starts_with("src/") && !file.path.ends_with("/tests.rs");
    code_files().into_iter().filter(is_product)
}

/// Name and line of each type that C++ code defines, without specialisations of templates.
fn cpp_types(text: &str) -> Vec<(String, usize)> {
    let regex = |pattern: &str| Regex::new(pattern).expect("a valid regex");
    let kind = r"(?:struct|class|union|enum(?: class)?) (?:alignas\(\w+\) )?";
    let definition = regex(&format!(r"\b(?:{kind}(\w+)(?: :[^;{{]*)? \{{|using (\w+) =)"));
    let text = regex("//.*").replace_all(text, "");
    let names = definition.captures_iter(&text).filter_map(|found| found.get(1).or(found.get(2)));
    let line = |at| text[..at].matches('\n').count() + 1;
    names.map(|name| (name.as_str().to_owned(), line(name.start()))).collect()
}

/// A complaint for each name that is declared in several places; `found` are names and places.
fn repeated(found: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for (name, place) in found {
        places.entry(name).or_default().push(place);
    }
    places.retain(|name, places| places.len() > 1 && !MAY_REPEAT.contains(&name.as_str()));
    let complaint = |(name, places): (String, Vec<String>)| {
        format!("{name} is declared in {}: give each type its own name", places.join(", "))
    };
    places.into_iter().map(complaint).collect()
}

/// The names in backticks after "Errors:" in each paragraph of docs, and their line.
fn documented_errors(text: &str) -> Vec<(String, usize)> {
    let name = Regex::new(r"(?:\[`|`)([A-Z][A-Za-z]*)(?:`\]|`)").expect("a valid regex");
    let (mut found, mut is_errors) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let doc = line.trim_start().strip_prefix("///").map(str::trim);
        let errors = doc.and_then(|doc| doc.split_once("Errors:")).map(|(_, errors)| errors);
        let errors = errors.or(doc.filter(|doc| is_errors && !doc.is_empty()));
        is_errors = errors.is_some();
        let names = name.captures_iter(errors.unwrap_or_default());
        found.extend(names.map(|name| (name[1].to_owned(), at + 1)));
    }
    found
}

#[test]
fn a_type_name_is_declared_once() {
    report(repeated(product_files().flat_map(|File { path, text }| {
        let types = Declarations::of(&text).types.into_iter();
        types.map(move |(name, line)| (name, format!("{path}:{line}")))
    })));
}

#[test]
fn a_kernel_type_name_is_declared_once() {
    let endings = [".cu", ".cuh", ".cpp", ".hpp"];
    let is_code = |path: &str| endings.iter().any(|ending| path.ends_with(ending));
    let files = prose_files().into_iter();
    let files = files.filter(|file| file.path.starts_with("kernels/") && is_code(&file.path));
    report(repeated(files.flat_map(|File { path, text }| {
        cpp_types(&text).into_iter().map(move |(name, line)| (name, format!("{path}:{line}")))
    })));
}

#[test]
fn documented_errors_exist() {
    let known: BTreeSet<_> =
        product_files().flat_map(|File { text, .. }| Declarations::of(&text).errors).collect();
    let mut complaints = Vec::new();
    for File { path, text } in product_files() {
        for (name, line) in documented_errors(&text) {
            if !known.contains(&name) {
                complaints.push(format!("{path}:{line}: {name} is not a variant of an error"));
            }
        }
    }
    report(complaints);
}

#[test]
fn declarations_are_found() {
    let text = "// struct Comment;\npub(crate) struct A<'a>(&'a str);\nenum B { No }\n\
                impl X for [A<'_>; 2] {\n    type No = u8;\n    fn x() { type C = u8; }\n}\n\
                trait D { type No; }\n#[cfg(test)]\nmod tests {\n    struct No;\n}\n\
                mod m {\n    type E = u8;\n}\nconst S: &str = \"struct No;\";\n";
    let found = Declarations::of(text);
    let names = ["A", "B", "C", "D", "E"].map(str::to_owned);
    assert_eq!(found.types.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
    assert_eq!(found.types[4].1, 14);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    let found = Declarations::of("#[derive(Debug, thiserror::Error)]\nenum A { B }");
    assert_eq!(found.errors, BTreeSet::from(["A", "B"].map(str::to_owned)));
    let docs =
        "/// `No`.\n/// `No`. Errors: `A`, [`B`]\n/// and `C` of `d`.\n///\n/// `No`.\nfn x();";
    let names = ["A", "B", "C"].map(str::to_owned);
    assert_eq!(
        documented_errors(docs).into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
        names
    );
}

#[test]
fn cpp_declarations_are_found() {
    let text = "// struct No {\nstruct No;\ntemplate <class No> struct alignas(16) A {\n\
                    enum class B : uint8_t { no };\n};\ntemplate <> struct No<int> {};\n\
                using C = int; // using No = int\nusing no::No;\nenum : int { no };\n\
                struct D : E {};\n#define NO struct name##_no {}\n";
    let found = ["A", "B", "C", "D"].map(str::to_owned).into_iter().zip([3, 4, 7, 10]);
    assert_eq!(cpp_types(text), found.collect::<Vec<_>>());
    let twice = ["A", "B", "A"].map(|name| (name.to_owned(), "here".to_owned()));
    assert_eq!(repeated(twice).len(), 1);
}
