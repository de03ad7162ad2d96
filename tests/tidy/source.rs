//! Reads the repository as text: rustfmt makes it regular enough for simple parsing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Of `integrations/arkworks`, only our files: it may also have a patched crate and build outputs.
const CODE: [&str; 9] = [
    "src",
    "tests",
    "benches",
    "examples",
    "proto/codegen/src",
    "integrations/arkworks/examples",
    "integrations/arkworks/patch",
    "integrations/arkworks/src",
    "integrations/arkworks/tests",
];
const TEXT: [&str; 18] = [
    "proto",
    "docs",
    "src/cli/Cargo.toml",
    "src/client/Cargo.toml",
    "src/engine/Cargo.toml",
    "src/gpu/Cargo.toml",
    "src/identity/Cargo.toml",
    "src/math/Cargo.toml",
    "src/proofs/Cargo.toml",
    "src/proto/Cargo.toml",
    "src/region/Cargo.toml",
    "src/server/Cargo.toml",
    "deploy",
    ".ci",
    "integrations/arkworks/Cargo.toml",
    "integrations/arkworks/README.md",
    "python/README.md",
    "python/pyproject.toml",
];
const PROSE: [&str; 12] = [
    "proto",
    "docs",
    "deploy",
    ".ci",
    "scripts",
    "kernels",
    "integrations/arkworks/README.md",
    "integrations/arkworks/patch-ark-ec",
    "python/README.md",
    "python/bench.py",
    "python/examples",
    "python/tests",
];
/// The packages below `src`.
pub const PACKAGES: [Package; 10] = [
    Package { folder: "src/cli/", name: "capstan_cli", module: Some("cli") },
    Package { folder: "src/client/", name: "capstan_client", module: Some("client") },
    Package { folder: "src/engine/", name: "capstan_engine", module: None },
    Package { folder: "src/gpu/", name: "capstan_gpu", module: None },
    Package { folder: "src/identity/", name: "capstan_identity", module: Some("identity") },
    Package { folder: "src/math/", name: "capstan_math", module: None },
    Package { folder: "src/proofs/", name: "capstan_proofs", module: None },
    Package { folder: "src/proto/", name: "capstan_proto", module: Some("wire") },
    Package { folder: "src/region/", name: "capstan_region", module: Some("region") },
    Package { folder: "src/server/", name: "capstan_server", module: None },
];
/// Folders and files with shell scripts.
const SHELL: [&str; 5] = ["scripts", "deploy", "python/check", "examples/check", ".ci/run"];
/// What programs write: `scripts/generate`, and builds of the clients in `examples`.
const GENERATED: [&str; 4] = [
    "src/proto/generated",
    "examples/node/node_modules",
    "examples/node/gen",
    "examples/go/capstanpb",
];
const TEXT_ENDINGS: [&str; 15] = [
    "md",
    "toml",
    "proto",
    "yaml",
    "tpl",
    "txt",
    "py",
    "js",
    "go",
    "service",
    "rs",
    "Dockerfile",
    "run",
    "build",
    "check",
];
const PROSE_ENDINGS: [&str; 14] =
    ["md", "rs", "cu", "cuh", "cpp", "hpp", "proto", "py", "sh", "js", "go", "yaml", "tpl", "txt"];

/// A file of the repository.
#[derive(Clone)]
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    pub text: String,
}

/// A package below `src`.
pub struct Package {
    pub folder: &'static str,
    /// Its name in paths.
    pub name: &'static str,
    /// The module of the library that the package is. `None`: its modules are those of the library.
    pub module: Option<&'static str>,
}

impl Package {
    /// Its name in manifests.
    pub fn crate_name(&self) -> String {
        self.name.replace('_', "-")
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file of the repository.
pub fn code_files() -> Vec<File> {
    let files = CODE.iter().flat_map(|start| walk(Path::new(start)));
    files.filter(|path| path.ends_with(".rs")).map(load).collect()
}

/// Every file that people write: code, contract, documents, deployment.
pub fn text_files() -> Vec<File> {
    files(&TEXT, |name| TEXT_ENDINGS.contains(&name.rsplit('.').next().unwrap_or(name)))
}

/// Every file with sentences: code, kernels, contract, documents, and scripts, which may have names
/// without an ending.
pub fn prose_files() -> Vec<File> {
    files(&PROSE, |name| match name.rsplit_once('.') {
        Some((_, ending)) => PROSE_ENDINGS.contains(&ending),
        None => !name.starts_with("LICENSE"),
    })
}

/// Paths of the files that shells run.
pub fn shell_scripts() -> Vec<String> {
    let files = SHELL.iter().flat_map(|start| walk(Path::new(start)));
    let is_script = |file: &String| {
        let text = fs::read(root().join(file)).expect("the file is readable");
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        file.ends_with("Dockerfile") || first.starts_with(b"#!") && first.ends_with(b"sh")
    };
    files.filter(is_script).collect()
}

/// The files of the code, of the folders `more` and of the root whose name is one of `ours`.
fn files(more: &[&'static str], ours: impl Fn(&str) -> bool) -> Vec<File> {
    let top = fs::read_dir(root()).expect("the repository is readable");
    let top = top.map(|entry| entry.expect("the repository is readable"));
    let top = top.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
    let top: Vec<_> = top.filter_map(|name| name.into_string().ok()).collect();
    let starts = CODE.iter().chain(more).map(|start| (*start).to_owned());
    let paths: BTreeSet<_> = starts.chain(top).flat_map(|start| walk(Path::new(&start))).collect();
    let ours = |path: &String| ours(path.rsplit('/').next().unwrap_or(path));
    paths.into_iter().filter(ours).map(load).collect()
}

fn load(path: String) -> File {
    File { text: read(&path), path }
}

/// Paths of all files at and below `start`, except what programs write, and links to other files.
fn walk(start: &Path) -> Vec<String> {
    if GENERATED.iter().any(|folder| start == Path::new(folder)) {
        return Vec::new();
    }
    let full = root().join(start);
    if full.is_symlink() {
        return Vec::new();
    }
    if full.is_file() {
        return vec![start.to_str().expect("file names are ASCII").to_owned()];
    }
    let Ok(entries) = fs::read_dir(full) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("the folder is readable").file_name());
    names.flat_map(|name| walk(&start.join(name))).collect()
}

/// The top-level modules of all packages of `src`.
pub fn modules() -> BTreeSet<String> {
    code_files().iter().filter_map(|file| module(&file.path).map(str::to_owned)).collect()
}

/// The package of a file, unless that is `capstan`.
pub fn package(path: &str) -> Option<&'static Package> {
    PACKAGES.iter().find(|package| path.starts_with(package.folder))
}

/// The path of a file below the root of its package; `None` for files outside `src`.
pub fn in_package(path: &str) -> Option<&str> {
    path.strip_prefix(package(path).map_or("src/", |package| package.folder))
}

/// The top-level module of a file; `None` for roots, binaries, build scripts and files outside
/// `src`.
pub fn module(path: &str) -> Option<&str> {
    if let Some(module) = package(path).and_then(|package| package.module) {
        return Some(module);
    }
    let name = in_package(path)?.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "bin", "build"].contains(&name)).then_some(name)
}

/// The text, with paths from the root of the library instead of those from the root of a package.
pub fn from_library(path: &str, text: &str) -> String {
    let text = match package(path).and_then(|package| package.module) {
        Some(module) => text.replace("crate::", &format!("crate::{module}::")),
        None => text.to_owned(),
    };
    PACKAGES.iter().fold(text, |text, Package { name, module, .. }| {
        let root = module.map_or("crate::".to_owned(), |module| format!("crate::{module}::"));
        text.replace(&format!("{name}::"), &root)
    })
}

/// The text up to its `#[cfg(test)]` module: tests may use anything.
pub fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Whether an item exists in tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// The text of an attribute like `#[name = "text"]`.
pub fn attribute_text(attribute: &syn::Attribute) -> Option<String> {
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The top-level modules that a file imports, by `crate::` or by `super::` up to the root of its
/// package. The file's module is `depth` levels below the root.
pub fn imports(text: &str, depth: usize) -> BTreeSet<String> {
    let code: String = text.lines().map(|line| code_of(line) + "\n").collect();
    let absolute = code.match_indices("crate::");
    let absolute = absolute.flat_map(|(at, prefix)| root_names(&code[at + prefix.len()..], 0));
    let relative = code.match_indices("super::");
    let relative = relative.flat_map(|(at, _)| root_names(&code[at..], depth));
    absolute.chain(relative).collect()
}

/// The names of top-level modules that a path or a group of paths begins with, after `depth` times
/// `super::`.
fn root_names(path: &str, depth: usize) -> Vec<String> {
    if let Some(group) = path.strip_prefix('{') {
        return paths(group).into_iter().flat_map(|path| root_names(path, depth)).collect();
    }
    match (path.strip_prefix("super::"), depth) {
        (Some(rest), 1..) => root_names(rest, depth - 1),
        (None, 0) => name(path).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The beginnings of the paths in a group of imports: `a::{b, c}, d}` has those of a and d.
fn paths(group: &str) -> Vec<&str> {
    let (mut depth, mut paths, mut fresh) = (0, Vec::new(), true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !letter.is_whitespace() => {
                fresh = false;
                paths.push(&group[at..]);
            }
            _ => {}
        }
    }
    paths
}

/// The lower-case name that `text` begins with: a module, not an item of the root. The library
/// calls the module `engines` of its package `engine`, and `server` the module `grpc` of `server`.
fn name(text: &str) -> Option<String> {
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let name = &text[..end];
    let module = match name {
        "engine" => "engines",
        "server" => "grpc",
        name => name,
    };
    name.starts_with(|c: char| c.is_ascii_lowercase()).then(|| module.to_owned())
}

/// Whether the line has the word outside comments and string literals.
pub fn has_word(line: &str, word: &str) -> bool {
    let code = code_of(line);
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !(before.is_some_and(is_name) || word.ends_with(is_name) && after.is_some_and(is_name))
    })
}

/// The line without its comment and its string literals.
fn code_of(line: &str) -> String {
    let (mut code, mut quoted, mut escaped) = (String::new(), false, false);
    for (at, letter) in line.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '/' if !quoted && line[at..].starts_with("//") => break,
            _ if !quoted => code.push(letter),
            _ => {}
        }
    }
    code
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
