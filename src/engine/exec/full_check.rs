//! Full checks: the oracle runs the program, too, and must get the same outputs.
//!
//! The oracle is an engine. A full check runs the same call on the same trait (`MsmNttEngine`), by
//! arkworks on other threads, and compares the outputs. So it checks what a GPU computed, whatever
//! the program, and no executor knows of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::{
    AwaitedElements, ElementSink, Evictor, Executor, HostExecutor, OutputWrites, ProgramPlan,
    RunInProgress, RunOperands, RunReport, call::RunCall,
};
use crate::{
    buffer::{ByteSink, ByteSource},
    curve::points::Bases,
    engines::{JobControl, MsmNttEngine},
    error::{Error, Result},
    verify::Verification,
};

/// Bytes that are compared at a time.
const COMPARED_BYTES: usize = 64 << 10;

/// A client can make a check fail: it writes to the region with the output during the call. Such
/// failures evict once in this time, so that no client keeps the tables of others cold.
const REGION_EVICTION_PAUSE: Duration = Duration::from_secs(60);

/// The last such eviction of this process.
static LAST_REGION_EVICTION: Mutex<Option<Instant>> = Mutex::new(None);

/// A run whose outputs are compared with those of a second run, on the oracle.
pub struct FullyCheckedRun {
    call: Arc<RunCall>,
    run: Box<dyn RunInProgress>,
    on_oracle: Box<dyn RunInProgress>,
    plan: ProgramPlan,
    /// The report of the first run, while the oracle runs.
    unchecked: Option<RunReport>,
    /// For a wrong result of the first run.
    evictor: Evictor,
}

impl FullyCheckedRun {
    /// `call` must have no probabilistic check.
    pub fn new(executor: &dyn Executor, oracle: Arc<dyn MsmNttEngine>, call: Arc<RunCall>) -> Self {
        let run = executor.prepare(call.clone());
        let evictor = executor.evictor();
        let on_oracle = HostExecutor { engine: oracle, oracle: None }.prepare(call.clone());
        let (first, second) = (run.plan(), on_oracle.plan());
        let larger = if second.memory_bytes > first.memory_bytes { second } else { first };
        let plan = ProgramPlan {
            // The oracle runs when the memory of the first run is free again.
            memory_bytes: larger.memory_bytes,
            value_bytes: first.value_bytes.max(second.value_bytes),
            largest: larger.largest,
            modelled: first.modelled,
            // The oracle gains nothing from batches.
            msm_vectors: None,
            // The oracle reads all inputs again.
            writes: OutputWrites::AnyTime,
        };
        let mut checked = Self { call, run, on_oracle, plan, unchecked: None, evictor };
        checked.add_times();
        checked
    }

    /// Adds the modelled times, which change if a run moves to the host.
    fn add_times(&mut self) {
        let on_oracle = self.on_oracle.plan().modelled.total;
        self.plan.modelled = self.run.plan().modelled;
        self.plan.modelled.total = self.plan.modelled.total.saturating_add(on_oracle);
    }

    /// Runs a step on the oracle. Returns its report after the last one.
    ///
    /// Errors: `Corrupt` if an output differs; those of the run.
    fn step_on_oracle(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let sinks = operands.sinks.iter().map(|sink| Some(ComparingSink(sink.as_ref()?.sink)));
        let sinks: Vec<_> = sinks.collect();
        let of_oracle = operands.sinks.iter().zip(&sinks).map(|(sink, comparing)| {
            let encoding = sink.as_ref()?.encoding;
            let sink = comparing.as_ref()?;
            Some(ElementSink { encoding, sink })
        });
        let of_oracle: Vec<_> = of_oracle.collect();
        self.on_oracle
            .step(&RunOperands { sinks: &of_oracle, early_sums: &[], ..*operands }, control)
    }

    /// The report of a run that the oracle agrees with.
    fn checked(&self, mut report: RunReport, of_oracle: &RunReport) -> Result<RunReport> {
        if report.points != of_oracle.points {
            return Err(Error::Corrupt);
        }
        for id in self.call.ids_to_run() {
            let step = &mut report.steps[id.index()];
            step.verified = Verification::Full;
            step.verify_time = of_oracle.steps[id.index()].duration;
        }
        Ok(report)
    }
}

impl RunInProgress for FullyCheckedRun {
    fn plan(&self) -> &ProgramPlan {
        &self.plan
    }

    fn limit_time_on_host(&mut self, max: Duration) {
        let on_oracle = self.on_oracle.plan().modelled.total;
        self.run.limit_time_on_host(max.saturating_sub(on_oracle));
    }

    fn begin(&mut self, bases: &[Bases]) -> Result<()> {
        self.run.begin(bases)
    }

    fn awaited(&self) -> Option<AwaitedElements> {
        match self.unchecked {
            None => self.run.awaited(),
            Some(_) => self.on_oracle.awaited(),
        }
    }

    fn step(
        &mut self,
        operands: &RunOperands<'_>,
        control: &JobControl,
    ) -> Result<Option<RunReport>> {
        let Some(report) = self.unchecked.take() else {
            self.unchecked = self.run.step(operands, control)?;
            self.add_times();
            if self.unchecked.is_some() {
                self.on_oracle.begin(operands.bases)?;
            }
            return Ok(None);
        };
        let checked = match self.step_on_oracle(operands, control) {
            Ok(None) => {
                self.unchecked = Some(report);
                Ok(None)
            }
            Ok(Some(of_oracle)) => self.checked(report, &of_oracle).map(Some),
            Err(error) => Err(error),
        };
        if matches!(checked, Err(Error::Corrupt)) && may_evict(operands) {
            (self.evictor)(operands);
        }
        checked
    }
}

/// Whether a wrong output may evict what it was computed from.
fn may_evict(operands: &RunOperands<'_>) -> bool {
    // Inputs of checked calls are copied from regions first.
    if operands.sinks.iter().flatten().all(|sink| !sink.sink.is_in_region()) {
        return true;
    }
    let mut last = LAST_REGION_EVICTION.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= REGION_EVICTION_PAUSE);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

/// Compares what is written to it with what the first run has written.
struct ComparingSink<'a>(&'a dyn ByteSink);

impl ByteSource for ComparingSink<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.0.read(start, out);
    }

    fn is_intact(&self) -> bool {
        self.0.is_intact()
    }
}

impl ByteSink for ComparingSink<'_> {
    /// Errors: `Corrupt` if the bytes differ.
    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let mut first = Zeroizing::new(vec![0; bytes.len().min(COMPARED_BYTES)]);
        let mut at = start;
        for again in bytes.chunks(COMPARED_BYTES) {
            let first = &mut first[..again.len()];
            self.0.read(at, first);
            if first != again {
                return Err(Error::Corrupt);
            }
            at += again.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{
        curve::{Group, scalars::ScalarEncoding},
        exec::ModelledTime,
        ops::{SINGLE_STEP, single_msm},
        program::{InputSpec, OutputKind, OutputSpec, ValueId},
    };

    /// Writes a one.
    struct OracleRun(ProgramPlan);

    impl RunInProgress for OracleRun {
        fn plan(&self) -> &ProgramPlan {
            &self.0
        }

        fn awaited(&self) -> Option<AwaitedElements> {
            None
        }

        fn step(
            &mut self,
            operands: &RunOperands<'_>,
            _control: &JobControl,
        ) -> Result<Option<RunReport>> {
            operands.sinks.iter().flatten().try_for_each(|sink| sink.sink.write(0, &[1]))?;
            Ok(Some(RunReport::default()))
        }
    }

    /// Zeros, which the first run has written or a client.
    struct ZeroSink {
        is_in_region: bool,
    }

    impl ByteSource for ZeroSink {
        fn read(&self, _start: u64, out: &mut [u8]) {
            out.fill(0);
        }

        fn is_intact(&self) -> bool {
            true
        }
    }

    impl ByteSink for ZeroSink {
        fn write(&self, _start: u64, _bytes: &[u8]) -> Result<()> {
            Ok(())
        }

        fn is_in_region(&self) -> bool {
            self.is_in_region
        }
    }

    #[test]
    fn wrong_outputs_evict_tables_but_those_that_a_client_may_have_written_do_so_rarely() {
        let encoding = ScalarEncoding::Montgomery;
        let kind = OutputKind::Points;
        let program = Arc::new(single_msm(Group::G1, 1, 1).unwrap());
        let output = OutputSpec { value: SINGLE_STEP, kind };
        let given = [InputSpec::new(encoding, 1)];
        let call = Arc::new(RunCall::new(program, &given, &[output], false).unwrap());
        let plan = ProgramPlan {
            memory_bytes: 0,
            value_bytes: 0,
            largest: ValueId(0),
            modelled: ModelledTime { total: Duration::ZERO, longest: ValueId(0) },
            msm_vectors: None,
            writes: OutputWrites::AnyTime,
        };
        for (is_in_region, expected) in [(false, 1), (true, 1), (true, 0), (false, 1)] {
            let evictions = Arc::new(AtomicUsize::new(0));
            let counter = evictions.clone();
            let count = move |_: &RunOperands<'_>| {
                counter.fetch_add(1, Ordering::Relaxed);
            };
            let run = || Box::new(OracleRun(plan.clone()));
            let mut checked = FullyCheckedRun {
                call: call.clone(),
                run: run(),
                on_oracle: run(),
                plan: plan.clone(),
                unchecked: Some(RunReport::default()),
                evictor: Box::new(count),
            };
            let sink = ZeroSink { is_in_region };
            let sinks = [Some(ElementSink { encoding, sink: &sink })];
            let operands = RunOperands { sinks: &sinks, ..Default::default() };
            let result = checked.step(&operands, &JobControl::default());
            assert_eq!(result.err(), Some(Error::Corrupt));
            assert_eq!(evictions.load(Ordering::Relaxed), expected, "in a region: {is_in_region}");
        }
    }
}
