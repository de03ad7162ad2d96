//! Whether the clock can be trusted: it decides when tokens and certificates are valid.
#![allow(unsafe_code)] // one system call for which rustix has no function

use std::{
    mem,
    time::{Duration, SystemTime},
};

use super::finding::DoctorFinding;

const CHECK: &str = "clock";
/// 2026-01-01: this version is younger.
const PLAUSIBLE: Duration = Duration::from_secs(1_767_225_600);
/// Tokens and certificates are issued for minutes at least.
const ERROR_MAX: Duration = Duration::from_secs(1);

const SYNCHRONIZE: &str = "run a time service, for example `timedatectl set-ntp true` or chrony: \
                           JSON Web Tokens and certificates are refused if the clock is wrong";

struct ClockFacts {
    now: Duration,
    /// `None` if the kernel does not say.
    synchronization: Option<Synchronization>,
}

struct Synchronization {
    is_synchronized: bool,
    error_max: Duration,
}

pub fn check() -> DoctorFinding {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    finding(&ClockFacts { now, synchronization: synchronization() })
}

/// The state of the kernel's clock; `None` if a container does not let this process ask.
fn synchronization() -> Option<Synchronization> {
    // SAFETY: the structure holds integers only; without modes, the call just fills it.
    let (state, clock) = unsafe {
        let mut clock: libc::timex = mem::zeroed();
        (libc::adjtimex(&mut clock), clock)
    };
    (state >= 0).then(|| Synchronization {
        is_synchronized: state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0,
        error_max: Duration::from_micros(u64::try_from(clock.maxerror).unwrap_or_default()),
    })
}

fn finding(facts: &ClockFacts) -> DoctorFinding {
    if facts.now < PLAUSIBLE {
        let found = format!("it shows {} seconds since 1970", facts.now.as_secs());
        return DoctorFinding::problem(CHECK, found, SYNCHRONIZE);
    }
    match &facts.synchronization {
        None => DoctorFinding::warning(
            CHECK,
            "the kernel does not say whether it is synchronized",
            "check the clock of the container's host",
        ),
        Some(Synchronization { is_synchronized: false, .. }) => {
            DoctorFinding::warning(CHECK, "it is not synchronized", SYNCHRONIZE)
        }
        Some(Synchronization { error_max, .. }) if *error_max > ERROR_MAX => {
            let found = format!("it may be wrong by {} ms", error_max.as_millis());
            DoctorFinding::warning(CHECK, found, SYNCHRONIZE)
        }
        Some(Synchronization { error_max, .. }) => {
            let error_ms = error_max.as_micros().div_ceil(1000);
            DoctorFinding::ok(CHECK, format!("synchronized, wrong by {error_ms} ms at most"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn severity(now: Duration, synchronization: Option<Synchronization>) -> Severity {
        finding(&ClockFacts { now, synchronization }).severity
    }

    #[test]
    fn a_clock_is_trusted_if_it_is_synchronized_and_plausible() {
        let state = |is_synchronized, error_ms| {
            Some(Synchronization { is_synchronized, error_max: Duration::from_millis(error_ms) })
        };
        assert_eq!(severity(PLAUSIBLE, state(true, 1000)), Severity::Ok);
        assert_eq!(severity(PLAUSIBLE, state(true, 1001)), Severity::Warning);
        assert_eq!(severity(PLAUSIBLE, state(false, 0)), Severity::Warning);
        assert_eq!(severity(PLAUSIBLE, None), Severity::Warning);
        assert_eq!(severity(Duration::ZERO, state(true, 0)), Severity::Problem);
    }

    #[test]
    fn the_kernel_is_asked() {
        if let Some(clock) = synchronization() {
            assert!(clock.error_max < Duration::from_secs(1 << 20));
        }
    }
}
