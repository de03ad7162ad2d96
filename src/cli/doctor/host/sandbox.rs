//! Whether the kernel lets the workers of GPUs give up their rights.

use std::fs;

use crate::{
    config::{Config, EngineChoice, GpuIsolation},
    doctor::finding::DoctorFinding,
    server::has_landlock,
};

const CHECK: &str = "sandbox";
const ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// `None` if the configuration has no workers, or allows them everything.
pub fn check(config: &Config) -> Option<DoctorFinding> {
    if config.engine == EngineChoice::Cpu {
        return None;
    }
    match config.cuda.isolation {
        GpuIsolation::Process => {
            Some(finding(fs::read_to_string(ACTIONS).ok().as_deref(), has_landlock()))
        }
        GpuIsolation::Unrestricted | GpuIsolation::None => None,
    }
}

/// `actions`: what filters of system calls can do, or `None` if the kernel has no filters.
fn finding(actions: Option<&str>, has_landlock: bool) -> DoctorFinding {
    let errno = |actions: &str| actions.split_whitespace().any(|action| action == "errno");
    if !actions.is_some_and(errno) {
        return DoctorFinding::problem(
            CHECK,
            "the kernel has no filters of system calls (seccomp), so workers of GPUs run without",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        );
    }
    if !has_landlock {
        return DoctorFinding::warning(
            CHECK,
            "the kernel has no Landlock, or this process may not use it, so workers of GPUs can \
             open all files of the daemon's user",
            "use Linux 5.13 or later with \"landlock\" in the kernel's parameter lsm, and a \
             container that allows it",
        );
    }
    DoctorFinding::ok(CHECK, "the kernel restricts files and system calls of workers of GPUs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn workers_need_filters_that_return_errors() {
        let actions = Some("kill_process trap errno allow\n");
        assert_eq!(finding(actions, true).severity, Severity::Ok);
        assert_eq!(finding(actions, false).severity, Severity::Warning);
        assert_eq!(finding(Some("kill_process allow\n"), true).severity, Severity::Problem);
        assert_eq!(finding(None, true).severity, Severity::Problem);
    }
}
