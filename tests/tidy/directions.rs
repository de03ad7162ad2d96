//! Files import each other in one direction: no file uses what a file above it defines.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::{
    report,
    source::{File, PACKAGES, code_files, in_package, is_test, package},
};

/// A module's path in the library, whose root is empty and re-exports the packages below it.
type ModulePath = Vec<String>;

/// For each file, the files that it uses, with the names that it uses of them.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

/// What one file declares and uses.
struct Module {
    file: String,
    /// Types, functions, constants, macros of this file.
    items: BTreeSet<String>,
    /// The path that each imported name stands for.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of `use x::*`.
    globs: Vec<Vec<String>>,
    /// Every path that the code uses, private imports included, re-exports not.
    uses: BTreeSet<Vec<String>>,
}

/// The modules of `src` outside the binaries. A module that re-exports one of a package below `src`
/// by its name stands for that one.
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn read(files: Vec<File>) -> Self {
        let sources = files.into_iter().filter(|File { path, .. }| {
            path.starts_with("src/")
                && !path.starts_with("src/bin/")
                && !path.starts_with("src/gpu/build")
                && !path.ends_with("/tests.rs")
        });
        let (packages, library): (Vec<_>, Vec<_>) =
            sources.partition(|File { path, .. }| package(path).is_some());
        // The root of the library re-exports modules of packages, whose roots only declare them.
        let packages =
            packages.into_iter().filter(|File { path, .. }| !module_path(path).is_empty());
        let all = library.into_iter().chain(packages);
        Self(
            all.map(|File { path, text }| (module_path(&path), Module::parse(path, &text)))
                .collect(),
        )
    }

    /// The file that defines what `path` means in `module`, or `None` if it is a module, is not of
    /// this crate, or is a local name.
    fn definition(&self, module: &[String], path: &[String], depth: usize) -> Option<&str> {
        let (first, rest) = path.split_first()?;
        // A private import may name itself through a glob.
        let depth = depth.checked_sub(1)?;
        match first.as_str() {
            "crate" => return self.definition(root_of(module), rest, depth),
            "self" => return self.definition(module, rest, depth),
            "super" => return self.definition(module.split_last()?.1, rest, depth),
            _ => {}
        }
        if let Some(package) = PACKAGES.iter().find(|package| package.name == first) {
            let root: Vec<_> = package.module.map(str::to_owned).into_iter().collect();
            return self.definition(&root, rest, depth);
        }
        let here = self.0.get(module)?;
        if here.items.contains(first) {
            return Some(&here.file);
        }
        let child = [module, std::slice::from_ref(first)].concat();
        if self.0.contains_key(&child) {
            return self.definition(&child, rest, depth);
        }
        if let Some(target) = here.imports.get(first) {
            return self.definition(module, &[target, rest].concat(), depth);
        }
        here.globs.iter().find_map(|glob| self.definition(module, &[glob, path].concat(), depth))
    }

    /// For each file, the files that it uses, with the names that it uses of them.
    fn edges(&self) -> Edges<'_> {
        let mut edges = Edges::new();
        for (path, module) in &self.0 {
            let used: &mut BTreeMap<&str, BTreeSet<&str>> = edges.entry(&module.file).or_default();
            for name in &module.uses {
                match self.definition(path, name, 16) {
                    Some(file) if file != module.file => {
                        used.entry(file).or_default().extend(name.last().map(String::as_str));
                    }
                    _ => {}
                }
            }
        }
        edges
    }
}

impl Module {
    fn parse(file: String, text: &str) -> Self {
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut module = Self {
            file,
            items: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            uses: BTreeSet::new(),
        };
        for item in &parsed.items {
            module.items.extend(declared(item));
        }
        module.visit_file(&parsed);
        module
    }

    fn import(&mut self, tree: &syn::UseTree, mut prefix: Vec<String>, is_private: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix, is_private);
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                if name != "self" {
                    prefix.push(name);
                }
                let name = prefix.last().expect("an import has a name").clone();
                self.bind(name, prefix, is_private);
            }
            syn::UseTree::Rename(rename) => {
                prefix.push(rename.ident.to_string());
                self.bind(rename.rename.to_string(), prefix, is_private);
            }
            syn::UseTree::Glob(_) => self.globs.push(prefix),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, prefix.clone(), is_private));
            }
        }
    }

    fn bind(&mut self, name: String, path: Vec<String>, is_private: bool) {
        if is_private {
            self.uses.insert(path.clone());
        }
        self.imports.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_private = matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, Vec::new(), is_private);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.uses.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    // Tests may use anything.
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

/// The name that an item declares.
fn declared(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are the module a::b, `src/math/c.rs` is c, and
/// `src/proto/d.rs` is wire::d, and `src/region/lib.rs` is region.
pub fn module_path(file: &str) -> ModulePath {
    let name = in_package(file).unwrap_or(file).trim_end_matches(".rs");
    let name = name.strip_suffix("/mod").unwrap_or(name);
    let inside = name.split('/').filter(|_| name != "lib");
    let module = package(file).and_then(|package| package.module);
    module.into_iter().chain(inside).map(str::to_owned).collect()
}

/// The root of a module's package.
fn root_of(module: &[String]) -> &[String] {
    let is_package = |first: &String| PACKAGES.iter().any(|package| package.module == Some(first));
    if module.first().is_some_and(is_package) { &module[..1] } else { &[] }
}

/// The files that a file uses, by itself and through others.
fn reachable<'a>(edges: &Edges<'a>, file: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![file]);
    while let Some(file) = open.pop() {
        open.extend(edges[file].keys().filter(|used| seen.insert(**used)));
    }
    seen
}

/// The uses of each file that lead back to the file.
fn cycles(edges: &Edges<'_>) -> Vec<String> {
    let reached: BTreeMap<_, _> =
        edges.keys().map(|file| (*file, reachable(edges, file))).collect();
    let mut complaints = Vec::new();
    for (file, used) in edges {
        for (used, names) in used.iter().filter(|(used, _)| reached[*used].contains(file)) {
            let names: Vec<_> = names.iter().copied().collect();
            complaints
                .push(format!("{file} uses {} of {used}, which leads back", names.join(", ")));
        }
    }
    complaints
}

#[test]
fn files_use_each_other_in_one_direction() {
    report(cycles(&Modules::read(code_files()).edges()));
}

#[test]
fn cycles_are_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let found = |files: Vec<File>| cycles(&Modules::read(files).edges()).join("\n");
    let top = "mod low;\nmod high;\npub use low::{Low, LOW};\n";
    let high = "use super::Low;\nfn high(low: Low) -> u8 { super::low::width() }\n";
    let low = "pub struct Low;\npub const LOW: u8 = 1;\npub fn width() -> u8 { 2 }\n";
    let files = |top: &str, low: &str| {
        let files = [
            ("src/lib.rs", "pub mod a;"),
            ("src/a/mod.rs", top),
            ("src/a/high.rs", high),
            ("src/a/low.rs", low),
        ];
        files.map(|(path, text)| file(path, text)).to_vec()
    };
    // A re-export is not a use, and neither is what a test imports.
    assert_eq!(found(files(top, low)), "");
    let tested = format!("{low}#[cfg(test)]\nmod tests {{\n    use crate::a::high::high;\n}}\n");
    assert_eq!(found(files(top, &tested)), "");
    // Through a path inside a function, and through a name that the parent defines.
    let path = format!("{low}fn back() {{ crate::a::high::high(Low); }}\n");
    assert!(found(files(top, &path)).contains("src/a/low.rs uses high of src/a/high.rs"));
    let parent = format!("{top}pub struct Top;\nfn f() {{ low::width(); }}\n");
    let child = format!("use super::Top;\n{low}");
    assert!(found(files(&parent, &child)).contains("src/a/low.rs uses Top of src/a/mod.rs"));
}
