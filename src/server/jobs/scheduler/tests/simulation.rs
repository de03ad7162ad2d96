//! A million jobs of several tenants on a virtual clock: arrivals, data that comes late,
//! cancellations, deadlines and lost workers are drawn from a seed.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    mem,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{super::queue::JobPlace, *};
use crate::{
    jobs::{AdmissionPermit, Backlog, Budget, admit, backlog::BacklogPermit, check_share},
    tenant::{Tenant, TenantId, TenantLimits, TenantName},
};

const JOBS_PER_SEED: u64 = 250_000;
const SEEDS: u64 = 4;
const WORKERS: usize = 3;
/// Weights of the tenants that always have jobs; the others have pauses.
const FLOODING: [u32; 3] = [1, 2, 4];
const TENANTS: usize = 8;
/// Jobs that a flooding tenant keeps in the server.
const FLOOD: u64 = 12;
/// The longest piece.
const PIECE_MAX: Duration = Duration::from_micros(900);
/// One of this many pieces ends with the loss of its worker. The job begins again.
const LOST_PIECES: u32 = 20_000;
/// How long it takes to replace a worker.
const REPLACING: Duration = Duration::from_secs(2);

/// Shared by a job's work and the simulation.
#[derive(Default)]
struct SimulatedState {
    is_ready: AtomicBool,
    /// Whether the worker of its next piece will be lost.
    loses_worker: AtomicBool,
    /// How often the job has ended.
    ends: AtomicUsize,
}

struct SimulatedJob {
    state: Arc<SimulatedState>,
    pieces: u32,
    pieces_left: u32,
    piece: Duration,
    _permits: Option<(AdmissionPermit, BacklogPermit)>,
}

impl SimulatedJob {
    fn end(&mut self) {
        self.state.ends.fetch_add(1, Ordering::SeqCst);
        self._permits = None;
    }
}

impl super::super::queue::RunnableJob for SimulatedJob {
    fn is_ready(&self) -> bool {
        self.state.is_ready.load(Ordering::SeqCst)
    }

    fn is_short(&self) -> bool {
        self.pieces == 1
    }

    fn is_computed(&self) -> bool {
        false
    }

    fn step(&mut self, control: &JobControl, _: JobTiming) -> SteppedJob {
        self.pieces_left -= 1;
        if self.state.loses_worker.swap(false, Ordering::SeqCst) {
            self.pieces_left = self.pieces;
        }
        let is_done = self.pieces_left == 0 || control.check().is_err();
        if is_done {
            self.end();
        }
        SteppedJob { is_done, charged: self.piece }
    }

    fn fail(&mut self, _: Error) {
        self.end();
    }
}

/// What happens at a point in time; ordered by it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedEvent {
    PieceEnds {
        worker: usize,
        is_lost: bool,
    },
    WorkerIsReplaced(usize),
    /// A client of the tenant sends its next job.
    Arrival(usize),
    DataArrives(u64),
    Cancel(u64),
}

enum SimulatedWorker {
    Idle,
    Runs(RunningPiece),
    Lost,
}

struct RunningPiece {
    job: ScheduledJob,
    by: super::super::tenant_queue::PickedBy,
    stepped: SteppedJob,
    time: Duration,
}

struct LiveJob {
    state: Arc<SimulatedState>,
    control: JobControl,
    tenant: usize,
    deadline: Option<Instant>,
    /// Whether a worker was being replaced when it came.
    saw_loss: bool,
}

struct TenantSimulation {
    random: StdRng,
    begun: Instant,
    clock: Instant,
    queue: JobQueue,
    events: BinaryHeap<Reverse<(Instant, u64, SimulatedEvent)>>,
    event_count: u64,
    workers: Vec<SimulatedWorker>,
    tenants: Vec<(Arc<Tenant>, Budget)>,
    server: Budget,
    backlog: Arc<Backlog>,
    live: HashMap<u64, LiveJob>,
    submitted: u64,
    refused: u64,
    ended: u64,
    missed: u64,
    with_deadline: u64,
    lost_workers: u64,
    worker_time: [Duration; TENANTS],
    longest_wait: Duration,
}

impl TenantSimulation {
    fn new(seed: u64) -> Self {
        let tenant = |index: usize| {
            let weight = FLOODING.get(index).copied().unwrap_or(1);
            let limits = TenantLimits { weight, jobs_max: 40, ..TenantLimits::default() };
            let tenant = Tenant::new(TenantId(index as u32), TenantName::default(), &limits);
            let budget = Budget::tenant(&tenant);
            (Arc::new(tenant), budget)
        };
        // Begins an hour from now, so that no deadline passes by the real clock.
        let begun = Instant::now() + Duration::from_secs(3600);
        let mut simulation = Self {
            random: StdRng::seed_from_u64(seed),
            begun,
            clock: begun,
            queue: JobQueue::default(),
            events: BinaryHeap::new(),
            event_count: 0,
            workers: (0..WORKERS).map(|_| SimulatedWorker::Idle).collect(),
            tenants: (0..TENANTS).map(tenant).collect(),
            server: Budget::server(1 << 40, 150),
            backlog: Backlog::with_ratio(WORKERS, 1.0),
            live: HashMap::new(),
            submitted: 0,
            refused: 0,
            ended: 0,
            missed: 0,
            with_deadline: 0,
            lost_workers: 0,
            worker_time: [Duration::ZERO; TENANTS],
            longest_wait: Duration::ZERO,
        };
        for tenant in 0..TENANTS {
            let jobs = if tenant < FLOODING.len() { FLOOD } else { 1 };
            (0..jobs)
                .for_each(|_| simulation.schedule(Duration::ZERO, SimulatedEvent::Arrival(tenant)));
        }
        simulation
    }

    fn schedule(&mut self, after: Duration, event: SimulatedEvent) {
        self.event_count += 1;
        self.events.push(Reverse((self.clock + after, self.event_count, event)));
    }

    fn micros(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_micros(self.random.random_range(range))
    }

    /// Until all jobs have ended.
    fn run(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.clock = at;
            match event {
                SimulatedEvent::Arrival(tenant) => self.submit(tenant),
                SimulatedEvent::DataArrives(number) => self.receive(number),
                SimulatedEvent::Cancel(number) => self.cancel(number),
                SimulatedEvent::PieceEnds { worker, is_lost } => self.end_piece(worker, is_lost),
                SimulatedEvent::WorkerIsReplaced(worker) => {
                    self.workers[worker] = SimulatedWorker::Idle;
                }
            }
            self.start_pieces();
        }
    }

    fn submit(&mut self, tenant: usize) {
        if self.submitted == JOBS_PER_SEED {
            return;
        }
        self.submitted += 1;
        let number = self.submitted;
        let pieces = self.random.random_range(1..6);
        let piece = self.micros(50..900);
        let is_flooding = tenant < FLOODING.len();
        let deadline = (self.random.random_ratio(1, 3)).then(|| self.micros(5_000..400_000));
        let owner = JobOwner {
            tenant: TenantId(tenant as u32),
            weight: self.tenants[tenant].0.weight(),
            priority: match self.random.random_range(0..10) {
                0 => JobPriority::Urgent,
                1 => JobPriority::Batch,
                _ => JobPriority::Normal,
            },
        };
        if !is_flooding {
            let pause = self.micros(0..20_000);
            self.schedule(pause, SimulatedEvent::Arrival(tenant));
        }
        let modelled = piece * pieces;
        let due = deadline.map(|after| self.clock + after);
        let own = &self.tenants[tenant].1;
        let server = &self.server;
        let quotas =
            check_share(own, server, 1000, 1, true).and_then(|()| admit(&[own, server], 1000, 1));
        let permits = quotas.and_then(|quotas| {
            Ok((quotas, self.backlog.admit_at(owner, modelled, due, self.clock)?))
        });
        let Ok(permits) = permits else {
            self.refused += 1;
            if is_flooding {
                self.schedule(Duration::from_millis(5), SimulatedEvent::Arrival(tenant));
            }
            return;
        };
        self.with_deadline += u64::from(deadline.is_some());
        let state = Arc::new(SimulatedState::default());
        let control = JobControl::new(None);
        let saw_loss = self.has_lost_worker();
        let live = LiveJob {
            state: state.clone(),
            control: control.clone(),
            tenant,
            deadline: due,
            saw_loss,
        };
        self.live.insert(number, live);
        if self.random.random_ratio(1, 4) {
            let late = self.micros(0..3_000);
            self.schedule(late, SimulatedEvent::DataArrives(number));
        } else {
            state.is_ready.store(true, Ordering::SeqCst);
        }
        if self.random.random_ratio(1, 50) {
            let later = self.micros(0..30_000);
            self.schedule(later, SimulatedEvent::Cancel(number));
        }
        if let Some(deadline) = deadline {
            self.schedule(deadline, SimulatedEvent::Cancel(number));
        }
        let pieces_left = pieces;
        let permits = Some(permits);
        let job = SimulatedJob { state, pieces, pieces_left, piece, _permits: permits };
        let job = Box::new(job);
        let state_entered = self.clock;
        let timing = JobTiming::default();
        let job = ScheduledJob { number, owner, job, control, state_entered, timing };
        self.queue.enqueue(job, self.clock);
    }

    /// Fewer workers than admission counts on.
    fn has_lost_worker(&self) -> bool {
        self.workers.iter().any(|worker| matches!(worker, SimulatedWorker::Lost))
    }

    fn receive(&mut self, number: u64) {
        let Some(live) = self.live.get(&number) else { return };
        live.state.is_ready.store(true, Ordering::SeqCst);
        if let Some(job) = self.queue.parked.remove(&number) {
            assert_eq!(self.queue.enqueue(job, self.clock), JobPlace::Ready);
        }
    }

    fn cancel(&mut self, number: u64) {
        let Some(live) = self.live.get(&number) else { return };
        live.control.cancel();
        let is_late = live.deadline.is_some_and(|deadline| deadline <= self.clock);
        let is_excused = live.saw_loss || self.has_lost_worker();
        self.missed += u64::from(is_late && !is_excused);
        if let Some(mut job) = self.queue.remove_stopped(number) {
            job.job.fail(Error::CANCELLED);
            self.end(number);
        }
    }

    fn end(&mut self, number: u64) {
        let live = self.live.remove(&number).expect("ends once");
        assert_eq!(live.state.ends.load(Ordering::SeqCst), 1);
        self.ended += 1;
        if live.tenant < FLOODING.len() {
            self.schedule(Duration::ZERO, SimulatedEvent::Arrival(live.tenant));
        }
    }

    fn start_pieces(&mut self) {
        for worker in 0..WORKERS {
            if !matches!(self.workers[worker], SimulatedWorker::Idle) {
                continue;
            }
            let Some(PickedJob { mut job, by }) = self.queue.pick(self.clock) else { return };
            let waited = self.clock - job.state_entered;
            self.longest_wait = self.longest_wait.max(waited);
            job.timing.queue += waited;
            let is_lost = self.random.random_ratio(1, LOST_PIECES);
            if is_lost {
                self.lost_workers += 1;
                self.live[&job.number].state.loses_worker.store(true, Ordering::SeqCst);
            }
            let stepped = job.job.step(&job.control, job.timing);
            let time = stepped.charged;
            assert!(time <= PIECE_MAX);
            let piece = RunningPiece { job, by, stepped, time };
            self.workers[worker] = SimulatedWorker::Runs(piece);
            self.schedule(time, SimulatedEvent::PieceEnds { worker, is_lost });
        }
    }

    fn end_piece(&mut self, worker: usize, is_lost: bool) {
        let next = if is_lost { SimulatedWorker::Lost } else { SimulatedWorker::Idle };
        let SimulatedWorker::Runs(running) = mem::replace(&mut self.workers[worker], next) else {
            panic!("the worker has no job")
        };
        if is_lost {
            self.schedule(REPLACING, SimulatedEvent::WorkerIsReplaced(worker));
        }
        let RunningPiece { mut job, by, stepped, time } = running;
        let SteppedJob { mut is_done, charged } = stepped;
        job.state_entered = self.clock;
        job.timing.run += time;
        self.worker_time[job.owner.tenant.0 as usize] += time;
        self.queue.end_piece(&job.owner, by, time, charged);
        if !is_done && job.control.check().is_err() {
            job.job.fail(Error::CANCELLED);
            is_done = true;
        }
        match is_done {
            true => self.end(job.number),
            false => _ = self.queue.enqueue(job, self.clock),
        }
    }

    /// Fairness among the tenants that always have jobs: their times by weight differ by what the
    /// workers do at the same time.
    fn assert_fair(&self, seed: u64) {
        let shares = FLOODING.iter().zip(&self.worker_time);
        let shares = shares.map(|(weight, time)| time.as_secs_f64() / f64::from(*weight));
        let shares: Vec<_> = shares.collect();
        let least = shares.iter().copied().fold(f64::MAX, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        assert!(most <= 1.02 * least, "seed {seed}: {shares:?}");
    }
}

#[test]
fn a_million_jobs_end_once_fairly_and_return_what_they_held() {
    for seed in 0..SEEDS {
        let mut simulation = TenantSimulation::new(seed);
        simulation.run();
        let TenantSimulation { submitted, refused, ended, missed, with_deadline, .. } = simulation;
        assert_eq!((submitted, refused + ended), (JOBS_PER_SEED, JOBS_PER_SEED), "seed {seed}");
        assert!(simulation.live.is_empty() && simulation.queue.is_empty(), "seed {seed}");
        for (tenant, _) in &simulation.tenants {
            assert_eq!((tenant.jobs.used(), tenant.bytes.used()), (0, 0), "seed {seed}");
        }
        let server = &simulation.server;
        assert_eq!((server.jobs.used(), server.bytes.used()), (0, 0), "seed {seed}");
        assert!(simulation.backlog.is_empty(), "seed {seed}");
        simulation.assert_fair(seed);
        assert!(refused < submitted / 2, "seed {seed}: {refused} refused");
        assert!(simulation.lost_workers > 10, "seed {seed}");
        // Late data, and tenants that come back after the admission.
        assert!(20 * missed < with_deadline, "seed {seed}: {missed} of {with_deadline} were late");
        // Urgent jobs of a tenant may delay its batch jobs, until those are senior.
        let wait = simulation.longest_wait;
        assert!(wait < Duration::from_secs(30), "seed {seed}: a job waited for {wait:?}");
        assert!(simulation.clock > simulation.begun);
    }
}
