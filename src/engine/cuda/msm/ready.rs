//! What an MSM that is under way has on the device.

use std::sync::Arc;

use super::{passes::Passes, too_many};
use crate::{
    curve::scalars::ScalarEncoding,
    device::{ALIGN, Copies, Event, Fault, Lease, Span, Stream},
    engine::{Stage, add_stages, cuda::resident::Resident},
    error::Result,
    msm::{Marks, Placed, Plan},
};

/// Its plan, its memory, and what is under way.
pub struct Ready {
    pub plan: Plan,
    pub placed: Placed,
    pub passes: Passes,
    /// What no pass needed yet.
    pub sent: Vec<Sent>,
    /// After the decoding of what passes needed.
    pub decoded: Option<Event>,
    /// How many are launched.
    pub launched: u32,
    /// The ends of the last pass that was launched, and of the one before.
    pub done: Option<Event>,
    pub last_but_one: Option<Event>,
    pub marks: Vec<Marks>,
    /// What refused scalars are called, and how far their numbers are from those in the MSM.
    pub name: (&'static str, u64),
    // In the order in which they may go: the stream's zeroing comes after its work.
    /// And, behind them, the word that says which one is refused.
    pub scalars: Lease,
    pub buckets: Lease,
    pub out: Lease,
    pub stream: Stream,
    pub _resident: Arc<Resident>,
    /// Taken when its chunks are wiped.
    pub copies: Option<Copies>,
}

/// Scalars of 32 bytes that lie in their place as they were sent. They become integers where they
/// are computed with: a kernel between two copies would have the second one wait until a kernel of
/// a pass leaves it a multiprocessor, and those keep all to themselves for milliseconds.
pub struct Sent {
    pub at: usize,
    pub count: usize,
    pub encoding: ScalarEncoding,
    pub reduce: bool,
}

impl Ready {
    pub fn place(&self, at: usize, count: usize) -> Result<Span<'_, u8>> {
        let bytes = self.scalars.all::<u8>();
        let scalars = bytes.part(0, bytes.len() - ALIGN as usize);
        scalars.and_then(|scalars| scalars.part(32 * at, 32 * count)).ok_or_else(too_many)
    }

    /// Notes that scalars lie in their place, neighbours of the last ones with them.
    pub fn note(&mut self, sent: Sent) {
        let follows = |last: &&mut Sent| {
            let alike = (last.encoding, last.reduce) == (sent.encoding, sent.reduce);
            alike && last.at + last.count == sent.at
        };
        match self.sent.last_mut().filter(follows) {
            Some(last) => last.count += sent.count,
            None => self.sent.push(sent),
        }
    }

    pub fn first_bad(&self) -> Result<Span<'_, u64>> {
        let words = self.scalars.all::<u64>();
        words.part(words.len() - ALIGN as usize / 8, 1).ok_or_else(too_many)
    }

    /// What the stages of all passes took.
    pub fn stages(&self) -> Result<Vec<Stage>, Fault> {
        let mut all = Vec::new();
        for marks in &self.marks {
            add_stages(&mut all, &marks.stages()?);
        }
        Ok(all)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if self.copies.is_some() {
            // The job has failed or was given up: what it left in pinned memory goes first.
            let _waited = self.stream.synchronize();
        }
    }
}
