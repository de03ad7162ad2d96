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

use crate::proxies::{
    site::{DAEMONS, Site},
    work::{Caller, Work},
};

const TASKS: usize = 3;
/// Each load makes more calls than this, however slow the host is.
pub const CALLS_MIN: usize = 50;
/// The most additional time of a load for these calls.
const EXTRA_TIME_MAX: Duration = Duration::from_secs(120);

/// The times of a load, which consists of whole rounds: in each of them, one daemon is killed and
/// another one is drained.
#[derive(Clone, Copy)]
pub struct LoadTimes {
    /// No round begins after this time once more than [`CALLS_MIN`] calls were made.
    total: Duration,
    round: Duration,
    /// How long a killed or drained daemon is away.
    away: Duration,
}

impl LoadTimes {
    /// One round. The proxies check the health of the daemons once a second.
    pub const ONE_ROUND: Self =
        Self { total: Duration::ZERO, round: Duration::from_secs(8), away: Duration::from_secs(2) };
    /// One round for a fleet, which notices by itself that a daemon has gone.
    pub const ONE_QUICK_ROUND: Self = Self {
        total: Duration::ZERO,
        round: Duration::from_secs(3),
        away: Duration::from_millis(500),
    };

    /// Rounds of a minute if the load takes longer than two minutes, otherwise of ten seconds.
    pub fn long(total: Duration) -> Self {
        let minute = Duration::from_secs(60);
        let round = if total > 2 * minute { minute } else { Duration::from_secs(10) };
        Self { total, round, away: Duration::from_secs(2) }
    }
}

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

/// Runs jobs while daemons are killed and drained. A wrong result panics.
pub async fn run_load(site: &mut Site, caller: Caller, times: LoadTimes) -> LoadReport {
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
    disturb(site, times, &next, &mut sum).await;
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
async fn disturb(site: &mut Site, times: LoadTimes, calls: &AtomicUsize, report: &mut LoadReport) {
    let LoadTimes { total, round, away } = times;
    let begun = Instant::now();
    let pause = (round / 2).saturating_sub(away);
    for number in (0..DAEMONS).cycle() {
        sleep(pause / 2).await;
        site.take_daemon(number).kill();
        report.kills += 1;
        sleep(away).await;
        site.start_daemon(number);
        sleep(pause).await;
        let mut drained = site.take_daemon((number + 1) % DAEMONS);
        drained.signal(Signal::TERM);
        let drained = tokio::task::spawn_blocking(move || drained.wait()).await.unwrap();
        assert_eq!(drained, Some(0), "the drain ends in order");
        report.drains += 1;
        sleep(away).await;
        site.start_daemon((number + 1) % DAEMONS);
        sleep(pause / 2).await;
        let most =
            if calls.load(Ordering::SeqCst) > CALLS_MIN { total } else { total + EXTRA_TIME_MAX };
        if begun.elapsed() >= most {
            return;
        }
    }
}
