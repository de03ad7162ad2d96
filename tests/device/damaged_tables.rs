//! Tables of multiples that are damaged in a GPU's memory.

use capstan::{
    client::{
        BasesHandle, ClientError, MsmOptions, MsmResult, Verification, blocking::BlockingClient,
    },
    curve::G1Affine,
};

use crate::{
    daemon::stop,
    faulty_daemon::FaultyDaemon,
    workers::{Expected, N},
};

/// An MSM of bases whose tables are damaged when they are made, at the second use.
struct DamagedTables {
    daemon: FaultyDaemon,
    client: BlockingClient,
    bases: BasesHandle<G1Affine>,
    expected: Expected,
}

impl DamagedTables {
    /// `damage` is a fault of the kernel that makes the tables. The first multiple of the first
    /// point is behind the bases.
    fn new(damage: &str) -> Option<Self> {
        Self::with_isolation("process", damage)
    }

    /// Like [`Self::new`]. `isolation` says whether the GPU has a worker.
    fn with_isolation(isolation: &str, damage: &str) -> Option<Self> {
        let flags = ["--cuda-devices", "0", "--gpu-isolation", isolation];
        let daemon = FaultyDaemon::start(&flags)?;
        let (client, expected) = (daemon.client(), Expected::new());
        let bases = client.put_bases(&expected.points).unwrap();
        let damaged = Self { daemon, client, bases, expected };
        damaged.assert_right(Verification::None);
        damaged.daemon.plan(&format!("g1_tables:1:{damage}"));
        Some(damaged)
    }

    fn sum(&self, verify: Verification) -> Result<MsmResult<G1Affine>, ClientError> {
        let options = MsmOptions { verify, ..MsmOptions::default() };
        self.client.msm_with(&self.bases, &self.expected.scalars, options)
    }

    /// Returns how the sum was computed.
    fn assert_right(&self, verify: Verification) -> String {
        let right = self.sum(verify).unwrap();
        assert_eq!(right.points, [self.expected.sum]);
        right.execution.device
    }

    fn assert_refused(&self, verify: Verification) {
        let Err(ClientError::Refused(refusal)) = self.sum(verify) else {
            panic!("a wrong sum was not refused")
        };
        assert_eq!(refusal.reason_text, "VERIFY_FAILED");
        self.daemon.wait_for_logged(&["fault injected into"], 1);
        self.daemon.wait_for_logged(&["are evicted"], 1);
    }

    /// The object was uploaded again, and gets tables again.
    fn assert_recovered(self) {
        self.assert_right(Verification::Probabilistic);
        let device = self.assert_right(Verification::None);
        assert!(device.ends_with(" tables") && !device.ends_with("no tables"), "{device}");
        self.daemon.wait_for_logged(&["are evicted"], 1);
        stop(self.daemon.child);
    }
}

/// The sum of points that are not on the curve is not on it, either.
#[test]
fn tables_that_are_not_on_the_curve_are_found_without_a_check() {
    let Some(damaged) = DamagedTables::new(&format!("flip0+{}", N * 96)) else { return };
    damaged.assert_refused(Verification::None);
    damaged.assert_recovered();
}

/// Sums over wrong multiples are not linear in the scalars, so that the check of an MSM finds them,
/// although the bases themselves are right.
#[test]
fn damaged_tables_of_multiples_are_found_and_replaced() {
    let Some(damaged) = DamagedTables::new(&first_multiple_at_infinity()) else { return };
    let wrong = damaged.sum(Verification::None).unwrap();
    assert_ne!(wrong.points, [damaged.expected.sum], "the tables are not used");
    damaged.assert_refused(Verification::Probabilistic);
    damaged.assert_recovered();
}

#[test]
fn tables_that_a_full_check_finds_damaged_are_replaced() {
    for isolation in ["process", "none"] {
        let damage = first_multiple_at_infinity();
        let Some(damaged) = DamagedTables::with_isolation(isolation, &damage) else { return };
        damaged.assert_refused(Verification::Full);
        damaged.assert_recovered();
    }
}

/// A fault that leaves a point of the curve in the tables.
fn first_multiple_at_infinity() -> String {
    format!("clear0+{}x96", N * 96)
}
