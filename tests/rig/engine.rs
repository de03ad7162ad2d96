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
    buffer::Sink,
    curve::{
        G1Projective, G2Projective, Group,
        points::{Bases, Sums},
    },
    engine::{
        Control, Description, Encoded, Engine, Executor, MsmRun, NttPlan, Rows,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::Result,
    server::Engines,
};

/// How the engine behaves from its next piece of work on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
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
pub struct Dial(Arc<AtomicU8>);

impl Dial {
    pub fn set(&self, mode: Mode) {
        self.0.store(mode as u8, Ordering::SeqCst);
    }

    fn is(&self, mode: Mode) -> bool {
        self.0.load(Ordering::SeqCst) == mode as u8
    }

    fn work(&self, control: &Control) -> Result<()> {
        if self.is(Mode::HangsNext) {
            self.set(Mode::Hangs);
            return Ok(());
        }
        assert!(!self.is(Mode::Panics), "the engine was told to panic");
        while self.is(Mode::Hangs) {
            control.check()?;
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// The CPU engine, misbehaving as a dial says.
pub struct Moody {
    honest: CpuEngine,
    dial: Dial,
}

/// Engines for a server, and the dial that controls them.
pub fn moody() -> (Engines, Dial) {
    let dial = Dial::default();
    let engine = Moody { honest: CpuEngine::new(2).expect("threads"), dial: dial.clone() };
    let oracle = Arc::new(ArkworksEngine::new(1).expect("threads"));
    (Engines { engine: Arc::new(engine), oracle, reason: "a test".into() }, dial)
}

impl Engine for Moody {
    fn description(&self) -> Description {
        self.honest.description()
    }

    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let run = self.honest.msm(bases, batch)?;
        Ok(Box::new(MoodyRun { run, dial: self.dial.clone() }))
    }

    fn msm_piece(&self, group: Group, n: usize) -> usize {
        self.honest.msm_piece(group, n)
    }

    fn ntt(&self, plan: &NttPlan, rows: &Rows<'_>, control: &Control) -> Result<Executor> {
        self.dial.work(control)?;
        let output = &Lying(rows.output);
        let lies = self.dial.is(Mode::WrongResults);
        self.honest.ntt(plan, &if lies { Rows { output, ..*rows } } else { *rows }, control)
    }

    /// One row per group, so that a transform can stop after every row.
    fn ntt_group(&self, _: &NttPlan) -> usize {
        1
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.honest.msm_scratch_bytes(group, n)
    }
}

/// Forwards everything, with the first bit flipped.
struct Lying<'a>(&'a dyn Sink);

impl Sink for Lying<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut bytes = zeroize::Zeroizing::new(bytes.to_vec());
        if at == 0 {
            bytes[0] ^= 1;
        }
        self.0.write(at, &bytes)
    }
}

struct MoodyRun {
    run: Box<dyn MsmRun>,
    dial: Dial,
}

impl MsmRun for MoodyRun {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &Encoded<'_>,
        control: &Control,
    ) -> Result<()> {
        self.dial.work(control)?;
        self.run.absorb(vector, first, scalars, control)
    }

    fn finish(self: Box<Self>) -> Result<(Sums, Executor)> {
        let (mut sums, executor) = self.run.finish()?;
        if self.dial.is(Mode::WrongResults) {
            match &mut sums {
                Sums::G1(sums) => sums[0] += G1Projective::generator(),
                Sums::G2(sums) => sums[0] += G2Projective::generator(),
            }
        }
        Ok((sums, executor))
    }
}
