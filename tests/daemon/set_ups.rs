//! The set-ups of deploy/README.md, run as they are written there, apart from the address.

use std::{fs, process::Output};

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
