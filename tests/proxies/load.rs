//! Calls of several tasks while daemons are killed and drained.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::time::sleep;

use crate::{
    site::{DAEMONS, Site},
    work::{Caller, Work},
};

const TASKS: usize = 3;
/// One daemon is killed and one is drained in this time, or in a minute if the load takes longer
/// than two.
const ROUND: Duration = Duration::from_secs(10);
const LONG_ROUND: Duration = Duration::from_secs(60);
/// How long a killed or drained daemon is away.
const AWAY: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub struct LoadReport {
    pub calls: usize,
    /// Errors of failed calls.
    pub failed: Vec<String>,
    pub slowest: Duration,
    pub kills: usize,
    pub drains: usize,
}

static WORK: LazyLock<Work> = LazyLock::new(Work::new);

/// Runs jobs for `time`. A wrong result panics.
pub async fn run_load(site: &mut Site, caller: Caller, time: Duration) -> LoadReport {
    LazyLock::force(&WORK);
    let next = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = (0..TASKS).map(|_| {
        let (next, stop, caller) = (next.clone(), stop.clone(), caller.clone());
        tokio::spawn(async move {
            let mut report = LoadReport::default();
            while !stop.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let number = next.fetch_add(1, Ordering::SeqCst);
                report.calls += 1;
                if let Err(error) = WORK.run(&caller, number).await {
                    report.failed.push(format!("job {number}: {error:?}"));
                }
                report.slowest = report.slowest.max(begun.elapsed());
            }
            report
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut sum = LoadReport::default();
    disturb(site, time, &mut sum).await;
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        let report = task.await.expect("no wrong result");
        sum.calls += report.calls;
        sum.failed.extend(report.failed);
        sum.slowest = sum.slowest.max(report.slowest);
    }
    sum
}

/// Kills one daemon after the other and drains the next one; each comes back.
async fn disturb(site: &mut Site, time: Duration, report: &mut LoadReport) {
    let begun = Instant::now();
    let round = if time > 2 * LONG_ROUND { LONG_ROUND } else { ROUND };
    let pause = (round / 2).saturating_sub(AWAY);
    for number in (0..DAEMONS).cycle() {
        if begun.elapsed() >= time {
            return;
        }
        sleep(pause / 2).await;
        site.take_daemon(number).kill();
        report.kills += 1;
        sleep(AWAY).await;
        site.start_daemon(number);
        sleep(pause).await;
        let mut drained = site.take_daemon((number + 1) % DAEMONS);
        drained.signal(Signal::TERM);
        let drained = tokio::task::spawn_blocking(move || drained.wait()).await.unwrap();
        assert_eq!(drained, Some(0), "the drain ends in order");
        report.drains += 1;
        sleep(AWAY).await;
        site.start_daemon((number + 1) % DAEMONS);
        sleep(pause / 2).await;
    }
}
