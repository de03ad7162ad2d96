//! Three daemons behind Envoy and HAProxy, with the configurations of `deploy/`, and as a fleet,
//! under load while daemons are killed and drained, or while readers stall.
//!
//! `scripts/install-proxies` installs the proxies; `CAPSTAN_PROXIES` names another folder that has
//! them. Without them, tests that need a proxy are skipped, but not in CI. `CAPSTAN_PROXY_LOAD_S`
//! sets the seconds of each load of the sweep; the default is 20.

mod load;
mod proxy;
mod set_up;
mod site;
mod stalled_readers;
mod work;

use crate::{
    daemon_process, identity::authority, msm_inputs, shell_blocks, sparse_inputs, stable_port,
    sweep,
};

use std::time::Duration;

use capstan::client::{Client, Fleet, G1Affine, PutOptions};

use crate::proxies::{
    load::{CALLS_MIN, LoadReport, LoadTimes, run_load},
    msm_inputs::{points, scalars, sum},
    proxy::{ProxyKind, ProxyProcess},
    site::Site,
    work::Caller,
};

fn long_times() -> LoadTimes {
    let seconds = std::env::var("CAPSTAN_PROXY_LOAD_S").ok();
    let seconds = seconds.map_or(20, |seconds| seconds.parse().expect("seconds"));
    LoadTimes::long(Duration::from_secs(seconds))
}

fn assert_served(name: &str, report: &LoadReport) {
    println!("{name}: {report:?}");
    assert_eq!(report.failed, Vec::<String>::new(), "{name}");
    assert!(
        report.kills > 0 && report.drains > 0 && report.calls > CALLS_MIN,
        "{name}: {report:?}"
    );
}

/// A call's caller and bases, through the proxy.
async fn check_calls(site: &Site, client: &Client, caller: &str) {
    let info = client.info().await.unwrap();
    assert_eq!(info.caller.unwrap().subject, caller);
    // The proxy's own name for callers is believed, theirs is not: `Site::forger` claims to be
    // another one.
    let forged = site.forger(&client_target(client)).await;
    assert_eq!(forged, caller);
    let hold = PutOptions { hold: true, ..PutOptions::default() };
    for seed in 0..6 {
        // Over several lanes.
        let count = if seed == 0 { 45_000 } else { 100 };
        let (all, elements) = (points::<G1Affine>(seed, count), scalars(seed, count));
        let bases = client.put_bases_with(hold.clone(), &all).await.unwrap();
        assert_eq!(client.msm(&bases, &elements).await.unwrap(), sum(&all, &elements));
    }
}

fn client_target(client: &Client) -> String {
    let text = format!("{client:?}");
    text.trim_start_matches("Client(").split(',').next().unwrap().to_owned()
}

async fn behind(kind: ProxyKind, times: LoadTimes) {
    let Some(program) = kind.program() else { return };
    let mut site = Site::start(kind.name());
    let proxy = ProxyProcess::start(kind, &program, &site);
    let client = site.client(&proxy.target()).retries(30).connect().await.unwrap();
    check_calls(&site, &client, kind.caller()).await;
    let report = run_load(&mut site, Caller::One(client), times).await;
    assert_served(kind.name(), &report);
    // The bases of the load are on several daemons.
    let stored = site.stored().await;
    assert!(stored.iter().filter(|count| **count > 0).count() > 1, "{stored:?}");
    // No certificate, no call.
    let stranger = site.stranger(&proxy.target()).connect().await;
    assert!(stranger.is_err(), "a caller without a certificate is served");
    drop(proxy);
}

async fn as_a_fleet(times: LoadTimes) {
    let mut site = Site::start("fleet");
    let fleet = Fleet::connect(site.clients()).await.unwrap();
    let report = run_load(&mut site, Caller::Many(fleet), times).await;
    assert_served("fleet", &report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_survive_killed_and_drained_daemons_behind_envoy() {
    behind(ProxyKind::Envoy, LoadTimes::ONE_ROUND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_survive_killed_and_drained_daemons_behind_haproxy() {
    behind(ProxyKind::HaProxy, LoadTimes::ONE_ROUND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_fleet_survive_killed_and_drained_daemons() {
    as_a_fleet(LoadTimes::ONE_QUICK_ROUND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sweep"]
async fn calls_survive_rounds_of_killed_and_drained_daemons() {
    let all = [Some(ProxyKind::Envoy), Some(ProxyKind::HaProxy), None];
    for kind in sweep::cases("long loads of proxies", all) {
        match kind {
            Some(kind) => behind(kind, long_times()).await,
            None => as_a_fleet(long_times()).await,
        }
    }
}
