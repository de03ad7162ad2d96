//! An engine that misbehaves on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use ark_ec::PrimeGroup;
use capstan::{
    buffer::{ByteSink, ByteSource},
    curve::{
        G1Projective, G2Projective, Group,
        points::{Bases, MsmSums},
    },
    engine::{
        ComputedMsm, DeviceInfo, EncodedScalars, EngineModel, EngineWork, ExecutedBy, JobControl,
        MsmNttEngine, MsmRun, NttPlan, NttRows,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::Result,
    exec::HostExecutor,
    field::{Arithmetic, Element31, Field31},
    server::Engines,
};

/// How the engine behaves from its next piece of work on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EngineMode {
    Honest,
    /// Every result is slightly wrong.
    WrongResults,
    /// Every piece panics.
    Panics,
    /// Every piece blocks until its control stops it or the mode changes.
    Hangs,
    /// The next piece succeeds; every piece after it hangs.
    HangsNext,
}

/// Sets the mode of an engine.
#[derive(Clone, Default)]
pub struct FaultDial(Arc<AtomicU8>);

impl FaultDial {
    pub fn set(&self, mode: EngineMode) {
        self.0.store(mode as u8, Ordering::SeqCst);
    }

    fn is(&self, mode: EngineMode) -> bool {
        self.0.load(Ordering::SeqCst) == mode as u8
    }

    fn work(&self, control: &JobControl) -> Result<()> {
        if self.is(EngineMode::HangsNext) {
            self.set(EngineMode::Hangs);
            return Ok(());
        }
        assert!(!self.is(EngineMode::Panics), "the engine was told to panic");
        while self.is(EngineMode::Hangs) {
            control.check()?;
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// The CPU engine, with faults that [`FaultDial`] selects.
pub struct FaultyEngine {
    honest: CpuEngine,
    dial: FaultDial,
}

impl FaultyEngine {
    pub fn new(dial: FaultDial) -> Self {
        Self { honest: CpuEngine::new(2).expect("threads"), dial }
    }
}

/// Engines for a server, and the dial that controls them.
#[allow(dead_code)] // some tests run programs without a server
pub fn faulty_engines() -> (Engines, FaultDial) {
    let dial = FaultDial::default();
    let oracle = ArkworksEngine::new(1).expect("threads");
    (Engines::on_host(FaultyEngine::new(dial.clone()), oracle, "a test"), dial)
}

/// An executor on a faulty engine, and the dial that controls it.
#[allow(dead_code)] // some tests run a server
pub fn faulty_executor() -> (HostExecutor, FaultDial) {
    let dial = FaultDial::default();
    let oracle = Arc::new(ArkworksEngine::new(1).expect("threads"));
    let engine = Arc::new(FaultyEngine::new(dial.clone()));
    (HostExecutor { engine, oracle: Some(oracle) }, dial)
}

impl EngineModel for FaultyEngine {
    fn description(&self) -> DeviceInfo {
        self.honest.description()
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        self.honest.msm_piece_len(group, n)
    }

    /// One row per group, so that a transform can stop after every row.
    fn ntt_group_rows(&self, _: u32) -> usize {
        1
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.honest.msm_scratch_bytes(group, n)
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        self.honest.modelled_time(work)
    }
}

impl MsmNttEngine for FaultyEngine {
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let run = self.honest.msm(bases, batch)?;
        Ok(Box::new(FaultyRun { run, dial: self.dial.clone() }))
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        self.dial.work(control)?;
        let output = &FlipFirstBit(rows.output);
        let lies = self.dial.is(EngineMode::WrongResults);
        self.honest.ntt(plan, &if lies { NttRows { output, ..*rows } } else { *rows }, control)
    }

    fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.dial.work(control)?;
        let done = self.honest.ntt31(field, plan, rows, control)?;
        if self.dial.is(EngineMode::WrongResults) {
            rows[0][0] = field.add(rows[0][0], field.one());
        }
        Ok(done)
    }
}

/// Forwards everything, with the first bit flipped.
struct FlipFirstBit<'a>(&'a dyn ByteSink);

impl ByteSource for FlipFirstBit<'_> {
    fn read(&self, at: u64, out: &mut [u8]) {
        self.0.read(at, out);
    }

    fn is_intact(&self) -> bool {
        self.0.is_intact()
    }
}

impl ByteSink for FlipFirstBit<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut bytes = zeroize::Zeroizing::new(bytes.to_vec());
        if at == 0 {
            bytes[0] ^= 1;
        }
        self.0.write(at, &bytes)
    }
}

struct FaultyRun {
    run: Box<dyn MsmRun>,
    dial: FaultDial,
}

impl MsmRun for FaultyRun {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        self.dial.work(control)?;
        self.run.absorb(vector, first, scalars, control)
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        let mut computed = self.run.finish()?;
        if self.dial.is(EngineMode::WrongResults) {
            match &mut computed.sums {
                MsmSums::G1(sums) => sums[0] += G1Projective::generator(),
                MsmSums::G2(sums) => sums[0] += G2Projective::generator(),
            }
        }
        Ok(computed)
    }
}
