//! Runs concurrent jobs and records their latencies.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{sync::Barrier, task::JoinSet};

use super::{jobs::BenchJob, measurement::Measurement, shared::WorkerVector};
use crate::{
    client::{Client, Execution, Reason, Timing},
    exit::{CliFailure, Exit, Result},
};

/// Longer latencies are recorded as this value.
const LATENCY_MAX: Duration = Duration::from_secs(3600);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// When a worker stops.
#[derive(Debug, Clone, Copy)]
pub enum StopAfter {
    /// After this time, and at least one job.
    Time(Duration),
    Repeats(u32),
}

/// Phases of the client and the server that are reported.
pub const PHASES: [&str; 5] = ["upload", "receive", "queue", "compute", "download"];

/// Measurements of jobs of one size at one concurrency.
#[derive(Debug, Clone)]
pub struct Sample {
    pub lg_n: u32,
    pub concurrency: u16,
    /// Calls refused because the server was full, retries included.
    pub refused: u64,
    begin: Instant,
    end: Instant,
    latency_ns: Histogram<u64>,
    /// Sums over all jobs, in the order of [`PHASES`].
    phase_sums: [Duration; 5],
    /// Engine and device of the last job; stage times are sums over all jobs.
    execution: Execution,
}

impl Sample {
    fn new(lg_n: u32, concurrency: u16) -> Self {
        let max = LATENCY_MAX.as_nanos() as u64;
        let latency_ns = Histogram::new_with_bounds(1, max, 3).expect("constants that fit");
        let (begin, end) = (Instant::now(), Instant::now());
        let (phase_sums, execution) = Default::default();
        Self { lg_n, concurrency, refused: 0, begin, end, latency_ns, phase_sums, execution }
    }

    fn record(&mut self, Measurement { latency, timing, execution }: Measurement) {
        let Timing { upload, receive, queue, compute, download, .. } = timing;
        self.latency_ns.saturating_record(latency.as_nanos() as u64);
        self.add_phases([upload, receive, queue, compute, download]);
        self.add_stages(execution);
    }

    fn add_phases(&mut self, times: [Duration; 5]) {
        self.phase_sums.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
    }

    /// Adds stages by name, because jobs may have different stages.
    fn add_stages(&mut self, execution: Execution) {
        let mut stages = std::mem::take(&mut self.execution.stages);
        for stage in execution.stages {
            match stages.iter_mut().find(|known| known.name == stage.name) {
                Some(sum) => sum.duration += stage.duration,
                None => stages.push(stage),
            }
        }
        self.execution = Execution { stages, ..execution };
    }

    fn add(&mut self, other: Self) {
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
        self.refused += other.refused;
        self.begin = self.begin.min(other.begin);
        self.end = self.end.max(other.end);
        self.add_phases(other.phase_sums);
        self.add_stages(other.execution);
    }

    /// Time from the start of the first job to the end of the last.
    pub fn wall(&self) -> Duration {
        self.end - self.begin
    }

    /// Engine, device, and the mean time of each stage on the device.
    pub fn execution(&self) -> Execution {
        let mut execution = self.execution.clone();
        execution.stages.iter_mut().for_each(|stage| stage.duration /= self.divisor());
        execution
    }

    /// Mean times of [`PHASES`], which may overlap.
    pub fn phase_means(&self) -> [Duration; 5] {
        self.phase_sums.map(|sum| sum / self.divisor())
    }

    /// Number of completed jobs, to divide sums by.
    fn divisor(&self) -> u32 {
        u32::try_from(self.jobs()).unwrap_or(u32::MAX).max(1)
    }

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
        self.jobs() as f64 / self.wall().as_secs_f64().max(1e-9)
    }
}

#[derive(Clone)]
pub struct BenchRun {
    pub client: Client,
    pub job: Arc<BenchJob>,
    pub lg_n: u32,
    pub concurrency: u16,
    /// Number of jobs per worker before the measurement.
    pub warm_up: u32,
    /// Whether vectors are in memory that the server shares.
    pub is_shared: bool,
    pub stop_after: StopAfter,
}

impl BenchRun {
    /// Runs all workers. The first failure cancels all jobs.
    pub async fn run(self) -> Result<Sample> {
        let start = Arc::new(Barrier::new(self.concurrency.into()));
        // Dropping the set cancels running jobs on both sides.
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency {
            let run = self.clone();
            let start = start.clone();
            workers.spawn(async move { run.run_worker(&start).await });
        }
        let mut total: Option<Sample> = None;
        while let Some(joined) = workers.join_next().await {
            let sample = joined.map_err(|e| CliFailure::new(Exit::Failed, e.to_string()))??;
            match &mut total {
                Some(total) => total.add(sample),
                None => total = Some(sample),
            }
        }
        Ok(total.expect("the concurrency is at least 1"))
    }

    async fn run_worker(&self, start: &Barrier) -> Result<Sample> {
        let new_sample = || Sample::new(self.lg_n, self.concurrency);
        let vectors = (0..self.job.vectors(self.concurrency)).map(|_| match self.is_shared {
            true => WorkerVector::Shared(None),
            false => WorkerVector::Sent(Vec::new()),
        });
        let mut vectors: Vec<_> = vectors.collect();
        self.job.fill(&self.client, &mut vectors[0]).await?;
        // Each worker has a vector before others get more.
        start.wait().await;
        self.fill_others(&mut vectors).await?;
        let mut left = self.warm_up as usize;
        while left > 0 {
            let round = left.min(vectors.len());
            self.run_round(&mut vectors[..round], &mut new_sample()).await?;
            left -= round;
        }
        let mut sample = new_sample();
        start.wait().await;
        sample.begin = Instant::now();
        loop {
            let round = match self.stop_after {
                StopAfter::Time(_) => vectors.len(),
                StopAfter::Repeats(repeats) => {
                    vectors.len().min((u64::from(repeats) - sample.jobs()) as usize)
                }
            };
            self.run_round(&mut vectors[..round], &mut sample).await?;
            let is_done = match self.stop_after {
                StopAfter::Time(time) => sample.begin.elapsed() >= time,
                StopAfter::Repeats(repeats) => sample.jobs() >= repeats.into(),
            };
            if is_done {
                sample.end = Instant::now();
                return Ok(sample);
            }
        }
    }

    /// Makes the vectors after the first: as many as the server has memory for.
    async fn fill_others(&self, vectors: &mut Vec<WorkerVector>) -> Result<()> {
        for number in 1..vectors.len() {
            match self.job.fill(&self.client, &mut vectors[number]).await {
                Err(failure) if failure.exit == Exit::Usage => {
                    vectors.truncate(number);
                    return Ok(());
                }
                filled => filled?,
            }
        }
        Ok(())
    }

    /// Fills the vectors, runs the job on one after the other, and then checks the results.
    async fn run_round(&self, vectors: &mut [WorkerVector], sample: &mut Sample) -> Result<()> {
        for vector in vectors.iter_mut() {
            self.job.fill(&self.client, vector).await?;
        }
        for vector in vectors.iter_mut() {
            self.run_until_accepted(vector, sample).await?;
        }
        vectors.iter().try_for_each(|vector| self.job.check(vector))
    }

    /// Runs the job once on a filled vector; retries it while the server is full.
    async fn run_until_accepted(
        &self,
        vector: &mut WorkerVector,
        sample: &mut Sample,
    ) -> Result<()> {
        loop {
            match self.job.run(&self.client, vector).await {
                Ok(measurement) => {
                    sample.record(measurement);
                    return Ok(());
                }
                // A full server is counted as a result; a draining one is a failure.
                Err(failure) if failure.exit == Exit::RetryLater && is_full(&failure) => {
                    sample.refused += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                    self.job.fill(&self.client, vector).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

fn is_full(failure: &CliFailure) -> bool {
    let reason = Reason::parse(&failure.reason_text);
    !matches!(reason, None | Some(Reason::Draining | Reason::Deadline | Reason::Idle))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::client::Stage;

    /// A sample of jobs with the given latencies.
    pub fn sample(lg_n: u32, concurrency: u16, latencies_us: &[u64]) -> Sample {
        let mut sample = Sample::new(lg_n, concurrency);
        sample.end = sample.begin;
        for &us in latencies_us {
            let latency = Duration::from_micros(us);
            let timing = Timing { compute: latency / 2, ..Timing::default() };
            let stages = vec![Stage { name: "sort".to_owned(), duration: latency / 4 }];
            let execution = Execution { stages, ..Execution::default() };
            sample.record(Measurement { latency, timing, execution });
            sample.end += latency / u32::from(concurrency);
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
        about(sample.phase_means()[3], 25.25);
        assert_eq!(sample.jobs(), 100);
        // 100 jobs in 5.05 s.
        assert!((sample.jobs_per_s() - 100.0 / 5.05).abs() < 1e-6);
        assert!((sample.elements_per_s() - 102_400.0 / 5.05).abs() < 1e-3);
    }

    #[test]
    fn adds_samples_of_workers() {
        let mut all = sample(10, 2, &[1000]);
        all.add(sample(10, 2, &[3000, 5000]));
        assert_eq!(all.jobs(), 3);
        assert_eq!(all.phase_means()[3], Duration::from_micros(1500));
        let mean = Stage { name: "sort".to_owned(), duration: Duration::from_micros(750) };
        assert_eq!(all.execution().stages, [mean]);
    }
}
