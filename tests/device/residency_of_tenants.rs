//! Two tenants with equal bases on the same GPUs: each sees its own residency and pins.

use std::fs;

use capstan::{
    client::{
        BasesHandle, BasesResidency, Client,
        ResidencyAction::{Pin, Warm},
        blocking::BlockingClient,
    },
    curve::G1Affine,
    identity::{BearerToken, TokenEntry, add_token},
};
use serde_json::Value;

use crate::{
    daemon::{MeasuredDaemon, http_with, start_with_metrics, stop},
    residency::points,
    workers::wait_until,
};

struct TenantClient {
    client: BlockingClient,
    bases: BasesHandle<G1Affine>,
}

impl TenantClient {
    fn new(target: &str, token: &BearerToken, label: &str) -> Self {
        let client = BlockingClient::from_builder(Client::builder(target).token(token.text()));
        let client = client.unwrap();
        let options = capstan::client::PutOptions { label: label.into(), ..Default::default() };
        let bases = client.put_bases_with(options, &points(1)).unwrap();
        Self { client, bases }
    }

    /// What the list says of the devices that hold the bases, when all of them have answered.
    fn listed(&self) -> Vec<BasesResidency> {
        loop {
            let [bases] = &self.client.list(None).unwrap()[..] else { panic!("one object each") };
            if bases.unknown_devices.is_empty() {
                return bases.residency.clone();
            }
        }
    }
}

#[test]
fn tenants_with_equal_bases_see_their_own_residency_and_pins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let mut text = String::new();
    let [ops, a, b] = [("ops", "default"), ("a", "tenant-a"), ("b", "tenant-b")].map(|caller| {
        let (token, tenant) = (BearerToken::generate().unwrap(), Some(caller.1.into()));
        let entry = TokenEntry { name: caller.0.into(), tenant, hash: token.hash(), expires: None };
        text = add_token(&text, &entry).unwrap();
        token
    });
    fs::write(&path, text).unwrap();
    let flags = ["--engine", "cuda", "--status-admins", "token:ops"];
    let own = ["--auth-tokens", path.to_str().unwrap(), "--cuda-devices", "0"];
    let MeasuredDaemon { child, target, metrics } =
        start_with_metrics(&[&flags[..], &own].concat(), &[]);
    let [a, b] = [(&a, "of a"), (&b, "of b")].map(|own| TenantClient::new(&target, own.0, own.1));
    let id = a.bases.id();
    assert_eq!(id, b.bases.id(), "named by their content");

    let [pinned] = a.client.set_residency(id, Pin, &[]).unwrap()[..] else { panic!("one GPU") };
    assert_eq!(a.listed(), [pinned]);
    assert!(b.listed().is_empty(), "b sees what a has on the GPU");
    let [warm] = b.client.set_residency(id, Warm, &[]).unwrap()[..] else { panic!("one GPU") };
    assert!(!warm.pinned && warm.bytes > 0, "{warm:?}");
    assert_eq!((a.listed(), b.listed()), (vec![pinned], vec![warm]));

    let report = |headers: &str| loop {
        let answer = http_with(metrics, "/status.json", headers);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        let report: Value = serde_json::from_str(body).unwrap();
        if report["residency"][0]["total"].is_object() {
            return report;
        }
    };
    let seen = report(&format!("authorization: Bearer {}\r\n", ops.text()));
    let of_gpu = &seen["residency"][0];
    let owners = [("tenant-a", "of a", pinned), ("tenant-b", "of b", warm)];
    let all = of_gpu["bases"].as_array().unwrap();
    assert_eq!(all.len(), owners.len(), "{of_gpu}");
    for (tenant, label, held) in owners {
        let of_tenant = all.iter().find(|bases| bases["tenant"] == tenant).unwrap();
        assert_eq!(of_tenant["label"], label);
        assert_eq!((&of_tenant["id"], &of_tenant["group"]), (&id.to_string().into(), &"g1".into()));
        let facts = ["points", "bytes", "tables"].map(|name| of_tenant[name].as_u64().unwrap());
        assert_eq!(facts, [a.bases.len(), held.bytes, held.tables.into()], "{of_tenant}");
        assert_eq!(of_tenant["pinned"], held.pinned);
    }
    let strangers = report("");
    assert_eq!(strangers["residency"][0]["total"]["bases"], 2, "{strangers}");
    assert_eq!(strangers["residency"][0]["total"]["pinned_bytes"], pinned.bytes, "{strangers}");
    for secret in ["of a", "tenant-a", &id.to_string()] {
        assert!(!strangers.to_string().contains(secret), "{strangers}");
    }

    // The release of one tenant's bases leaves the others where they are.
    a.client.release(id).unwrap();
    wait_until("a's bases leave the GPU", || report("")["residency"][0]["total"]["bases"] == 1);
    assert_eq!(b.listed(), [warm]);
    stop(child);
}
