//! What a worker gives up once its GPU is open: it needs no network, starts no programs, and does
//! not inspect other processes.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

/// System calls that fail with EPERM from now on.
const DENIED: [libc::c_long; 27] = [
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
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
];

/// Denies them for all threads of this process and their future threads, permanently. The process
/// can gain no privileges either.
///
/// Errors: the system has no seccomp, or does not let this process use it.
pub fn enter() -> Result<(), seccompiler::Error> {
    let rules = DENIED.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    let program: BpfProgram = filter.try_into()?;
    apply_filter_all_threads(&program)
}
