//! The set-up of deploy/README.md with three daemons behind Envoy, run as it is written there.

use std::fs;

use crate::proxies::{
    proxy::ProxyKind,
    shell_blocks::{block, run_block},
    stable_port::claim_nine_ports,
};

#[test]
fn the_balanced_set_up_of_the_page_serves_the_caller_that_it_names() {
    let Some(envoy) = ProxyKind::Envoy.program() else { return };
    let page = fs::read_to_string("deploy/README.md").unwrap();
    let certificates =
        block(&page, "**Any network, with client certificates (mTLS) and tenants.**");
    let balanced = block(&page, "**Three daemons behind Envoy on one machine.**");
    // The daemons' ports, the one of Envoy's administration, and the addresses of its listener.
    let listener = r#"-e s/9901/0/ -e s/0.0.0.[0]/127.0.0.1/ -e "s/: 76[5]4/: $PORT/""#;
    let replacements = [
        ("scripts/install-proxies".to_owned(), "true".to_owned()),
        // The page numbers the daemons by the last digits of their ports.
        ("766".to_owned(), (claim_nine_ports() / 10).to_string()),
        ("target/ci/proxies/envoy".to_owned(), envoy.display().to_string()),
        ("> envoy.yaml".to_owned(), format!("| sed {listener} > envoy.yaml")),
        ("~/capstan/deploy".to_owned(), format!("{}/deploy", env!("CARGO_MANIFEST_DIR"))),
        ("~/capstan/".to_owned(), String::new()),
        ("7654,".to_owned(), "76[5]4,".to_owned()),
    ];
    let mut script = format!("{certificates}{balanced}");
    for (from, to) in replacements {
        assert!(script.contains(&from), "no {from:?}");
        script = script.replace(&from, &to);
    }
    let folder = tempfile::tempdir().unwrap();
    let done = run_block(&script, folder.path());
    let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("caller proxied:spiffe://example.org/ada"), "{out}");
    assert!(out.contains("every result was checked"), "{out}");
}
