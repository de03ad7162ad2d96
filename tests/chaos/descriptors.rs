//! A daemon that runs out of file descriptors.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use capstan::client::{Code, PutOptions};
use tokio::{runtime::Runtime, time::sleep};

use crate::chaos::daemon::{DaemonOptions, compute, points, start_with, until_ok};

/// Enough for the daemon itself and about a hundred connections.
const FILES_MAX: u32 = 150;

#[test]
fn a_daemon_without_free_descriptors_serves_its_connections_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().to_str().unwrap();
    let flags = ["--data-dir", data_dir, "--handshake-timeout-ms", "3600000"];
    let prepare = format!("ulimit -n {FILES_MAX}; ");
    let options = DaemonOptions { flags: &flags, prepare: &prepare, ..DaemonOptions::default() };
    let daemon = start_with(&options);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        compute(&client).await.unwrap();
        let before = daemon.files();
        let connect = |_| TcpStream::connect(daemon.address()).unwrap();
        // The system queues those that are not accepted.
        let many: Vec<_> = (0..FILES_MAX + 50).map(connect).collect();
        until_ok("no descriptor is free", async || {
            if daemon.log().contains("cannot accept a connection") { Ok(()) } else { Err(()) }
        })
        .await;
        // Much longer than the pause after a failed accept.
        let begun = Instant::now();
        for seed in 0..20 {
            compute(&client).await.unwrap();
            // Bases need a descriptor: in memory, and for the file.
            for persist in [false, true] {
                let options = PutOptions { persist, ..PutOptions::default() };
                let refused = client.put_bases_with(options, &points(seed, 3)).await.unwrap_err();
                let refused = (refused.code(), refused.reason_text().to_owned());
                assert_eq!(refused, (Code::ResourceExhausted, "PROCESS_LIMIT".to_owned()));
            }
            sleep(Duration::from_millis(100)).await;
        }
        let lines = daemon.log().matches("cannot accept a connection").count();
        // One in ten seconds.
        let most = 2 + begun.elapsed().as_secs() / 10;
        assert!(lines as u64 <= most, "{lines} lines about failed accepts:\n{}", daemon.log());
        drop(many);
        let again = until_ok("new connections", async || daemon.client().connect().await).await;
        compute(&again).await.unwrap();
        let options = PutOptions { persist: true, ..PutOptions::default() };
        let put = async || client.put_bases_with(options.clone(), &points(1, 3)).await;
        let bases = until_ok("a put", put).await;
        client.release(bases.id()).await.unwrap();
        drop(again);
        until_ok("descriptors return", async || match daemon.files() {
            files if files <= before => Ok(()),
            files => Err((before, files)),
        })
        .await;
    });
    daemon.stop();
}
