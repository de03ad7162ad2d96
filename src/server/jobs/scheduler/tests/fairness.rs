//! Which job runs next, on a virtual clock.

use super::{
    super::queue::{FORGET_AT_MIN, JobPlace, ReadyJob},
    *,
};
use crate::tenant::TenantId;

/// Deadlines are hours away, so that none passes if the test stalls.
#[test]
fn runs_an_early_deadline_first_and_a_late_one_in_turn() {
    let hour = Duration::from_secs(3600);
    let later = Instant::now() + hour;
    let log = JobLog::open();
    let mut queue = JobQueue::default();
    let jobs = [('a', None), ('b', Some(later)), ('c', None), ('d', Some(later + hour))];
    for (number, (name, deadline)) in (0..).zip(jobs) {
        let job = job(number, log.job(name, 1), deadline, later);
        assert_eq!(queue.enqueue(job, later), JobPlace::Ready);
    }
    while let Some(PickedJob { mut job, .. }) = queue.pick(later) {
        let stepped = job.job.step(&job.control, job.timing);
        assert!(stepped.is_done, "the job has one piece");
    }
    assert_eq!(*log.names.lock(), "bacd");
}

fn job(number: u64, work: LoggedJob, deadline: Option<Instant>, since: Instant) -> ScheduledJob {
    ScheduledJob {
        number,
        owner: JobOwner::default(),
        job: Box::new(JobWithReply {
            work: Some(work),
            span: Span::none(),
            answer: None,
            wiper: Wiper::default(),
        }),
        control: JobControl::new(deadline),
        state_entered: since,
        timing: JobTiming::default(),
    }
}

/// Simulates one worker on a virtual clock: each piece takes `PIECE`, and `FLOOD` jobs of one piece
/// with a short deadline are queued at all times.
struct Simulation {
    queue: JobQueue,
    log: Arc<JobLog>,
    clock: Instant,
    submitted: u64,
}

const PIECE: Duration = Duration::from_millis(100);
const FLOOD: usize = 8;
const SHORT: Duration = Duration::from_millis(900);

impl Simulation {
    /// Begins an hour from now, so that no deadline passes if the test stalls.
    fn new() -> Self {
        let clock = Instant::now() + Duration::from_secs(3600);
        Self { queue: JobQueue::default(), log: JobLog::open(), clock, submitted: 0 }
    }

    fn submit(&mut self, name: char, pieces: usize, deadline: Option<Duration>) {
        self.submit_for(JobOwner::default(), name, pieces, deadline);
    }

    fn submit_for(
        &mut self,
        owner: JobOwner,
        name: char,
        pieces: usize,
        deadline: Option<Duration>,
    ) {
        let deadline = deadline.map(|deadline| self.clock + deadline);
        let work = self.log.job(name, pieces);
        self.submitted += 1;
        let job = job(self.submitted, work, deadline, self.clock);
        assert_eq!(self.queue.enqueue(ScheduledJob { owner, ..job }, self.clock), JobPlace::Ready);
    }

    /// Runs the next piece.
    fn run_piece(&mut self) {
        let picked = self.queue.pick(self.clock);
        let PickedJob { mut job, by } = picked.expect("a job is queued");
        job.timing.queue += self.clock - job.state_entered;
        let SteppedJob { is_done, .. } = job.job.step(&job.control, job.timing);
        self.clock += PIECE;
        self.queue.end_piece(&job.owner, by, PIECE, PIECE);
        job.state_entered = self.clock;
        if !is_done {
            self.queue.enqueue(job, self.clock);
        }
    }

    /// Runs `pieces` pieces during the flood and returns their names.
    fn run_flooded(&mut self, pieces: usize) -> String {
        for _ in 0..pieces {
            let short = |ready: &&ReadyJob| ready.job.control.deadline().is_some();
            for _ in self.queue.ready.values().filter(short).count()..FLOOD {
                self.submit('s', 1, Some(SHORT));
            }
            self.run_piece();
        }
        std::mem::take(&mut *self.log.names.lock())
    }
}

#[test]
fn short_deadlines_leave_long_jobs_their_share() {
    let mut simulation = Simulation::new();
    simulation.submit('a', 1000, None);
    simulation.submit('b', 1000, None);
    // Makes both wait longer than a short deadline.
    simulation.run_flooded(100);
    let pieces = simulation.run_flooded(400);
    let [a, b, s] = ['a', 'b', 's'].map(|name| count(&pieces, name));
    assert!(a >= 45 && b >= 45, "a and b got less than a quarter: {pieces}");
    assert!(s >= 280, "a and b got more than a quarter: {pieces}");
}

fn owner(tenant: u32, weight: u32) -> JobOwner {
    JobOwner { tenant: TenantId(tenant), weight, ..JobOwner::default() }
}

#[test]
fn a_long_job_yields_while_another_tenant_has_short_ones() {
    let mut queue = JobQueue::default();
    let log = JobLog::open();
    let now = Instant::now();
    let owner = |id| JobOwner { tenant: TenantId(id), ..JobOwner::default() };
    let mut yields = |number, tenant, pieces| {
        let work = log.job('j', pieces);
        queue.enqueue(ScheduledJob { owner: owner(tenant), ..job(number, work, None, now) }, now);
        queue.pick(now).expect("a job is queued").job.control.yields()
    };
    assert!(!yields(1, 1, 9), "alone");
    assert!(!yields(2, 1, 1), "short");
    assert!(!yields(3, 1, 9), "its short job delays no other tenant");
    assert!(yields(4, 2, 9), "a short job of tenant 1 was just there");
    assert!(yields(5, 1, 9), "it gets no more than tenant 2, which yields");
    assert!(!yields(6, 2, 1), "it is short itself");
}

/// How many of `names` are `name`.
fn count(names: &str, name: char) -> usize {
    names.chars().filter(|other| *other == name).count()
}

#[test]
fn a_tenant_gets_its_share_while_nine_others_flood() {
    let mut simulation = Simulation::new();
    for tenant in 1..10 {
        for _ in 0..200 {
            simulation.submit_for(owner(tenant, 1), 'f', 1, Some(SHORT));
        }
    }
    // One job at a time, the next one as soon as the previous has ended.
    for _ in 0..1000 {
        let own = |ready: &ReadyJob| ready.job.owner.tenant == TenantId(0);
        if !simulation.queue.ready.values().any(own) {
            simulation.submit_for(owner(0, 1), 'o', 1, None);
        }
        simulation.run_piece();
    }
    let own = count(&simulation.log.names.lock(), 'o');
    assert!((90..=110).contains(&own), "{own} of 100");
}

#[test]
fn tenants_share_the_workers_by_weight() {
    let mut simulation = Simulation::new();
    for (tenant, name) in ['a', 'b', 'c'].into_iter().enumerate() {
        simulation.submit_for(owner(tenant as u32, 1 << tenant), name, 1000, None);
    }
    for _ in 0..700 {
        simulation.run_piece();
    }
    let names = simulation.log.names.lock();
    for (name, expected) in [('a', 100), ('b', 200), ('c', 400)] {
        let got = count(&names, name);
        assert!(got.abs_diff(expected) <= 2, "{name}: {got} of {expected}");
    }
}

/// A tenant that was idle does not get the time that others used meanwhile.
#[test]
fn idle_tenants_save_nothing_and_owe_nothing() {
    let mut simulation = Simulation::new();
    simulation.submit_for(owner(0, 1), 'a', 1000, None);
    for _ in 0..300 {
        simulation.run_piece();
    }
    simulation.submit_for(owner(1, 1), 'b', 1000, None);
    for _ in 0..200 {
        simulation.run_piece();
    }
    assert_eq!(count(&simulation.log.names.lock(), 'b'), 100);
}

#[test]
fn a_tenant_whose_only_job_runs_is_charged_after_many_others_came() {
    let mut simulation = Simulation::new();
    simulation.submit_for(owner(0, 1), 'a', 1000, None);
    let PickedJob { mut job, by } = simulation.queue.pick(simulation.clock).expect("a job");
    for tenant in 1..=2 * FORGET_AT_MIN as u32 {
        simulation.submit_for(owner(tenant, 1), 'o', 1, None);
        simulation.run_piece();
    }
    job.job.step(&job.control, job.timing);
    simulation.queue.end_piece(&job.owner, by, 100 * PIECE, 100 * PIECE);
    simulation.queue.enqueue(job, simulation.clock);
    simulation.log.names.lock().clear();
    simulation.submit_for(owner(u32::MAX, 1), 'b', 1000, None);
    for _ in 0..100 {
        simulation.run_piece();
    }
    assert_eq!(count(&simulation.log.names.lock(), 'a'), 0, "it has used the time of 100 pieces");
}

#[test]
fn priorities_order_the_jobs_of_one_tenant_only() {
    let mut simulation = Simulation::new();
    let with = |tenant, priority| JobOwner { priority, ..owner(tenant, 1) };
    simulation.submit_for(with(0, JobPriority::Batch), 'b', 1, Some(SHORT));
    simulation.submit_for(with(0, JobPriority::Normal), 'n', 1, None);
    simulation.submit_for(with(0, JobPriority::Urgent), 'u', 2, None);
    simulation.submit_for(with(1, JobPriority::Batch), 'o', 2, None);
    for _ in 0..6 {
        simulation.run_piece();
    }
    assert_eq!(*simulation.log.names.lock(), "uouonb");
}

#[test]
fn jobs_of_low_priority_get_their_share_at_last() {
    let mut simulation = Simulation::new();
    let batch = JobOwner { priority: JobPriority::Batch, ..JobOwner::default() };
    simulation.submit_for(batch, 'b', 1000, None);
    simulation.run_flooded(100);
    let pieces = simulation.run_flooded(400);
    assert!(count(&pieces, 'b') >= 90, "{pieces}");
}
