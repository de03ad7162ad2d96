//! A daemon that is killed while clients put bases.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use capstan::client::{BasesId, Client, Fr, G1Affine, PutOptions};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::chaos::{
    daemon::{DaemonOptions, DaemonProcess, points, start_with, until_ok},
    faults::Faults,
};

const ROUNDS_MIN: u64 = 3;
/// Only a daemon that never leaves an unfinished file needs as many.
const ROUNDS_MAX: u64 = 20;
const CLIENTS: u64 = 3;
/// Bases that must be acknowledged before a round's kill.
const ACKNOWLEDGED_MIN: usize = 12;

/// Bases that the daemon has acknowledged.
struct Acknowledged {
    seed: u64,
    id: BasesId,
}

/// The number of points: each `Put` has another one.
fn count(seed: u64) -> usize {
    seed as usize % 40 + 1
}

/// Puts bases until the daemon is gone.
async fn put_until_killed(target: String, first: u64, all: Arc<Mutex<Vec<Acknowledged>>>) {
    let client = Client::builder(target).retries(0).connect().await.unwrap();
    for seed in first.. {
        let options = PutOptions { persist: true, ..PutOptions::default() };
        match client.put_bases_with(options, &points(seed, count(seed))).await {
            Ok(bases) => all.lock().unwrap().push(Acknowledged { seed, id: bases.id() }),
            Err(_) => return,
        }
    }
}

fn files(folder: &Path, extension: &str) -> usize {
    let entries = fs::read_dir(folder.join("bases")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|other| other == extension)).count()
}

/// Asserts that the daemon serves exactly the files with final names, among them all acknowledged
/// bases, and that each computes.
async fn assert_serves(daemon: &DaemonProcess, folder: &Path, all: &[Acknowledged]) {
    let client = daemon.client().connect().await.unwrap();
    let listed = client.list(None).await.unwrap();
    assert_eq!(files(folder, "part"), 0, "unfinished files are left");
    assert_eq!(listed.len(), files(folder, "bases"), "some files are not served");
    for Acknowledged { seed, id } in all {
        assert!(listed.iter().any(|bases| bases.id == *id), "acknowledged bases {seed} are lost");
        let bases = client.bases::<G1Affine>(*id).await.unwrap();
        assert_eq!(bases.len() as usize, count(*seed));
        let n = bases.len();
        let sum = client.msm(&bases, &vec![Fr::from(1); n as usize]).await.unwrap();
        assert_eq!(sum, points(0, 1)[0] * Fr::from((seed + 1) * (n * (n + 1) / 2)));
    }
}

#[test]
fn acknowledged_bases_survive_a_kill_and_unfinished_ones_are_removed() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    let flags = ["--data-dir", folder.path().to_str().unwrap()];
    let options =
        DaemonOptions { flags: &flags, faults: Some((&faults, folder.path())), prepare: "" };
    // A sync takes a while, so that each kill comes in the middle of one.
    faults.set("pause 30");
    let all = Arc::<Mutex<Vec<_>>>::default();
    let (mut round, mut unfinished) = (0, 0);
    while round < ROUNDS_MIN || unfinished == 0 {
        assert!(round < ROUNDS_MAX, "no kill came in the middle of a put");
        let daemon = start_with(&options);
        let runtime = Runtime::new().unwrap();
        runtime.block_on(assert_serves(&daemon, folder.path(), &all.lock().unwrap()));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let first = (round * CLIENTS + client) * 1000;
            let target = daemon.target();
            clients.spawn_on(put_until_killed(target, first, all.clone()), runtime.handle());
        }
        let before = all.lock().unwrap().len();
        runtime.block_on(until_ok("puts", async || match all.lock().unwrap().len() {
            len if len >= before + ACKNOWLEDGED_MIN => Ok(()),
            len => Err(len),
        }));
        // At another moment of a `Put` in each round.
        thread::sleep(Duration::from_millis(7 * round));
        daemon.kill();
        runtime.block_on(clients.join_all());
        unfinished += files(folder.path(), "part");
        round += 1;
    }
    let daemon = start_with(&options);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(assert_serves(&daemon, folder.path(), &all.lock().unwrap()));
    let acknowledged = all.lock().unwrap().len();
    println!("{round} rounds, {acknowledged} acknowledged, {unfinished} unfinished");
    daemon.stop();
}
