//! The emulated driver built with ASan and UBSan, for programs that are built without them.
//! Any test crate may include this module.
#![allow(dead_code)] // no test crate uses everything

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::emulated;

/// `-O1`, because further optimisation of instrumented code takes too long.
const FLAGS: [&str; 3] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"];

/// Path of a sanitizer's library; `None` if the compiler has none.
fn runtime(name: &str) -> Option<PathBuf> {
    let answer = Command::new("g++").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// The variables for a process that runs the kernels in `kernels` on a sanitized driver, which
/// [`emulated::build`] keeps in the folder `name`. `None` if the compiler has no sanitizers.
pub fn variables(name: &str, kernels: &Path) -> Option<Vec<(&'static str, String)>> {
    let (Some(asan), Some(ubsan)) = (runtime("libasan.so"), runtime("libubsan.so")) else {
        assert!(env::var_os("CI").is_none(), "g++ has no libasan and libubsan");
        eprintln!("skipped: g++ has no libasan and libubsan");
        return None;
    };
    let driver = emulated::build(name, kernels, &FLAGS);
    Some(vec![
        ("LD_PRELOAD", format!("{} {}", asan.display(), ubsan.display())),
        // The program is not instrumented, so leaks cannot be counted.
        ("ASAN_OPTIONS", "detect_leaks=0".to_owned()),
        ("UBSAN_OPTIONS", "print_stacktrace=1".to_owned()),
        (emulated::SETTING, driver.display().to_string()),
    ])
}
