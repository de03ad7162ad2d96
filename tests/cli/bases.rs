//! Import, export and listing of bases.

use std::fs;

use capstan::{
    client::{Fr, PutOptions, blocking::BlockingClient},
    formats::{PointSet, kzg},
    server::ServerSettings,
    sparse::SparseBuilder,
};

use serde_json::json;

use crate::cli::{
    CEREMONY, CliFixture,
    common::{points, serve},
};

fn ceremony() -> Vec<PointSet> {
    kzg::parse_json(&fs::read(CEREMONY).unwrap()).unwrap()
}

fn hex_lines(set: &PointSet) -> String {
    let lines = set.data.chunks(set.encoding.point_bytes(set.group)).map(hex::encode);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_ceremony_is_imported_and_exported() {
    let cli = CliFixture::new();
    let imported = cli.json(&["bases", "import", CEREMONY, "--label", "ethereum"]);
    let labels: Vec<_> = imported.as_array().unwrap().iter().map(|set| &set["label"]).collect();
    assert_eq!(labels, ["ethereum g1_monomial", "ethereum g1_lagrange", "ethereum g2_monomial"]);
    let counts: Vec<_> = imported.as_array().unwrap().iter().map(|set| &set["count"]).collect();
    assert_eq!(counts, [4096, 4096, 65]);

    // c-kzg's text format of the same points gives the same ids, in that format's order.
    let [monomial, lagrange, g2] = ceremony().try_into().unwrap();
    let lines = [&lagrange, &g2, &monomial].map(hex_lines).join("\n");
    let text = cli.file("setup.txt", format!("4096\n65\n{lines}\n"));
    let again = cli.json(&["bases", "import", &text]);
    assert_eq!(again[0]["id"], imported[1]["id"]);
    assert_eq!(again[1]["id"], imported[2]["id"]);
    assert_eq!(again[2]["id"], imported[0]["id"]);
    assert_eq!(cli.json(&["bases", "list"]).as_array().unwrap().len(), 3);
    assert_eq!(cli.json(&["bases", "list", "--group", "g2"]).as_array().unwrap().len(), 1);

    // Bases are found by id, by a prefix of it, and by label.
    let id = imported[2]["id"].as_str().unwrap();
    for name in [id, &id[..12], "ethereum g2_monomial"] {
        assert_eq!(cli.json(&["bases", "show", name])["id"], id, "{name}");
    }
    assert!(cli.ok(&["bases", "show", id]).text().contains("points at infinity"));
    assert!(cli.ok(&["bases", "list"]).text().contains("ethereum g1_lagrange"));

    let out = cli.path("out.bin").display().to_string();
    cli.ok(&["bases", "export", id, &out]);
    assert_eq!(fs::read(&out).unwrap(), g2.data);
    let hex = cli.ok(&["bases", "export", id, "-", "--format", "hex"]).text();
    assert_eq!(hex.trim_end(), hex_lines(&g2));

    cli.ok(&["bases", "rm", id, "ethereum g1_monomial"]);
    assert_eq!(cli.json(&["bases", "list"]).as_array().unwrap().len(), 1);
    cli.fails(&["bases", "show", id], 1, &["no bases", "bases list"]);
    cli.fails(&["bases", "rm", "nothing"], 1, &["no bases 'nothing'"]);
}

#[test]
fn without_gpus_bases_are_neither_warmed_nor_pinned() {
    let cli = CliFixture::new();
    let id = cli.put(&points(3));
    for action in ["warm", "pin", "unpin", "evict"] {
        let done = cli.json(&["bases", action, &id]);
        assert_eq!(done, json!([{ "id": id, "devices": [] }]), "{action}");
        assert!(cli.ok(&["bases", action, &id[..9]]).err.contains("nothing was done"), "{action}");
        cli.fails(&["bases", action, &id, "--device", "0"], 65, &["devices[0]"]);
        cli.fails(&["bases", action, "nothing"], 1, &["no bases 'nothing'"]);
    }
    assert_eq!(cli.json(&["bases", "list"])[0]["devices"], json!([]));
}

#[test]
fn matrices_are_listed_shown_and_removed_with_bases() {
    let cli = CliFixture::new();
    cli.put(&points(3));
    let mut builder = SparseBuilder::new(1, 2);
    builder.push_row([(Fr::from(3), 1)]).unwrap();
    let matrix = builder.build().unwrap();
    let client = BlockingClient::connect(cli.server.target.clone()).unwrap();
    let options = PutOptions { label: "constraints".into(), ..PutOptions::default() };
    let id = client.put_matrix_with(options, &matrix).unwrap().id().to_string();
    let listed = cli.json(&["bases", "list"]);
    assert_eq!((&listed[0]["kind"], &listed[1]["kind"]), (&"bases".into(), &"matrix".into()));
    assert_eq!((&listed[1]["id"], &listed[1]["columns"]), (&id.clone().into(), &2.into()));
    assert!(cli.ok(&["bases", "list"]).text().contains(&id));
    assert_eq!(cli.json(&["bases", "list", "--group", "g1"]).as_array().unwrap().len(), 1);
    for name in [&id, &id[..10], "constraints"] {
        assert_eq!(cli.json(&["bases", "show", name])["terms"], 1, "{name}");
    }
    assert!(cli.ok(&["bases", "show", &id]).text().contains("stored coefficients"));
    cli.fails(&["bases", "export", "constraints", "-"], 1, &["no bases 'constraints'"]);
    cli.ok(&["bases", "rm", "constraints"]);
    assert_eq!(cli.json(&["bases", "list"]).as_array().unwrap().len(), 1);
    cli.fails(&["bases", "show", &id], 1, &["no bases"]);
}

#[test]
fn one_set_is_imported_in_the_order_of_blobs() {
    let cli = CliFixture::new();
    let import =
        ["bases", "import", CEREMONY, "--set", "lagrange", "--bit-reversed", "--label", "blobs"];
    let imported = cli.json(&import);
    assert_eq!(imported.as_array().unwrap().len(), 1);
    assert_eq!(imported[0]["label"], "blobs");
    let second = ["bases", "export", "blobs", "-", "--format", "hex", "--offset", "1"];
    let second = cli.ok(&[&second[..], &["--length", "1"]].concat()).text();
    let [_, lagrange, _] = ceremony().try_into().unwrap();
    assert_eq!(second.trim_end(), hex_lines(&lagrange).lines().nth(2048).unwrap());
}

#[test]
fn every_binary_format_gives_the_same_bases() {
    let cli = CliFixture::new();
    let id = cli.put(&points(9));
    for format in ["zcash", "ark", "raw"] {
        for uncompressed in [false, true] {
            let out = cli.path("points").display().to_string();
            let mut line = vec!["bases", "export", &id, &out, "--format", format];
            line.extend(uncompressed.then_some("--uncompressed"));
            cli.ok(&line);
            let again = cli.json(&["bases", "import", &out]);
            assert_eq!(again[0]["id"], *id, "{format}");
        }
    }
}

#[test]
fn persisted_bases_are_listed_as_persisted() {
    let data = tempfile::tempdir().unwrap();
    let settings =
        ServerSettings { data_dir: Some(data.path().into()), ..ServerSettings::default() };
    let cli = CliFixture::with(serve(settings));
    let import = ["bases", "import", CEREMONY, "--set", "g2", "--persist"];
    assert_eq!(cli.json(&import)[0]["persisted"], true);
    let memory_only = CliFixture::new();
    memory_only.fails(&import, 1, &["no data directory", "without persist"]);
}
