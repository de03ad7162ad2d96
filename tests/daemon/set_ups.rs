//! The set-ups of deploy/README.md, run as they are written there, apart from the address.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Command, Output},
};

/// Ends what a block has started, and waits for a daemon that it has put into the background.
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
fn block<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs a block in `folder`. The host `gpu1` of the page is this one.
fn run_block(block: &str, folder: &Path) -> Output {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let mut script = PRELUDE.to_owned();
    for line in block.lines() {
        script += &line.replace("/run/capstan", "run").replace("gpu1", "localhost");
        script += if line.ends_with('&') { "\nawait\n" } else { "\n" };
    }
    let script = script.replace("7654", &port).replace("0.0.0.0", "127.0.0.1");
    let programs = Path::new(env!("CARGO_BIN_EXE_capstand")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .env("PORT", &port)
        .env("HOME", folder)
        .env_remove("CAPSTAN_TOKEN")
        .output()
        .unwrap()
}

#[test]
fn the_set_ups_of_the_page_serve_the_callers_that_it_names() {
    let page = fs::read_to_string("deploy/README.md").unwrap();
    for (heading, caller) in [
        ("**One host, over the Unix socket.**", "caller uid:"),
        ("**A trusted network, with tokens.**", "caller token:ada, tenant provers"),
        (
            "**Any network, with client certificates (mTLS) and tenants.**",
            "caller cert:spiffe://example.org/ada, tenant provers",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let Output { status, stdout, stderr } = run_block(block(&page, heading), folder.path());
        let [stdout, stderr] =
            [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(status.success(), "{heading}: {stdout}\n{stderr}");
        assert!(stdout.contains(caller), "{heading}: {stdout}");
    }
}
