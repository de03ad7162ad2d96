//! Every file of `tests` is part of a test binary: the tests of a file that no module declares do
//! not exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use syn::visit::Visit;

use crate::{
    report,
    source::{File, attribute_text, code_files, read},
};

/// A file that would be compiled if it exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ModuleFile {
    path: String,
    /// Whether its modules are in the file's folder, and not in a folder with the file's name.
    owns_folder: bool,
}

/// The files of the modules that a file declares.
struct Declared {
    /// The folder of modules with an attribute `path`.
    folder_of_paths: String,
    /// The folder of other modules.
    folder: String,
    files: Vec<ModuleFile>,
}

impl Declared {
    fn by(file: &ModuleFile, text: &str) -> Vec<ModuleFile> {
        let parent = file.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let folder = if file.owns_folder { parent } else { file.path.trim_end_matches(".rs") };
        let (folder_of_paths, folder) = (parent.to_owned(), folder.to_owned());
        let mut declared = Self { folder_of_paths, folder, files: Vec::new() };
        declared.visit_file(&syn::parse_file(text).expect("the file compiles"));
        declared.files
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let inside = format!("{}/{}", self.folder, module.ident);
        if module.content.is_some() {
            let folder = mem::replace(&mut self.folder, inside.clone());
            let folder_of_paths = mem::replace(&mut self.folder_of_paths, inside);
            syn::visit::visit_item_mod(self, module);
            (self.folder, self.folder_of_paths) = (folder, folder_of_paths);
            return;
        }
        let path = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"));
        if let Some(path) = path.and_then(attribute_text) {
            let path = normal(&format!("{}/{path}", self.folder_of_paths));
            self.files.push(ModuleFile { path, owns_folder: true });
        } else {
            self.files.push(ModuleFile { path: format!("{inside}.rs"), owns_folder: false });
            self.files.push(ModuleFile { path: format!("{inside}/mod.rs"), owns_folder: true });
        }
    }
}

/// The path without `..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The roots of the test binaries: those in the manifest, and those that Cargo finds.
fn roots(manifest: &str, files: &BTreeMap<String, String>) -> Vec<ModuleFile> {
    let entries = manifest.split("\n[[test]]\n").skip(1);
    let listed = entries.filter_map(|entry| {
        let mut lines = entry.lines().take_while(|line| !line.starts_with('['));
        lines.find_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'))
    });
    let is_found = |path: &&str| match path.split('/').collect::<Vec<_>>()[..] {
        ["tests", file] => file.ends_with(".rs"),
        ["tests", _, file] => file == "main.rs",
        _ => false,
    };
    let found = files.keys().map(String::as_str).filter(is_found);
    let paths = listed.chain(found).map(str::to_owned);
    paths.map(|path| ModuleFile { path, owns_folder: true }).collect()
}

/// The files of `tests` that are not part of a test binary. `files` are paths and texts.
fn unused(manifest: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let mut next = roots(manifest, files);
    let mut seen = BTreeSet::new();
    while let Some(file) = next.pop() {
        if let Some(text) = files.get(&file.path)
            && seen.insert(file.clone())
        {
            next.extend(Declared::by(&file, text));
        }
    }
    let used: BTreeSet<_> = seen.iter().map(|file| &file.path).collect();
    let is_unused = |path: &&String| path.starts_with("tests/") && !used.contains(*path);
    files.keys().filter(is_unused).cloned().collect()
}

#[test]
fn every_file_of_tests_is_part_of_a_test_binary() {
    let manifest = read("Cargo.toml");
    assert!(!manifest.contains("autotests"), "this rule expects that Cargo finds test binaries");
    let files = code_files().into_iter().map(|File { path, text }| (path, text));
    let files: BTreeMap<_, _> = files.collect();
    let unused = unused(&manifest, &files).into_iter();
    report(unused.map(|path| format!("{path}: no module of a test binary declares it")).collect());
}

#[test]
fn files_that_no_module_declares_are_found() {
    let manifest = "[package]\n\n[[test]]\nname = \"a\"\npath = \"tests/a/root.rs\"\n\n\
                    [[bench]]\npath = \"tests/b/bench.rs\"\n";
    let files = [
        ("src/lib.rs", ""),
        ("tests/a/b.rs", "mod c;\n#[path = \"d.rs\"]\nmod other;"),
        ("tests/a/b/c/mod.rs", "mod e;"),
        ("tests/a/b/c/e.rs", ""),
        ("tests/a/c.rs", ""),
        ("tests/a/d.rs", ""),
        ("tests/a/inline/f.rs", ""),
        ("tests/a/root.rs", "mod b;\n#[path = \"../g/h.rs\"]\nmod i;\nmod inline { mod f; }"),
        ("tests/b/bench.rs", ""),
        ("tests/found.rs", ""),
        ("tests/found/main.rs", "// mod no;"),
        ("tests/found/no.rs", ""),
        ("tests/g/h.rs", "mod k;"),
        ("tests/g/k.rs", ""),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let expected = ["tests/a/c.rs", "tests/b/bench.rs", "tests/found/no.rs"];
    assert_eq!(unused(manifest, &BTreeMap::from(files)), expected);
}
