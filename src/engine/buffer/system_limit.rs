//! What the system refuses this process: memory and open files.

use std::io;

use rustix::io::Errno;

use super::quota::RETRY_AFTER;
use crate::error::{Error, Limit};

const LIMITS: [Errno; 4] = [Errno::NOMEM, Errno::NOSPC, Errno::MFILE, Errno::NFILE];

/// The refusal of a call for which the system has too little memory or too few descriptors; any
/// other failure to get memory is `Internal`, and `what` says in the log what failed.
pub fn no_memory(what: &str, error: &io::Error) -> Error {
    match Errno::from_io_error(error) {
        Some(errno) if LIMITS.contains(&errno) => {
            Error::Exhausted { limit: Limit::Process, retry_after: Some(RETRY_AFTER) }
        }
        _ => Error::Internal(format!("{what}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_process_are_told_from_other_failures() {
        for limit in LIMITS {
            let refused = no_memory("bases", &limit.into());
            assert!(matches!(refused, Error::Exhausted { limit: Limit::Process, .. }), "{refused}");
        }
        let failed = no_memory("bases", &Errno::PERM.into());
        assert!(matches!(failed, Error::Internal(_)), "{failed}");
    }
}
