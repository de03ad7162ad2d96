//! Whether the kernel lets the workers of GPUs give up their rights.

use std::fs;

use crate::{
    cli::doctor::finding::DoctorFinding,
    config::{Config, EngineChoice, GpuIsolation},
};

const ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// `None` if the configuration has no workers.
pub fn check(config: &Config) -> Option<DoctorFinding> {
    let has_workers =
        config.engine != EngineChoice::Cpu && config.cuda.isolation == GpuIsolation::Process;
    has_workers.then(|| finding(fs::read_to_string(ACTIONS).ok().as_deref()))
}

/// `actions`: what filters of system calls can do, or `None` if the kernel has no filters.
fn finding(actions: Option<&str>) -> DoctorFinding {
    const CHECK: &str = "sandbox";
    if actions.is_some_and(|actions| actions.split_whitespace().any(|action| action == "errno")) {
        return DoctorFinding::ok(
            CHECK,
            "the kernel has filters of system calls (seccomp) for workers",
        );
    }
    DoctorFinding::problem(
        CHECK,
        "the kernel has no filters of system calls (seccomp), so workers of GPUs run without",
        "use a kernel with CONFIG_SECCOMP_FILTER",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Severity;

    #[test]
    fn workers_need_filters_that_return_errors() {
        assert_eq!(finding(Some("kill_process trap errno allow\n")).severity, Severity::Ok);
        assert_eq!(finding(Some("kill_process allow\n")).severity, Severity::Problem);
        assert_eq!(finding(None).severity, Severity::Problem);
    }
}
