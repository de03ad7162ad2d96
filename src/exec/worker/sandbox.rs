//! What a worker gives up once its GPU is open: it needs no network, starts no programs, and does
//! not inspect other processes.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads, sock_filter,
};

/// Numbers from here on belong to the x32 interface, which offers most calls a second time.
const X32_CALLS: u32 = 0x4000_0000;

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
    apply_filter_all_threads(&filter()?)
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let rules = DENIED.iter().map(|call| (*call, Vec::new())).collect::<BTreeMap<_, _>>();
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    let mut program = BpfProgram::from(deny_x32());
    program.append(&mut BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Denies all calls of the x32 interface; others go on to the next instruction.
fn deny_x32() -> [sock_filter; 3] {
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_at_least = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let instruction = |code: u32, jf, k| sock_filter { code: code as u16, jt: 0, jf, k };
    [
        instruction(load_number, 0, 0),
        instruction(is_at_least, 1, X32_CALLS),
        instruction(libc::BPF_RET | libc::BPF_K, 0, deny),
    ]
}

#[cfg(test)]
mod tests {
    use std::{io, net::UdpSocket, process::Command, thread};

    use seccompiler::apply_filter;

    use super::*;

    #[test]
    fn threads_behind_the_filter_have_no_network_and_start_no_programs() {
        let is_denied = |error: io::Error| error.raw_os_error() == Some(libc::EPERM);
        thread::spawn(move || {
            apply_filter(&filter().unwrap()).unwrap();
            assert!(is_denied(UdpSocket::bind("127.0.0.1:0").unwrap_err()));
            assert!(is_denied(Command::new("true").status().unwrap_err()));
            assert!(std::fs::read("/proc/self/stat").is_ok());
        })
        .join()
        .unwrap();
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }

    #[test]
    fn calls_of_the_x32_interface_are_denied() {
        let [load, compare, deny] = deny_x32();
        assert_eq!((load.code, load.k), (0x20, 0), "loads the call's number");
        // Jumps over the denial if the number is below.
        assert_eq!((compare.code, compare.jt, compare.jf), (0x35, 0, 1));
        assert_eq!(compare.k, 0x4000_0000);
        assert_eq!((deny.code, deny.k), (0x06, 0x0005_0001));
    }
}
