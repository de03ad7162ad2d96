//! Requests of jobs that are refused one after the other: leases, or driver calls.

use std::cell::Cell;

use capstan::{device::DeviceFault, error::Result};

use crate::{
    known_msms::is_exhausted,
    rig::{DeviceRig, control},
};

/// How many requests were refused, and how many jobs failed because of it.
#[derive(Debug)]
pub struct Refusals {
    pub refused: usize,
    /// The jobs that failed.
    pub failed: usize,
}

/// Refuses the first, the second, ... request of one kind.
pub struct Refusal<'a> {
    rig: &'a DeviceRig,
    /// `<driver call>:K:<code>`; `None` for leases.
    call: Option<&'a str>,
    /// The number of the call to refuse.
    nth: Cell<u64>,
}

impl<'a> Refusal<'a> {
    pub fn of_leases(rig: &'a DeviceRig) -> Self {
        Self { rig, call: None, nth: Cell::default() }
    }

    /// On the emulated driver only. `call` has the form `<driver call>:K:<code>`.
    pub fn of_calls(rig: &'a DeviceRig, call: &'a str) -> Self {
        Self { rig, call: Some(call), nth: Cell::default() }
    }

    /// Refuses request number `nth` from now on.
    pub fn arm(&self, nth: u64) {
        self.rig.faults.lock().unwrap().clear();
        match self.call {
            None => self.rig.lease_refusal.arm(nth),
            Some(call) => {
                self.nth.set(nth);
                control::fault(&call.replace(":K:", &format!(":{nth}:")));
            }
        }
    }

    /// Whether the request was refused. Refuses none from now on.
    pub fn disarm(&self) -> bool {
        let is_met = self.is_met();
        let faults = std::mem::take(&mut *self.rig.faults.lock().unwrap());
        // No failed call is ignored.
        assert_eq!(is_met, !faults.is_empty(), "number {}", self.nth.get());
        let is_full = |fault: &DeviceFault| matches!(fault, DeviceFault::OutOfMemory { .. });
        assert!(self.call.is_some() || faults.iter().all(is_full), "{faults:?}");
        match self.call {
            None => self.rig.lease_refusal.arm(0),
            Some(_) => control::fault(""),
        }
        is_met
    }

    /// Whether the request was refused.
    pub fn is_met(&self) -> bool {
        match self.call {
            None => self.rig.lease_refusal.is_done(),
            Some(_) => control::calls() >= self.nth.get(),
        }
    }

    /// Runs new jobs with each of these requests refused, until they make fewer requests, and each
    /// again with nothing refused. The result of a job that succeeds is `right`; the others fail
    /// for lack of memory.
    pub fn refuse_each<R>(
        &self,
        requests: impl Iterator<Item = u64>,
        job: impl Fn() -> R,
        right: &[u8],
    ) -> Refusals
    where
        R: Fn() -> Result<Vec<u8>>,
    {
        let mut failed = 0;
        let attempt = |&nth: &u64| {
            let job = job();
            self.arm(nth);
            let done = job();
            let is_met = self.disarm();
            match done {
                Ok(made) => assert!(made == right, "number {nth}: a wrong result"),
                Err(error) => {
                    assert!(is_met && is_exhausted(&error), "number {nth}: {error:?}");
                    failed += 1;
                }
            }
            assert!(job().unwrap() == right, "after number {nth}: a wrong result");
            is_met
        };
        let refused = requests.take_while(attempt).count();
        Refusals { refused, failed }
    }
}
