//! The script that patches ark-ec.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the script. `Err` with its message if it fails.
fn patch<const N: usize>(arguments: [&Path; N]) -> Result<(), String> {
    let output = Command::new(here().join("patch-ark-ec")).args(arguments).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The published source: the copy that this crate is built with, without what the script added.
fn published(folder: &Path) -> PathBuf {
    let source = folder.join("published");
    let copy = Command::new("cp").arg("-r").arg(here().join("ark-ec")).arg(&source).status();
    assert!(copy.unwrap().success());
    let msm = source.join("src/scalar_mul/variable_base/mod.rs");
    let text = fs::read_to_string(&msm).unwrap();
    let call = "        #[cfg(feature = \"std\")]\n        if let Some(sum) = offload::";
    let mut parts = text.split(call);
    let mut clean =
        parts.next().unwrap().replace("#[cfg(feature = \"std\")]\npub mod offload;\n", "");
    for part in parts {
        clean += part.split_once("        }\n").unwrap().1;
    }
    assert!(!clean.contains("offload"));
    fs::write(msm, clean).unwrap();
    fs::remove_file(source.join("src/scalar_mul/variable_base/offload.rs")).unwrap();
    source
}

#[test]
fn patches_the_published_source_and_replaces_only_folders_that_it_made() {
    let folder = folder("patches");
    let (source, target) = (published(&folder), folder.join("made"));
    let arguments = [Path::new("--source"), &source, &target];
    patch(arguments).unwrap();
    fs::write(target.join("src/lib.rs"), "").unwrap();
    patch(arguments).unwrap();
    for file in ["src/lib.rs", "src/scalar_mul/variable_base/mod.rs"] {
        let [made, used] = [&target, &here().join("ark-ec")].map(|at| fs::read(at.join(file)));
        assert_eq!(made.unwrap(), used.unwrap(), "{file}");
    }

    let foreign = folder.join("foreign");
    fs::create_dir(&foreign).unwrap();
    let error = patch([arguments[0], &source, &foreign]).unwrap_err();
    assert!(error.contains("is not a copy made by this script"), "{error}");
}

#[test]
fn refuses_other_versions_and_sources_with_other_lines() {
    let folder = folder("refuses");
    let (source, target) = (published(&folder), folder.join("made"));
    let error = patch(["--version", "0.5.0", "none"].map(Path::new)).unwrap_err();
    assert!(error.contains("ark-ec 0.5.0 is not supported; supported: 0.6.0"), "{error}");

    let error = patch([Path::new("--source"), &here().join("ark-ec"), &target]).unwrap_err();
    assert!(error.contains("is already patched"), "{error}");
    let error = patch([Path::new("--source"), here(), &target]).unwrap_err();
    assert!(error.contains("is not ark-ec 0.6.0"), "{error}");
    let msm = source.join("src/scalar_mul/variable_base/mod.rs");
    let text = fs::read_to_string(&msm).unwrap().replace("msm_u32(bases, scalars)", "x()");
    fs::write(msm, text).unwrap();
    let error = patch([Path::new("--source"), &source, &target]).unwrap_err();
    assert!(error.contains("`msm_u32(bases, scalars)` 0 times"), "{error}");
    assert!(!target.exists());
}
