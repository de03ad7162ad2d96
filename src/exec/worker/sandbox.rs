//! What a worker gives up once its GPU is open: it needs no network, starts no programs, and looks
//! into no other process.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

/// System calls that fail with EPERM from now on.
const DENIED: [libc::c_long; 15] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
];

/// Denies them for all threads of this process, and what they start, for good. New privileges are
/// denied, too.
///
/// Errors: the system has no seccomp, or does not let this process use it.
pub fn enter() -> Result<(), seccompiler::Error> {
    let rules = DENIED.iter().map(|call| (*call as i64, Vec::new())).collect::<BTreeMap<_, _>>();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter_all_threads(&program)
}
