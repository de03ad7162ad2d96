//! Blocks of shell commands in documents, run as they are written there, apart from addresses.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::stable_port::stable_port;

/// Ends what a block has started, and waits for a program that it has put into the background.
const PRELUDE: &str = r#"
set -euo pipefail
trap 'kill $(jobs -p); wait' EXIT
await() {
    for _ in $(seq 600); do
        if [[ -S run/capstan.sock ]] || (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
            return
        fi
        sleep .1
    done
    echo "the daemon does not listen" >&2
    exit 1
}
"#;

/// The first block of shell commands after `heading`.
pub fn block<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs a block in `folder`. This host stands for the page's `gpu1`, and free ports for port 7654
/// and the port of metrics.
pub fn run_block(block: &str, folder: &Path) -> Output {
    let port = stable_port().to_string();
    let mut script = PRELUDE.to_owned();
    for line in block.lines() {
        script += &line.replace("/run/capstan", "run").replace("gpu1", "localhost");
        script += if line.ends_with('&') { "\nawait\n" } else { "\n" };
    }
    let script = script.replace("7654", &port).replace("0.0.0.0", "127.0.0.1");
    let programs = Path::new(env!("CARGO_BIN_EXE_capstand")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    // Only a hang reaches the limit.
    Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .env("PORT", &port)
        .env("CAPSTAN_METRICS_LISTEN", "127.0.0.1:0")
        .env("HOME", folder)
        .env_remove("CAPSTAN_TOKEN")
        .output()
        .unwrap()
}
