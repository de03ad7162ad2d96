//! How long a tenant's small jobs take while another tenant streams long ones, on a virtual clock.
//! Measured on GPUs in `benches/experiments/tenants.md`.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    super::queue::{JobPlace, RunnableJob},
    *,
};
use crate::tenant::TenantId;

const SMALL: Duration = Duration::from_micros(500);
const LONG: Duration = Duration::from_millis(14);
/// A pass of a job that yields.
const SHORT_PASS: Duration = Duration::from_micros(2500);
/// Jobs that the tenant with long ones keeps in the server.
const LONG_JOBS: usize = 2;
/// Until the next small job is sent after an answer, at most.
const PAUSE_US_MAX: u64 = 3000;
const SMALL_JOBS: usize = 2000;

const SMALL_TENANT: TenantId = TenantId(1);
const LONG_TENANT: TenantId = TenantId(2);

/// A job that takes `left` of the device's time.
struct DeviceJob {
    left: Duration,
    is_short: bool,
    /// Whether it makes short passes when it is told to yield.
    can_yield: bool,
}

impl RunnableJob for DeviceJob {
    fn is_ready(&self) -> bool {
        true
    }

    fn is_short(&self) -> bool {
        self.is_short
    }

    fn is_computed(&self) -> bool {
        false
    }

    fn step(&mut self, control: &JobControl, _: JobTiming) -> SteppedJob {
        let longest = if self.can_yield && control.yields() { SHORT_PASS } else { LONG };
        let pass = self.left.min(longest);
        self.left -= pass;
        SteppedJob { is_done: self.left.is_zero(), charged: pass }
    }

    fn fail(&mut self, _: Error) {}
}

/// One device that runs one pass at a time.
struct SharedDevice {
    random: StdRng,
    queue: JobQueue,
    begun: Instant,
    clock: Instant,
    submitted: u64,
    can_yield: bool,
    long_jobs: usize,
    long_time: Duration,
    /// When the next small job is sent, or the one in the queue was.
    small_sent: Instant,
    is_small_queued: bool,
    latencies: Vec<Duration>,
}

impl SharedDevice {
    fn new(seed: u64, can_yield: bool) -> Self {
        let begun = Instant::now();
        Self {
            random: StdRng::seed_from_u64(seed),
            queue: JobQueue::default(),
            begun,
            clock: begun,
            submitted: 0,
            can_yield,
            long_jobs: 0,
            long_time: Duration::ZERO,
            small_sent: begun,
            is_small_queued: false,
            latencies: Vec::new(),
        }
    }

    fn submit(&mut self, tenant: TenantId, now: Instant) {
        self.submitted += 1;
        let is_short = tenant == SMALL_TENANT;
        let left = if is_short { SMALL } else { LONG };
        let job = ScheduledJob {
            number: self.submitted,
            owner: JobOwner { tenant, ..JobOwner::default() },
            job: Box::new(DeviceJob { left, is_short, can_yield: self.can_yield }),
            control: JobControl::default(),
            state_entered: now,
            timing: JobTiming::default(),
        };
        assert_eq!(self.queue.enqueue(job, now), JobPlace::Ready);
    }

    /// Queues what both tenants have sent until now.
    fn receive(&mut self) {
        while self.long_jobs < LONG_JOBS {
            self.submit(LONG_TENANT, self.clock);
            self.long_jobs += 1;
        }
        if !self.is_small_queued && self.small_sent <= self.clock {
            self.submit(SMALL_TENANT, self.small_sent);
            self.is_small_queued = true;
        }
    }

    fn run_pass(&mut self) {
        self.receive();
        let PickedJob { mut job, by } = self.queue.pick(self.clock).expect("jobs are queued");
        let SteppedJob { is_done, charged } = job.job.step(&job.control, job.timing);
        self.clock += charged;
        self.queue.end_piece(&job.owner, by, charged, charged);
        let is_small = job.owner.tenant == SMALL_TENANT;
        if !is_small {
            self.long_time += charged;
        }
        match (is_done, is_small) {
            (false, _) => _ = self.queue.enqueue(job, self.clock),
            (true, false) => self.long_jobs -= 1,
            (true, true) => {
                self.latencies.push(self.clock - self.small_sent);
                let pause = self.random.random_range(0..PAUSE_US_MAX);
                self.small_sent = self.clock + Duration::from_micros(pause);
                self.is_small_queued = false;
            }
        }
    }

    /// The 99th percentile of the small jobs' latencies.
    fn p99(&mut self) -> Duration {
        while self.latencies.len() < SMALL_JOBS {
            self.run_pass();
        }
        self.latencies.sort();
        self.latencies[SMALL_JOBS * 99 / 100]
    }
}

#[test]
fn small_jobs_end_within_ten_milliseconds_beside_a_stream_of_long_ones() {
    for seed in 0..8 {
        let mut device = SharedDevice::new(seed, true);
        let p99 = device.p99();
        assert!(p99 <= Duration::from_millis(10), "seed {seed}: {p99:?}");
        // The long jobs get the rest of the time.
        let share = device.long_time.as_secs_f64() / (device.clock - device.begun).as_secs_f64();
        assert!(share > 0.7, "seed {seed}: {share}");
        let without = SharedDevice::new(seed, false).p99();
        assert!(without > Duration::from_millis(10), "seed {seed}: {without:?} without yielding");
    }
}
