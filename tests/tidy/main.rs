//! The house rules as tests: sizes, who may know whom, who may use what, and the map of the house.

mod source;

use std::collections::BTreeSet;

use source::{File, code_files, functions, has_word, imports, modules, read, text_files};

const LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Each module and what it may import. An edge that is not here is a decision: see ARCHITECTURE.md.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("curve", &["error"]),
    // Its self-test compares with arkworks, by the layouts that `curve` asserts.
    ("device", &["curve", "error"]),
    ("msm", &["curve", "device", "error"]),
    ("buffer", &["curve", "error"]),
    // Transforms of what lies in device memory; it knows no jobs and no engines.
    ("ntt", &["curve", "device", "error"]),
    ("formats", &["curve", "error"]),
    ("engine", &["buffer", "curve", "device", "error", "msm", "ntt"]),
    ("verify", &["buffer", "curve", "engine", "error"]),
    // Decoding gives plans, which are the engine's own; the client's half knows no engine.
    ("wire", &["curve", "engine", "error"]),
    ("telemetry", &["error"]),
    ("store", &["buffer", "curve", "engine", "error", "telemetry", "verify", "wire"]),
    ("jobs", &["buffer", "curve", "engine", "error", "telemetry", "verify"]),
    (
        "server",
        &["buffer", "curve", "engine", "error", "jobs", "store", "telemetry", "verify", "wire"],
    ),
    ("config", &["error", "server", "telemetry"]),
    ("client", &["curve", "error", "wire"]),
    // Chooses an engine and starts a server on it.
    ("embedded", &["device", "engine", "error", "server"]),
    ("cli", &["client", "curve", "embedded", "error", "formats"]),
];

/// Words that only some files may say, and why.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "unsafe",
        &[
            "src/curve/layout.rs",
            "src/engine/cpu/blst.rs",
            "src/store/disk.rs",
            "src/device/",
            // Allocators: one looks for secrets in what is freed, one counts.
            "tests/residue.rs",
            "tests/load/live.rs",
        ],
        "whoever hunts memory bugs reads these files only",
    ),
    ("blst::", &["src/engine/cpu/"], "engines are swapped behind one trait"),
    ("cudarc", &["src/device/"], "the device layer is the only door to CUDA"),
    ("libloading", &["src/device/"], "the device layer is the only door to CUDA"),
    ("nvml_wrapper", &["src/device/"], "the device layer is the only door to CUDA"),
    ("prost", &["src/wire/", "tests/hostile/mutations.rs"], "the wire format has one door"),
    ("tonic::server", &["src/server/"], "only the server knows tonic's server side"),
    ("tonic::transport::server", &["src/server/"], "only the server knows tonic's server side"),
    ("tonic::transport::Server", &["src/server/"], "only the server knows tonic's server side"),
    ("tonic_health", &["src/server/"], "only the server knows tonic's server side"),
    ("tonic_reflection", &["src/server/"], "only the server knows tonic's server side"),
    ("metrics", &["src/telemetry.rs", "src/config/", "src/bin/capstand.rs"], "names are constants"),
    ("figment", &["src/config/"], "settings are read once and handed down as values"),
    ("clap", &["src/config/", "src/cli/", "src/bin/"], "the library has no command line"),
    (
        "std::env",
        &["src/config/", "src/cli/", "src/bin/", "build.rs", "build/"],
        "settings are values",
    ),
    (
        "env::var",
        &["src/config/", "src/cli/", "src/bin/", "build.rs", "build/"],
        "settings are values",
    ),
    (
        "println",
        &["src/cli/", "src/bin/", "build.rs", "build/"],
        "the library logs through tracing",
    ),
    ("eprintln", &["src/cli/", "src/bin/"], "the library logs through tracing"),
    ("anyhow", &[], "errors say what the caller can do"),
];

/// What must not be left behind, cut in two so that this file passes.
const LEFTOVERS: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("db", "g!"),
    ("to", "do!"),
    ("unimple", "mented!"),
    ("#[ign", "ore"),
];

/// Fails with every complaint at once.
fn report(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut complaints = Vec::new();
    for File { path, text } in code_files() {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{path}: {lines} lines, {LINES_MAX} at most: split it"));
        }
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                complaints.push(format!("{path}:{}: {columns} columns", at + 1));
            }
        }
        for (name, at, lines) in functions(&text) {
            if lines > FUNCTION_LINES_MAX {
                complaints.push(format!("{path}:{at}: fn {name} has {lines} lines"));
            }
        }
    }
    report(complaints);
}

#[test]
fn modules_import_downwards_only() {
    let mut complaints = Vec::new();
    for File { path, text } in code_files() {
        let Some(module) = source::module(&path) else { continue };
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == module) else {
            complaints.push(format!("{path}: {module} is not in MAY_IMPORT"));
            continue;
        };
        for import in imports(&source::without_tests(&text)) {
            if import != module && !allowed.contains(&import.as_str()) {
                complaints.push(format!("{path}: {module} must not know {import}"));
            }
        }
    }
    report(complaints);
}

#[test]
fn table_of_imports_is_of_real_modules_and_has_no_cycle() {
    let real = modules();
    let mut below = BTreeSet::new();
    for (module, _) in MAY_IMPORT {
        assert!(real.contains(*module), "{module} is no module");
    }
    // Whoever imports only what is known to be below goes below too; a cycle never does.
    while below.len() < MAY_IMPORT.len() {
        let known = below.len();
        for (module, allowed) in MAY_IMPORT {
            if allowed.iter().all(|import| below.contains(import)) {
                below.insert(*module);
            }
        }
        assert!(below.len() > known, "cycle among those not in {below:?}");
    }
}

#[test]
fn words_stay_where_they_belong() {
    let mut complaints = Vec::new();
    for File { path, text } in code_files() {
        if !path.starts_with("src/") && !path.starts_with("build") {
            continue;
        }
        for (at, line) in source::without_tests(&text).lines().enumerate() {
            for (word, places, why) in CONFINED {
                if has_word(line, word) && !places.iter().any(|place| path.starts_with(place)) {
                    complaints.push(format!("{path}:{}: {word} is not for here: {why}", at + 1));
                }
            }
        }
    }
    report(complaints);
}

#[test]
fn nothing_is_left_behind() {
    let mut complaints = Vec::new();
    for File { path, text } in text_files() {
        for (at, line) in text.lines().enumerate() {
            for word in LEFTOVERS.iter().map(|(a, b)| format!("{a}{b}")) {
                if line.contains(&word) {
                    complaints.push(format!("{path}:{}: {word}", at + 1));
                }
            }
            if line.ends_with([' ', '\t']) {
                complaints.push(format!("{path}:{}: blanks at the end", at + 1));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            complaints.push(format!("{path}: no newline at the end"));
        }
    }
    report(complaints);
}

/// The map names every module, and nothing that is not there.
#[test]
fn architecture_maps_the_house() {
    let map = read("ARCHITECTURE.md");
    let mut complaints = Vec::new();
    for module in modules() {
        if ![format!("`src/{module}"), format!("`{module}")].iter().any(|name| map.contains(name)) {
            complaints.push(format!("ARCHITECTURE.md says nothing of src/{module}"));
        }
    }
    let quoted = map.split('`').skip(1).step_by(2);
    for path in quoted.filter(|quoted| quoted.starts_with("src/")) {
        let path = path.split(['*', '{', ':', ' ']).next().expect("split gives one part at least");
        if !source::root().join(path).exists() {
            complaints.push(format!("ARCHITECTURE.md names {path}, which is not there"));
        }
    }
    report(complaints);
}

/// What is built for a GPU host and not run there says nothing.
#[test]
fn bundled_suites_are_run() {
    let (bundle, run) = (read("scripts/gpu-bundle"), read("scripts/gpu-run"));
    let listed = bundle.split_once("tests=(").and_then(|(_, rest)| rest.split_once(')'));
    let (suites, _) = listed.expect("the list of suites");
    assert!(suites.split_whitespace().count() >= 5, "{suites}");
    let (tests, rest) = run.split_once("tests)").and_then(|(_, t)| t.split_once(";;\n")).unwrap();
    let (_, sanitized) = rest.split_once("for suite in").expect("what is sanitized");
    let says = |text: &str, suite| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == suite);
    for suite in suites.split_whitespace() {
        assert!(says(tests, suite), "`run tests` leaves out {suite}");
        // Its kernels are those of the other suites, its jobs are long.
        let sanitized = suite == "engine" || says(sanitized, suite);
        assert!(sanitized, "`run sanitize` leaves out {suite}");
    }
}

/// Operators find each metric and setting by name.
#[test]
fn deployment_notes_name_every_metric() {
    let notes = read("deploy/README.md");
    for (name, _, _) in capstan::telemetry::METRICS {
        assert!(notes.contains(&format!("`{name}`")), "deploy/README.md says nothing of {name}");
    }
}

#[test]
fn checks_find_what_they_look_for() {
    let text = "use crate::{\n    curve::{Fr, Group},\n    error::Result,\n};\n\
                pub fn long<T>() {\n    x();\n    crate::jobs::go();\n}\n// crate::no::such\n\
                #[cfg(test)]\nmod tests {\n    use crate::client::Client;\n}\n";
    let found: Vec<_> = imports(&source::without_tests(text)).into_iter().collect();
    assert_eq!(found, ["curve", "error", "jobs"]);
    assert_eq!(functions(text), [("long".to_owned(), 5, 4)]);
    assert!(has_word("unsafe { x }", "unsafe") && has_word("use blst::min_pk;", "blst::"));
    assert!(!has_word("#![deny(unsafe_code)]", "unsafe") && !has_word("// unsafe", "unsafe"));
    assert!(!has_word(r#"let x = "the unsafe";"#, "unsafe"));
    assert!(code_files().iter().any(|file| file.path == "src/error.rs"));
    assert!(text_files().iter().any(|file| file.path == "proto/capstan/v1/types.proto"));
    assert_eq!(source::module("src/curve/points/mod.rs"), Some("curve"));
    assert_eq!(source::module("src/error.rs"), Some("error"));
    assert_eq!(source::module("src/bin/capstan.rs"), None);
}
