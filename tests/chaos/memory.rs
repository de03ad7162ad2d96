//! A daemon that gets no more memory from the system.
//!
//! What it can promise: payloads lie in memory that it maps at its start, and budgets limit how
//! much of that is used, so that all of them together fit in the control group; what is mapped
//! later (bases, regions) is refused if the system refuses it. If the system refuses a small
//! allocation, Rust ends the process.

use capstan::client::{Code, Fr, Group, PointEncoding, PutOptions};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use tokio::runtime::Runtime;

use crate::chaos::{
    control_group::ControlGroup,
    daemon::{DaemonOptions, compute, points, start, start_with, until_idle, until_ok},
};

/// What the daemon may still map: enough for its own work, not for the large bases.
const HEADROOM: u64 = 40 << 20;

const LARGE_POINTS: usize = 1 << 19;

#[test]
fn bases_for_which_there_is_no_memory_are_refused_and_others_are_served() {
    let daemon = start(&[]);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let small = client.put_bases(&points(1, 3)).await.unwrap();
        // Points at infinity are checked quickly.
        let large = vec![0; LARGE_POINTS * 96];
        let put = async || {
            let options = PutOptions::default();
            client.put_encoded(Group::G1, PointEncoding::Montgomery, &large, options).await
        };
        // The first one lets the daemon start all threads that it needs.
        let bases = put().await.unwrap();
        client.release(bases.id).await.unwrap();
        compute(&client).await.unwrap();
        until_idle(&client).await;

        let maximum = getrlimit(Resource::As).maximum;
        let limit = |current| Rlimit { current, maximum };
        let mapped = daemon.status_bytes("VmSize:");
        prlimit(Some(daemon.pid()), Resource::As, limit(Some(mapped + HEADROOM))).unwrap();
        for _ in 0..3 {
            let refused = put().await.unwrap_err();
            let refused = (refused.code(), refused.reason_text().to_owned());
            assert_eq!(refused, (Code::ResourceExhausted, "PROCESS_LIMIT".to_owned()));
            compute(&client).await.unwrap();
            let sum = client.msm(&small, &[Fr::from(1); 3]).await.unwrap();
            assert_eq!(sum, points(11, 1)[0], "2·(1 + 2 + 3)·G");
            until_idle(&client).await;
        }
        let load = client.info().await.unwrap().load.unwrap();
        assert_eq!(load.objects, 1, "a refused put is still counted");
        prlimit(Some(daemon.pid()), Resource::As, limit(None)).unwrap();
        let bases = put().await.unwrap();
        client.release(bases.id).await.unwrap();
    });
    daemon.stop();
}

/// Of the control group. Half of it is for payloads, a quarter for bases.
const GROUP_BYTES: u64 = 640 << 20;

#[test]
fn a_daemon_whose_limits_are_reached_stays_within_its_control_group() {
    let group = match ControlGroup::new(GROUP_BYTES) {
        Ok(group) => group,
        Err(error) => return println!("skipped: no control group can be made here: {error}"),
    };
    let prepare = group.enter();
    let options = DaemonOptions { prepare: &prepare, ..DaemonOptions::default() };
    let daemon = start_with(&options);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let limits = client.info().await.unwrap().limits.unwrap();
        assert_eq!(
            (limits.bytes_in_flight, limits.store_bytes),
            (GROUP_BYTES / 2, GROUP_BYTES / 4)
        );
        // Bases first: their payload needs budget, too. Other bases each time.
        let mut counts = (0..).map(|n| LARGE_POINTS / 4 + n);
        let reason = loop {
            let payload = vec![0; counts.next().unwrap() * 96];
            let options = PutOptions::default();
            let encoding = PointEncoding::Montgomery;
            if let Err(refused) = client.put_encoded(Group::G1, encoding, &payload, options).await {
                break refused.reason_text().to_owned();
            }
        };
        assert_eq!(reason, "STORE");
        let mut vectors = Vec::new();
        let full = loop {
            // A connection may use half of the bytes.
            let client = daemon.client().connect().await.unwrap();
            match client.put_vector(&vec![Fr::from(7); 1 << 19][..]).await {
                Ok(vector) => vectors.push((client, vector.id)),
                Err(full) => break full,
            }
        };
        let full = (full.code(), full.reason_text().to_owned(), vectors.len());
        assert_eq!(full.0, Code::ResourceExhausted, "{full:?}");
        assert_eq!(full.1, "BYTES_IN_FLIGHT");
        println!("{} vectors; {} MiB resident", vectors.len(), daemon.status_bytes("VmRSS:") >> 20);
        for (client, id) in vectors {
            client.release_vector(id).await.unwrap();
            // Its bytes are free once they are wiped, a moment after the answer.
            until_ok("room for a job", async || compute(&client).await).await;
        }
        until_idle(&client).await;
    });
    daemon.stop();
}
