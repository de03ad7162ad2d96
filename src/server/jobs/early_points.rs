//! Points that a job sends while it goes on.

use tokio::sync::mpsc::UnboundedSender;

use super::ComputeHost;
use crate::{
    curve::points::{self, MsmSums, SumEncoding},
    error::{EngineError as Error, EngineResult as Result},
    sync::Mutex,
};

/// Where a job sends the points of some outputs as soon as they are known, those of each output
/// once. They are valid only if the job succeeds.
pub struct EarlyPoints {
    outputs: Vec<EarlyOutput>,
    sender: UnboundedSender<PointsOfOutput>,
}

struct EarlyOutput {
    number: usize,
    sent: Mutex<Option<MsmSums>>,
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
        let output = |number| EarlyOutput { number, sent: Mutex::default() };
        Self { outputs: outputs.into_iter().map(output).collect(), sender }
    }

    /// Compares what was sent with the sums of all outputs.
    ///
    /// Errors: `Corrupt` if they differ.
    pub(super) fn check(&self, sums: &[Option<MsmSums>]) -> Result<()> {
        let is_right = |output: &EarlyOutput| {
            output
                .sent
                .lock()
                .as_ref()
                .is_none_or(|sent| sums[output.number].as_ref() == Some(sent))
        };
        if self.outputs.iter().all(is_right) { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// The listener of an output; `None` if its points are not sent early.
    pub(super) fn listener<'a>(
        &'a self,
        host: &'a ComputeHost,
        number: usize,
        encoding: SumEncoding,
    ) -> Option<Listener<'a>> {
        let EarlyOutput { sent, .. } = self.outputs.iter().find(|each| each.number == number)?;
        Some(Box::new(move |sums| {
            let mut sent = sent.lock();
            if sent.is_some() {
                return;
            }
            *sent = Some(sums.clone());
            let points = encode(host, encoding, sums);
            // A caller that has gone needs none.
            let _gone = self.sender.send(PointsOfOutput { output: number as u32, points });
        }))
    }
}

pub(super) fn encode(host: &ComputeHost, encoding: SumEncoding, sums: &MsmSums) -> Vec<u8> {
    host.run_sized(sums.len() << 10, || points::encode_sums(encoding, sums))
}

#[cfg(test)]
mod tests {
    use ark_ec::PrimeGroup;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::curve::G1Projective;

    #[test]
    fn sums_that_differ_from_those_sent_early_are_refused() {
        let (sender, _receiver) = unbounded_channel();
        let early = EarlyPoints::new(vec![1], sender);
        let sums = |factor: u64| {
            let point = G1Projective::generator();
            Some(MsmSums::G1(vec![(0..factor).map(|_| point).sum()]))
        };
        assert_eq!(early.check(&[None, sums(1)]), Ok(()), "nothing was sent");
        *early.outputs[0].sent.lock() = sums(2);
        assert_eq!(early.check(&[None, sums(2)]), Ok(()));
        assert_eq!(early.check(&[sums(2), sums(1)]), Err(Error::Corrupt));
    }
}
