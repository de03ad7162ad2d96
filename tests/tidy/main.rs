//! The rules of this repository as tests: sizes, imports, confined words, names, phrases, fixed
//! ports of tests, tests that never run, and the code map.

mod compiled;
mod confined;
mod defects;
mod directions;
mod fixed;
mod phrases;
mod promises;
mod shipping;
mod source;
#[path = "../common/sweep.rs"]
mod sweep;
mod sweeps;
mod types;

use std::collections::BTreeSet;

use capstan::error::Reason;

use confined::CONFINED;
use source::{File, code_files, has_word, imports, modules, prose_files, read, text_files};

const COLUMNS_MAX: usize = 100;

/// What each module may import of its package. Manifests say what packages use.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // capstan-math
    ("builder", &["curve", "error", "field", "gf2", "operation", "program", "sparse"]),
    ("curve", &["error", "field", "hash"]),
    ("error", &["field"]),
    ("field", &[]),
    ("gf2", &["field"]),
    ("hash", &[]),
    ("operation", &["curve", "error", "field", "gf2", "program", "sparse"]),
    ("program", &["curve", "error", "field"]),
    ("runner", &["builder", "curve", "error", "field", "program", "sparse"]),
    ("sparse", &["curve", "error", "hash"]),
    ("text", &[]),
    // capstan-gpu
    ("device", &[]),
    ("gf2_elimination", &["device"]),
    ("msm", &["device"]),
    ("ntt", &["device"]),
    ("ntt31", &["device", "ntt"]),
    // capstan-engine
    ("buffer", &["sync"]),
    ("engine_error", &[]),
    ("engines", &["buffer", "sync"]),
    ("exec", &["buffer", "engines", "ops", "sync", "verify"]),
    ("in_process", &["buffer", "engines", "exec", "ops", "sync"]),
    ("integers", &["engines"]),
    ("ops", &["buffer", "engines", "integers", "verify"]),
    ("sync", &[]),
    ("verify", &["buffer", "engines"]),
    // capstan-proofs
    ("formats", &[]),
    ("groth16", &["formats"]),
    ("kzg", &[]),
    // capstan-server
    ("config", &["grpc", "settings", "tenant"]),
    ("grpc", &["jobs", "settings", "store", "telemetry", "tenant", "worker"]),
    ("jobs", &["telemetry", "tenant"]),
    ("service_error", &[]),
    ("store", &["telemetry", "tenant"]),
    ("settings", &[]),
    ("telemetry", &["settings"]),
    ("tenant", &["telemetry"]),
    ("worker", &["telemetry"]),
];

/// Leftovers that must not be committed, cut in two so that this file passes.
const LEFTOVERS: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("db", "g!"),
    ("to", "do!"),
    ("unimple", "mented!"),
];

/// Fails with all complaints at once.
fn report(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn lines_are_short() {
    let mut complaints = Vec::new();
    for File { path, text } in code_files() {
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                complaints.push(format!("{path}:{}: {columns} columns", at + 1));
            }
        }
    }
    report(complaints);
}

#[test]
fn modules_import_downwards_only() {
    let mut complaints = Vec::new();
    let files = code_files();
    let package = |module: &str| {
        let file = files.iter().find(|file| source::module(&file.path) == Some(module))?;
        Some(source::package(&file.path).map(|package| package.name))
    };
    for File { path, text } in &files {
        let Some(module) = source::module(path) else { continue };
        // A package of one module imports only other packages.
        if source::package(path).is_some_and(|package| package.module.is_some()) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == module) else {
            complaints.push(format!("{path}: {module} is not in MAY_IMPORT"));
            continue;
        };
        let depth = directions::module_path(path).len();
        let text = source::from_library(path, &source::without_tests(text));
        for import in imports(&text, depth) {
            let is_inside = import != module && package(&import) == package(module);
            if is_inside && !allowed.contains(&import.as_str()) {
                complaints.push(format!("{path}: {module} must not import {import}"));
            }
        }
    }
    report(complaints);
}

#[test]
fn the_table_of_imports_names_real_modules_and_has_no_cycle() {
    let real = modules();
    let mut below = BTreeSet::new();
    for (module, _) in MAY_IMPORT {
        assert!(real.contains(*module), "{module} is not a module");
    }
    // A module is below if all of its imports are; the modules of a cycle never are.
    while below.len() < MAY_IMPORT.len() {
        let known = below.len();
        for (module, allowed) in MAY_IMPORT {
            if allowed.iter().all(|import| below.contains(import)) {
                below.insert(*module);
            }
        }
        assert!(below.len() > known, "cycle among the modules not in {below:?}");
    }
}

#[test]
fn confined_words_are_used_only_where_allowed() {
    let mut complaints = Vec::new();
    for File { path, text } in code_files() {
        if !path.starts_with("src/") {
            continue;
        }
        for (at, line) in source::without_tests(&text).lines().enumerate() {
            for (word, places, why) in CONFINED {
                if has_word(line, word) && !places.iter().any(|place| path.starts_with(place)) {
                    complaints
                        .push(format!("{path}:{}: {word} is not allowed here: {why}", at + 1));
                }
            }
        }
    }
    report(complaints);
}

#[test]
fn no_leftovers_are_committed() {
    let mut complaints = Vec::new();
    for File { path, text } in text_files() {
        for (at, line) in text.lines().enumerate() {
            for word in LEFTOVERS.iter().map(|(a, b)| format!("{a}{b}")) {
                if line.contains(&word) {
                    complaints.push(format!("{path}:{}: {word}", at + 1));
                }
            }
            if line.ends_with([' ', '\t']) {
                complaints.push(format!("{path}:{}: trailing whitespace", at + 1));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            complaints.push(format!("{path}: no newline at the end"));
        }
    }
    report(complaints);
}

/// The table of crates shows each package below `src`, its folder, and what its manifest uses.
#[test]
fn architecture_shows_the_crates_of_the_manifests() {
    let map = read("ARCHITECTURE.md");
    let all: BTreeSet<_> = source::PACKAGES.iter().map(source::Package::crate_name).collect();
    let mut shown = BTreeSet::new();
    for row in map.lines().filter(|line| line.starts_with("| `capstan")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, folder, _, uses] = cells[..] else { panic!("{row}") };
        let [name, folder] = [name, folder].map(|cell| cell.trim_matches('`'));
        let manifest = match folder {
            "src" => "Cargo.toml".to_owned(),
            folder => format!("{folder}/Cargo.toml"),
        };
        let uses = match uses {
            "all of them" => all.clone(),
            uses => uses.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        };
        assert_eq!(uses, used_packages(&read(&manifest)), "what {name} uses by {manifest}");
        shown.insert(name.to_owned());
    }
    let root = BTreeSet::from(["capstan".to_owned()]);
    assert_eq!(shown, &all | &root);
}

/// The packages below `src` that a manifest depends on, apart from its tests.
fn used_packages(manifest: &str) -> BTreeSet<String> {
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").expect("dependencies");
    let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("capstan-")).map(str::to_owned).collect()
}

/// The code map names every module and only existing paths.
#[test]
fn architecture_names_every_module_and_only_existing_paths() {
    let map = read("ARCHITECTURE.md");
    let mut complaints = Vec::new();
    for module in modules() {
        let packages = source::PACKAGES.iter().map(|package| package.folder);
        let mut folders = packages.chain(["src/", ""]);
        if !folders.any(|folder| map.contains(&format!("`{folder}{module}"))) {
            complaints.push(format!("ARCHITECTURE.md does not mention the module {module}"));
        }
    }
    let quoted = map.split('`').skip(1).step_by(2);
    for path in quoted.filter(|quoted| quoted.starts_with("src/")) {
        let path =
            path.split(['*', '{', ':', ' ']).next().expect("split returns at least one part");
        if !source::root().join(path).exists() {
            complaints.push(format!("ARCHITECTURE.md names {path}, which does not exist"));
        }
    }
    report(complaints);
}

/// A suite that is built for GPU hosts but not run there tests nothing.
#[test]
fn bundled_suites_are_run() {
    let (bundle, run) = (read("scripts/gpu-bundle"), read("scripts/gpu-run"));
    let listed = bundle.split_once("tests=(").and_then(|(_, rest)| rest.split_once(')'));
    let (suites, _) = listed.expect("the list of suites");
    assert!(suites.split_whitespace().count() >= 5, "{suites}");
    let (tests, rest) = run.split_once("tests)").and_then(|(_, t)| t.split_once(";;\n")).unwrap();
    let (_, sanitized) = rest.split_once("for suite in").expect("the suites to sanitize");
    let has = |text: &str, suite| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == suite);
    for suite in suites.split_whitespace() {
        assert!(has(tests, suite), "`run tests` leaves out {suite}");
        // The engine is exempt: the other suites run its kernels, and its jobs take long.
        let sanitized = suite == "engine" || has(sanitized, suite);
        assert!(sanitized, "`run sanitize` leaves out {suite}");
    }
}

/// Callers look reasons up in the contract. Connections are refused before a call has a status.
#[test]
fn the_contract_lists_every_reason() {
    let proto = read("proto/capstan/v1/types.proto");
    let (_, rest) = proto.split_once("ErrorInfo.reason is:\n").expect("the list of reasons");
    let (list, _) = rest.split_once("\nsyntax").expect("the end of the comment");
    let mut listed = BTreeSet::new();
    for line in list.lines().map(|line| line.strip_prefix("//   ").expect("an indented comment")) {
        // A line without further indentation begins with the status's code.
        let code = line.find(' ').expect("a code or an indentation");
        let words = line[code..].split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let is_reason = |word: &&str| word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        listed.extend(words.filter(|word| !word.is_empty()).filter(is_reason));
    }
    let known = Reason::ALL.iter().filter(|reason| **reason != Reason::Connections);
    assert_eq!(listed, known.map(|reason| reason.text()).collect());
}

#[test]
fn checks_find_what_they_look_for() {
    let text = "use crate::{\n    curve::{Fr, Group},\n    error::Result,\n};\n\
                pub fn long<T>() {\n    x();\n    crate::jobs::go();\n}\n// crate::no::such\n\
                #[cfg(test)]\nmod tests {\n    use crate::client::Client;\n}\n";
    let found: Vec<_> = imports(&source::without_tests(text), 1).into_iter().collect();
    assert_eq!(found, ["curve", "error", "jobs"]);
    let text = "use super::{super::engine::X, sibling, *};\nfn f(_: super::super::store::Y) {}\n";
    assert_eq!(imports(text, 2).into_iter().collect::<Vec<_>>(), ["engines", "store"]);
    let text = "use super::{cli::{a, b}, X};\nfn f(_: super::jobs::Y) {}\n";
    assert_eq!(imports(text, 1).into_iter().collect::<Vec<_>>(), ["cli", "jobs"]);
    let text = "use capstan_math::{curve::Fr, text};\nuse crate::{parts, v1};\n";
    let text = source::from_library("src/proto/decode/run.rs", text);
    let found: Vec<_> = imports(&text, 2).into_iter().collect();
    assert_eq!(found, ["curve", "text", "wire"]);
    let text = "use capstan_proto::v1;\nuse crate::error::Result;\n";
    let text = source::from_library("src/client/objects/list.rs", text);
    assert_eq!(imports(&text, 2).into_iter().collect::<Vec<_>>(), ["client", "wire"]);
    assert!(has_word("unsafe { x }", "unsafe") && has_word("use blst::min_pk;", "blst::"));
    assert!(!has_word("#![deny(unsafe_code)]", "unsafe") && !has_word("// unsafe", "unsafe"));
    assert!(!has_word(r#"let x = "the unsafe";"#, "unsafe"));
    assert!(code_files().iter().any(|file| file.path == "src/math/error/mod.rs"));
    assert!(!code_files().iter().any(|file| file.path.starts_with("src/proto/generated/")));
    assert!(text_files().iter().any(|file| file.path == "proto/capstan/v1/types.proto"));
    for path in ["integrations/arkworks/patch-ark-ec", "deploy/helm/capstan/templates/_envoy.tpl"] {
        assert!(prose_files().iter().any(|file| file.path == path), "{path}");
    }
    assert_eq!(source::module("src/math/curve/points/mod.rs"), Some("curve"));
    assert_eq!(source::module("src/proto/decode/mod.rs"), Some("wire"));
    assert_eq!(source::module("src/proto/lib.rs"), Some("wire"));
    assert_eq!(source::module("src/client/error.rs"), Some("client"));
    assert_eq!(source::module("src/math/lib.rs"), None);
    assert_eq!(source::module("src/gpu/build.rs"), None);
    assert_eq!(source::module("src/gpu/build/archs.rs"), None);
    assert_eq!(source::module("src/region/lib.rs"), Some("region"));
    assert_eq!(source::module("src/engine/engines/cpu/mod.rs"), Some("engines"));
    assert_eq!(source::module("src/server/grpc/mod.rs"), Some("grpc"));
    assert_eq!(source::module("src/server/lib.rs"), None);
    assert_eq!(source::module("src/bin/capstan.rs"), None);
}
