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
        let daemon = FaultyDaemon::start(&["--cuda-devices", "0"])?;
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
        self.daemon.wait_for_logged(&["their bases are evicted"], 1);
    }

    /// The object was uploaded again, and gets tables again.
    fn assert_recovered(self) {
        self.assert_right(Verification::Probabilistic);
        let device = self.assert_right(Verification::None);
        assert!(device.ends_with(" tables") && !device.ends_with("no tables"), "{device}");
        self.daemon.wait_for_logged(&["their bases are evicted"], 1);
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
    // The multiple becomes infinity, a point of the curve.
    let Some(damaged) = DamagedTables::new(&format!("clear0+{}x96", N * 96)) else { return };
    let wrong = damaged.sum(Verification::None).unwrap();
    assert_ne!(wrong.points, [damaged.expected.sum], "the tables are not used");
    damaged.assert_refused(Verification::Probabilistic);
    damaged.assert_recovered();
}
