//! Runs concurrent jobs and records their latencies.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{sync::Barrier, task::JoinSet};

use super::jobs::{BenchJob, Measurement};
use crate::{
    cli::exit::{CliFailure, Exit, Result},
    client::{Client, Execution, Timing},
};

/// Longer latencies are recorded as this value.
const LATENCY_MAX: Duration = Duration::from_secs(3600);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// When a worker stops.
#[derive(Debug, Clone, Copy)]
pub enum StopAfter {
    /// After this time, and at least one job.
    Time(Duration),
    /// After this number of jobs.
    Repeats(u32),
}

/// Measurements of jobs of one size at one concurrency.
#[derive(Debug, Clone)]
pub struct Sample {
    /// log2 of the size.
    pub lg_n: u32,
    /// Number of concurrent jobs.
    pub concurrency: u16,
    /// Calls refused because the server was full, retries included.
    pub refused: u64,
    /// Time from the start of the first job to the end of the last.
    pub wall: Duration,
    latency_ns: Histogram<u64>,
    phases: PhaseSums,
    /// Engine and device of the last job; stage times are sums over all jobs.
    execution: Execution,
}

/// Sums of the client's and the server's phases.
#[derive(Debug, Clone, Copy, Default)]
struct PhaseSums {
    upload: Duration,
    receive: Duration,
    queue: Duration,
    compute: Duration,
    download: Duration,
}

impl Sample {
    fn new(lg_n: u32, concurrency: u16) -> Self {
        let max = LATENCY_MAX.as_nanos() as u64;
        let latency_ns = Histogram::new_with_bounds(1, max, 3).expect("constants that fit");
        let (phases, execution) = Default::default();
        Self { lg_n, concurrency, refused: 0, wall: Duration::ZERO, latency_ns, phases, execution }
    }

    fn record(&mut self, latency: Duration, timing: &Timing, execution: Execution) {
        self.latency_ns.saturating_record(latency.as_nanos() as u64);
        self.phases.upload += timing.upload;
        self.phases.receive += timing.receive;
        self.phases.queue += timing.queue;
        self.phases.compute += timing.compute;
        self.phases.download += timing.download;
        self.add_stages(execution);
    }

    /// Adds stages by name, because jobs may have different stages.
    fn add_stages(&mut self, execution: Execution) {
        let mut stages = std::mem::take(&mut self.execution.stages);
        for (name, time) in &execution.stages {
            match stages.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += *time,
                None => stages.push((name.clone(), *time)),
            }
        }
        self.execution = Execution { stages, ..execution };
    }

    fn add(&mut self, other: &Self) {
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
        self.refused += other.refused;
        self.phases.upload += other.phases.upload;
        self.phases.receive += other.phases.receive;
        self.phases.queue += other.phases.queue;
        self.phases.compute += other.phases.compute;
        self.phases.download += other.phases.download;
        self.add_stages(other.execution.clone());
    }

    /// Engine, device, and the mean time of each stage on the device.
    pub fn execution(&self) -> Execution {
        let jobs = u32::try_from(self.jobs()).unwrap_or(u32::MAX).max(1);
        let mut execution = self.execution.clone();
        execution.stages.iter_mut().for_each(|(_, sum)| *sum /= jobs);
        execution
    }

    /// Number of completed jobs.
    pub fn jobs(&self) -> u64 {
        self.latency_ns.len()
    }

    /// The latency at `quantile`, from 0 to 1.
    pub fn latency(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.latency_ns.value_at_quantile(quantile))
    }

    pub fn latency_min(&self) -> Duration {
        Duration::from_nanos(self.latency_ns.min())
    }

    /// Elements per second of all jobs together.
    pub fn elements_per_s(&self) -> f64 {
        self.jobs_per_s() * (1_u64 << self.lg_n) as f64
    }

    pub fn jobs_per_s(&self) -> f64 {
        self.jobs() as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Mean times of the client's and the server's phases, which may overlap.
    pub fn phases(&self) -> [(&'static str, Duration); 5] {
        let jobs = u32::try_from(self.jobs()).unwrap_or(u32::MAX).max(1);
        let PhaseSums { upload, receive, queue, compute, download } = self.phases;
        let own = [upload, receive, queue, compute, download].map(|sum| sum / jobs);
        let names = ["upload", "receive", "queue", "compute", "download"];
        std::array::from_fn(|phase| (names[phase], own[phase]))
    }
}

/// Measures `job` at the given concurrency. The first failure cancels all jobs.
pub async fn run(
    client: &Client,
    job: &BenchJob,
    lg_n: u32,
    concurrency: u16,
    warm_up: u32,
    amount: StopAfter,
) -> Result<Sample> {
    let start = Arc::new(Barrier::new(concurrency.into()));
    // Dropping the set cancels running jobs on both sides.
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        let (client, job, start) = (client.clone(), job.clone(), start.clone());
        let sample = Sample::new(lg_n, concurrency);
        workers.spawn(async move { worker(&client, &job, &start, sample, warm_up, amount).await });
    }
    let mut total = Sample::new(lg_n, concurrency);
    let mut span: Option<(Instant, Instant)> = None;
    while let Some(done) = workers.join_next().await {
        let done = done.map_err(|error| CliFailure::new(Exit::Failed, error.to_string()))?;
        let (sample, begin, end) = done?;
        total.add(&sample);
        span = Some(span.map_or((begin, end), |(first, last)| (first.min(begin), last.max(end))));
    }
    total.wall = span.map_or(Duration::ZERO, |(begin, end)| end - begin);
    Ok(total)
}

async fn worker(
    client: &Client,
    job: &BenchJob,
    start: &Barrier,
    mut sample: Sample,
    warm_up: u32,
    amount: StopAfter,
) -> Result<(Sample, Instant, Instant)> {
    let mut buffer = job.buffer();
    for _ in 0..warm_up {
        run_until_accepted(client, job, &mut buffer, &mut Sample::new(0, 1)).await?;
    }
    start.wait().await;
    let begin = Instant::now();
    let mut done = 0;
    loop {
        run_until_accepted(client, job, &mut buffer, &mut sample).await?;
        done += 1;
        let enough = match amount {
            StopAfter::Time(time) => begin.elapsed() >= time,
            StopAfter::Repeats(repeats) => done >= repeats,
        };
        if enough {
            return Ok((sample, begin, Instant::now()));
        }
    }
}

/// Runs the job once; retries it while the server is full.
async fn run_until_accepted(
    client: &Client,
    job: &BenchJob,
    buffer: &mut Vec<crate::client::Fr>,
    sample: &mut Sample,
) -> Result<()> {
    loop {
        job.refill(buffer);
        match job.run(client, buffer).await {
            Ok(Measurement { latency, timing, execution }) => {
                sample.record(latency, &timing, execution);
                return Ok(());
            }
            // A full server is counted as a result; a draining one is a failure.
            Err(failure) if failure.exit == Exit::TryLater && is_full(&failure) => {
                sample.refused += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn is_full(failure: &CliFailure) -> bool {
    !matches!(failure.reason.as_str(), "" | "DRAINING" | "DEADLINE" | "IDLE")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A sample of jobs with the given latencies.
    pub fn sample(lg_n: u32, concurrency: u16, latencies_us: &[u64]) -> Sample {
        let mut sample = Sample::new(lg_n, concurrency);
        for &us in latencies_us {
            let latency = Duration::from_micros(us);
            let timing = Timing { compute: latency / 2, ..Timing::default() };
            let stages = vec![("sort".to_owned(), latency / 4)];
            sample.record(latency, &timing, Execution { stages, ..Execution::default() });
            sample.wall += latency / u32::from(concurrency);
        }
        sample
    }

    #[test]
    fn computes_percentiles_and_rates() {
        let latencies: Vec<_> = (1..=100).map(|index| index * 1000).collect();
        let sample = sample(10, 1, &latencies);
        let about = |latency: Duration, ms: f64| {
            let error = (latency.as_secs_f64() * 1e3 - ms).abs() / ms;
            assert!(error < 2e-3, "{latency:?}, not {ms} ms");
        };
        about(sample.latency(0.5), 50.0);
        about(sample.latency(0.9), 90.0);
        about(sample.latency(0.99), 99.0);
        about(sample.latency_min(), 1.0);
        about(sample.phases()[3].1, 25.25);
        assert_eq!(sample.jobs(), 100);
        // 100 jobs in 5.05 s.
        assert!((sample.jobs_per_s() - 100.0 / 5.05).abs() < 1e-6);
        assert!((sample.elements_per_s() - 102_400.0 / 5.05).abs() < 1e-3);
    }

    #[test]
    fn merges_samples_of_workers() {
        let mut all = sample(10, 2, &[1000]);
        all.add(&sample(10, 2, &[3000, 5000]));
        assert_eq!(all.jobs(), 3);
        assert_eq!(all.phases()[3].1, Duration::from_micros(1500));
        let [(name, time)] = &all.execution().stages[..] else { panic!("one stage") };
        assert_eq!((name.as_str(), *time), ("sort", Duration::from_micros(750)));
    }
}
