//! The commands of README.md and the set-ups of deploy/README.md, run as they are written there,
//! apart from the address, the folder for files, and what cargo builds.

use std::{fs, net::Ipv4Addr, process::Output};

use crate::daemon::shell_blocks::{block, run_block};

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

const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[test]
fn the_commands_of_the_readme_prove_and_compute() {
    let page = fs::read_to_string("README.md").unwrap();
    let (root, files) = (env!("CARGO_MANIFEST_DIR"), ["", "tmp", ""].join("/"));
    let mut script = format!(
        "export CAPSTAN_LISTEN={LOCALHOST}:$PORT CAPSTAN_SERVER=http://{LOCALHOST}:$PORT\n"
    );
    script += block(&page, "The next three commands turn a circuit and its witness");
    script += block(&page, "To run the daemon and the command line:");
    for (from, to) in [
        ("cargo run --release --", "capstan"),
        ("cargo install --locked --path .", "capstan --version"),
        (&files, ""),
        ("tests/data/", &format!("{root}/tests/data/")),
        ("examples/", &format!("{root}/examples/")),
    ] {
        assert!(script.contains(from), "no {from:?}");
        script = script.replace(from, to);
    }
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } = run_block(&script, folder.path());
    let [stdout, stderr] =
        [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{stdout}\n{stderr}");
    for printed in ["g1_lagrange", "every result was checked", "commitment: ", "proof: "] {
        assert!(stdout.contains(printed), "no {printed:?} in {stdout}");
    }
}
