//! The sums of proofs that arrive before the last ones.

use std::mem;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{blinding::AssignmentSums, program::ProofProgram};
use crate::{
    curve::{G1Projective, G2Projective},
    runner::NewRun,
};

/// The sums over the assignments only: one of each for every proof.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub struct EarlySums {
    a: Vec<G1Projective>,
    b_g1: Vec<G1Projective>,
    b_g2: Vec<G2Projective>,
}

impl EarlySums {
    /// The sums of each proof.
    pub fn of_proofs(&self) -> Vec<AssignmentSums> {
        let sums = self.a.iter().zip(&self.b_g1).zip(&self.b_g2);
        sums.map(|((&a, &b_g1), &b_g2)| AssignmentSums { a, b_g1, b_g2 }).collect()
    }
}

/// Collects the sums as they arrive, and sends them when it has all.
pub struct EarlySumsSender(Mutex<CollectedSums>);

struct CollectedSums {
    sums: EarlySums,
    /// `None` once they are sent.
    sender: Option<oneshot::Sender<EarlySums>>,
}

impl EarlySumsSender {
    pub fn new() -> (Self, oneshot::Receiver<EarlySums>) {
        let (sender, receiver) = oneshot::channel();
        let collected = CollectedSums { sums: EarlySums::default(), sender: Some(sender) };
        (Self(Mutex::new(collected)), receiver)
    }

    /// Makes a run return these sums, and send them to the receiver as soon as they are known.
    pub fn listen<'a, I>(&'a self, run: NewRun<'a, I>, program: &ProofProgram) -> NewRun<'a, I> {
        run.send_points_early(program.a, |a| self.collect(|sums| sums.a = a))
            .send_points_early(program.b_g1, |b_g1| self.collect(|sums| sums.b_g1 = b_g1))
            .send_points_early(program.b_g2, |b_g2| self.collect(|sums| sums.b_g2 = b_g2))
    }

    fn collect(&self, add: impl FnOnce(&mut EarlySums)) {
        let CollectedSums { sums, sender } = &mut *self.0.lock();
        add(sums);
        let has_all = ![sums.a.len(), sums.b_g1.len(), sums.b_g2.len()].contains(&0);
        if has_all && let Some(sender) = sender.take() {
            // A proof that was given up needs none.
            let _given_up = sender.send(mem::take(sums));
        }
    }
}
