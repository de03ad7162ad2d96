//! Servers of a fleet that are killed, hang, drain, or are all gone: that costs time, never a
//! result.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use capstan::client::{Client, ClientError, Fleet, G1Affine, MsmOptions, Progress, PutOptions};
use rustix::process::Signal;

use crate::many_servers::{
    fleet::fleet_of,
    rig::{
        DaemonProcess, batch, bounded, pause, points, restart, scalars, slow_points, slow_scalars,
        start, sum, sums,
    },
};

/// The daemon with the most calls of the fleet.
fn busiest(fleet: &Fleet, daemons: &[Option<DaemonProcess>]) -> Option<usize> {
    let servers = fleet.servers();
    let busy =
        servers.iter().filter(|server| server.calls > 0).max_by_key(|server| server.calls)?;
    daemons
        .iter()
        .position(|daemon| daemon.as_ref().is_some_and(|daemon| daemon.target() == busy.target))
}

fn killable(count: usize) -> Vec<Option<DaemonProcess>> {
    (0..count).map(|_| Some(start())).collect()
}

async fn wait_until_sent(bytes: u64, sent: &AtomicU64) {
    let begun = Instant::now();
    while sent.load(Ordering::SeqCst) < bytes {
        assert!(begun.elapsed() < Duration::from_secs(60), "{sent:?} of {bytes} bytes are sent");
        tokio::task::yield_now().await;
    }
}

/// Kills the server of the running call. Returns false if no call is running.
fn kill_busiest(fleet: &Fleet, daemons: &mut [Option<DaemonProcess>]) -> bool {
    let victim = busiest(fleet, daemons);
    if let Some(victim) = victim {
        daemons[victim].take().expect("alive").kill();
    }
    victim.is_some()
}

/// Kills the server of the running call in the middle of an upload of bases or of scalars. Returns
/// false if the call has ended.
async fn kill_during_upload(
    fleet: &Fleet,
    daemons: &mut [Option<DaemonProcess>],
    sent: &AtomicU64,
) -> bool {
    wait_until_sent(1 << 20, sent).await;
    kill_busiest(fleet, daemons)
}

fn counted() -> (Progress, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let counter = sent.clone();
    // Lanes report in any order.
    let count = move |done: u64, _: u64| {
        counter.fetch_max(done, Ordering::SeqCst);
    };
    (Arc::new(count), sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_of_an_upload_or_an_msm_costs_no_result() {
    let mut daemons = killable(4);
    let fleet = fleet_of(daemons.iter().flatten()).await;
    // While bases are uploaded over several lanes; again with other bases if the call ends first.
    let mut seed = 0;
    let (all, bases) = loop {
        seed += 1;
        let all = slow_points(seed);
        let (progress, sent) = counted();
        let options = PutOptions { progress: Some(progress), ..PutOptions::default() };
        let put = bounded(fleet.put_bases_with(options, &all[..], 1));
        let (bases, is_killed) = tokio::join!(put, kill_during_upload(&fleet, &mut daemons, &sent));
        let bases = bases.unwrap();
        if is_killed {
            break (all, bases);
        }
    };
    let elements = slow_scalars(1, 3);
    let expected = sums(&all, &elements);
    let found = bounded(fleet.msm_with(&bases, &elements, batch(3))).await.unwrap();
    assert_eq!(found.points, expected);
    // While scalars are uploaded over several lanes, and the MSM has begun.
    let mut is_killed = false;
    while !is_killed {
        let (progress, sent) = counted();
        let options = MsmOptions { progress: Some(progress), ..batch(3) };
        let msm = bounded(fleet.msm_with(&bases, &elements, options));
        let kill = kill_during_upload(&fleet, &mut daemons, &sent);
        let found;
        (found, is_killed) = tokio::join!(msm, kill);
        assert_eq!(found.unwrap().points, expected);
    }
    // While the server computes: all scalars are sent.
    is_killed = false;
    while !is_killed {
        let (progress, sent) = counted();
        let options = MsmOptions { progress: Some(progress), ..batch(3) };
        let msm = bounded(fleet.msm_with(&bases, &elements, options));
        let kill = async {
            wait_until_sent(32 * elements.len() as u64, &sent).await;
            pause(100).await;
            is_killed = kill_busiest(&fleet, &mut daemons);
        };
        let (found, ()) = tokio::join!(msm, kill);
        assert_eq!(found.unwrap().points, expected);
    }
    assert_eq!(daemons.iter().flatten().count(), 1, "three of four servers are gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_msm_survives_the_loss_of_a_part() {
    let mut daemons = killable(3);
    let fleet = fleet_of(daemons.iter().flatten()).await;
    let (all, elements) = (points::<G1Affine>(2, 3000), scalars(2, 3000));
    let bases = fleet.put_bases_with(PutOptions::default(), &all[..], 3).await.unwrap();
    daemons[1].take().expect("alive").kill();
    assert_eq!(bounded(fleet.msm(&bases, &elements)).await.unwrap(), sum(&all, &elements));
    daemons[0].take().expect("alive").kill();
    assert_eq!(bounded(fleet.msm(&bases, &elements)).await.unwrap(), sum(&all, &elements));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_serves_again() {
    let [first, second] = [(); 2].map(|()| start());
    let fleet = fleet_of([&first, &second]).await;
    let jobs: Vec<_> =
        (0..8).map(|seed| (points::<G1Affine>(seed, 30), scalars(seed, 30))).collect();
    let mut bases = Vec::new();
    for (all, _) in &jobs {
        bases.push(fleet.put_bases(&all[..]).await.unwrap());
    }
    let check = async || {
        for (bases, (all, elements)) in bases.iter().zip(&jobs) {
            assert_eq!(bounded(fleet.msm(bases, elements)).await.unwrap(), sum(all, elements));
        }
    };
    let address = first.address();
    first.kill();
    check().await;
    let first = crate::many_servers::rig::start_at(Some(address));
    until_up(&fleet, 2).await;
    check().await;
    let client = first.client().connect().await.unwrap();
    assert!(!client.list(None).await.unwrap().is_empty(), "its keys have come back");
    let second = restart(second);
    check().await;
    drop(second);
}

async fn until_up(fleet: &Fleet, count: usize) {
    let begun = Instant::now();
    while fleet.servers().iter().filter(|server| server.is_up).count() < count {
        assert!(begun.elapsed() < Duration::from_secs(30), "{fleet:?}");
        pause(20).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_leave_a_draining_server_at_once() {
    let mut daemons = [(); 2].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    let (all, elements) = (points::<G1Affine>(1, 30), scalars(1, 30));
    let bases = fleet.put_bases(&all[..]).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let calls = (0..2).map(|_| {
        let (fleet, bases, stop) = (fleet.clone(), bases.clone(), stop.clone());
        let (expected, elements) = (sum(&all, &elements), elements.clone());
        tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            while !stop.load(Ordering::SeqCst) {
                let begun = Instant::now();
                assert_eq!(bounded(fleet.msm(&bases, &elements)).await.unwrap(), expected);
                slowest = slowest.max(begun.elapsed());
            }
            slowest
        })
    });
    let calls: Vec<_> = calls.collect();
    pause(200).await;
    daemons[0].signal(Signal::TERM);
    assert_eq!(daemons[0].wait(), Some(0));
    pause(200).await;
    stop.store(true, Ordering::SeqCst);
    for call in calls {
        println!("slowest call during the drain: {:?}", call.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_leave_a_server_that_hangs() {
    let daemons = [(); 2].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    let jobs: Vec<_> =
        (0..6).map(|seed| (points::<G1Affine>(seed, 30), scalars(seed, 30))).collect();
    let mut bases = Vec::new();
    for (all, _) in &jobs {
        bases.push(fleet.put_bases(&all[..]).await.unwrap());
    }
    daemons[0].signal(Signal::STOP);
    let begun = Instant::now();
    for (bases, (all, elements)) in bases.iter().zip(&jobs) {
        assert_eq!(bounded(fleet.msm(bases, elements)).await.unwrap(), sum(all, elements));
    }
    println!("six jobs took {:?} with a server that hangs", begun.elapsed());
    let up = fleet.servers().into_iter().filter(|server| server.is_up).count();
    assert_eq!(up, 1, "{fleet:?}");
    daemons[0].signal(Signal::CONT);
    until_up(&fleet, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_replicas_pass_calls_on() {
    let daemons = [(); 2].map(|()| start());
    let servers = daemons.iter().map(|daemon| Client::builder(daemon.target()));
    let fleet = Fleet::builder(servers).replicas(2).connect().await.unwrap();
    let (all, elements) = (points::<G1Affine>(1, 5000), scalars(1, 5000));
    let bases = fleet.put_bases(&all[..]).await.unwrap();
    let expected = sum(&all, &elements);
    let calls = (0..8).map(|_| fleet.msm(&bases, &elements));
    let found = bounded(futures_util::future::join_all(calls)).await;
    assert!(found.into_iter().all(|found| found.unwrap() == expected));
    for daemon in &daemons {
        let client = daemon.client().connect().await.unwrap();
        assert_eq!(client.list(None).await.unwrap().len(), 1, "each replica has the bases");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_end_with_a_clear_error_if_all_servers_are_gone() {
    let daemons = [(); 2].map(|()| start());
    let targets = daemons.each_ref().map(|daemon| daemon.target());
    let servers = targets.clone().map(|target| Client::builder(target).retries(1));
    let patience = Duration::from_secs(2);
    let fleet = Fleet::builder(servers).patience(patience).connect().await.unwrap();
    let (all, elements) = (points::<G1Affine>(1, 30), scalars(1, 30));
    let bases = fleet.put_bases(&all[..]).await.unwrap();
    daemons.into_iter().for_each(DaemonProcess::kill);
    let begun = Instant::now();
    let error = fleet.msm(&bases, &elements).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let is_lost = |error: &ClientError| {
        matches!(error, ClientError::ConnectionLost(_) | ClientError::CannotConnect { .. })
    };
    assert!(is_lost(&error), "{error}");
    // Within a deadline that is shorter than the fleet's patience.
    let deadline = Some(Duration::from_millis(500));
    let begun = Instant::now();
    let options = MsmOptions { deadline, ..MsmOptions::default() };
    let error = fleet.msm_with(&bases, &elements, options).await.unwrap_err();
    assert!(begun.elapsed() < patience, "{:?}", begun.elapsed());
    assert!(error.to_string().contains(&targets[0]), "{error}");
    let servers = targets.map(Client::builder);
    let error = Fleet::connect(servers).await.unwrap_err();
    assert!(matches!(error, ClientError::CannotConnect { .. }), "{error}");
    let error = Fleet::connect([]).await.unwrap_err();
    assert!(matches!(error, ClientError::InvalidSetting { .. }), "{error}");
}
