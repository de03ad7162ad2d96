//! Points that a job sends while it goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::ComputeHost;
use crate::curve::points::{self, MsmSums, SumEncoding};

/// Where a job sends the points of some outputs as soon as they are known, those of each output
/// once. They are valid only if the job succeeds.
pub struct EarlyPoints {
    outputs: Vec<EarlyOutput>,
    sender: UnboundedSender<PointsOfOutput>,
}

struct EarlyOutput {
    number: usize,
    is_sent: AtomicBool,
}

/// The points of an output.
pub struct PointsOfOutput {
    /// The number of the output.
    pub output: u32,
    pub points: Vec<u8>,
}

type Listener<'a> = Box<dyn Fn(&MsmSums) + Sync + 'a>;

impl EarlyPoints {
    /// `outputs` are the numbers of the outputs.
    pub fn new(outputs: Vec<usize>, sender: UnboundedSender<PointsOfOutput>) -> Self {
        let output = |number| EarlyOutput { number, is_sent: AtomicBool::new(false) };
        Self { outputs: outputs.into_iter().map(output).collect(), sender }
    }

    /// What is given the sums of an output as soon as they are known; `None` if they are not sent
    /// early.
    pub(super) fn listener<'a>(
        &'a self,
        host: &'a ComputeHost,
        number: usize,
        encoding: SumEncoding,
    ) -> Option<Listener<'a>> {
        let EarlyOutput { is_sent, .. } = self.outputs.iter().find(|each| each.number == number)?;
        Some(Box::new(move |sums| {
            if is_sent.swap(true, Ordering::Relaxed) {
                return;
            }
            let points = encode(host, encoding, sums);
            // A caller that has gone needs none.
            let _gone = self.sender.send(PointsOfOutput { output: number as u32, points });
        }))
    }
}

pub(super) fn encode(host: &ComputeHost, encoding: SumEncoding, sums: &MsmSums) -> Vec<u8> {
    host.run_sized(sums.len() << 10, || points::encode_sums(encoding, sums))
}
