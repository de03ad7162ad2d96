//! What a worker gives up, permanently. Before it opens its GPU: TCP, signals to other processes,
//! tracing them, and all files except those that drivers need. Before the self-test of its GPU: all
//! system calls but those that computing needs.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, DirBuilder, File},
    io,
    os::{fd::IntoRawFd as _, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
    process,
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

/// The newest interface of Landlock whose restrictions are used. Older kernels have fewer.
const INTERFACE: ABI = ABI::V6;

/// Files that drivers read, and all that lies below them: libraries, settings, and what the system
/// tells of devices. The last one is the worker's program, for the traces of panics.
const READABLE: [&str; 12] = [
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/opengl-driver",
    "/etc/ld.so.cache",
    "/etc/nvidia",
    "/proc",
    "/sys",
    "/proc/self/exe",
];

/// Devices of drivers, in addition to those whose names begin with "nvidia".
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dri", "/dev/dxg"];

/// Has a folder for each thread of this process.
const THREADS: &str = "/proc/self/task";

/// Whether the system can restrict the files of a process.
pub fn has_landlock() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::ReadFile).and_then(Ruleset::create).is_ok()
}

/// Takes from this thread and its future threads TCP, signals to other processes, tracing them, and
/// all files except those that drivers need. The process can gain no privileges either. Open
/// descriptors stay usable.
///
/// `driver`: the library, if it is not the system's.
///
/// Errors: the system has no Landlock, or does not let this process use it.
pub fn restrict_files(driver: Option<&Path>) -> io::Result<()> {
    if !has_landlock() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the system has no Landlock"));
    }
    let restrict = |cache: Option<PathBuf>| -> Result<(), RulesetError> {
        let all = AccessFs::from_all(INTERFACE);
        let device = AccessFs::from_file(INTERFACE) | AccessFs::ReadDir;
        let name = AccessFs::WriteFile | AccessFs::Truncate;
        Ruleset::default()
            .handle_access(all)?
            .handle_access(AccessNet::from_all(INTERFACE))?
            .scope(Scope::from_all(INTERFACE))?
            .create()?
            .add_rules(path_beneath_rules(readable(driver), AccessFs::from_read(INTERFACE)))?
            .add_rules(path_beneath_rules(devices(), device))?
            // The driver names its threads, and cannot be initialised if that fails.
            .add_rules(path_beneath_rules([THREADS], name))?
            .add_rules(path_beneath_rules(cache, all))?
            .restrict_self()?;
        Ok(())
    };
    // A rule belongs to an inode. The system makes a new one once nobody has this folder open.
    let _open_to_the_end = File::open(THREADS)?.into_raw_fd();
    restrict(make_cache()).map_err(io::Error::other)
}

/// Paths that do not exist are ignored.
fn readable(driver: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let libraries = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let libraries: Vec<_> = env::split_paths(&libraries).collect();
    // Where the library is, and where a link to it is.
    let target = driver.and_then(|driver| fs::canonicalize(driver).ok());
    let folders = driver.map(PathBuf::from).into_iter().chain(target);
    let folders = folders.filter_map(|library| library.parent().map(PathBuf::from));
    let named = libraries.into_iter().chain(folders).filter(|folder| is_part(folder));
    READABLE.into_iter().map(PathBuf::from).chain(named)
}

/// Whether the path means the same in each working directory, and not all files.
fn is_part(folder: &Path) -> bool {
    folder.is_absolute() && folder.parent().is_some()
}

fn devices() -> impl Iterator<Item = PathBuf> {
    let is_nvidia =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"nvidia");
    let all = fs::read_dir("/dev").into_iter().flatten().flatten();
    DEVICES.into_iter().map(PathBuf::from).chain(all.filter(is_nvidia).map(|entry| entry.path()))
}

/// The folder in which the driver keeps kernels that it has compiled. On hosts with GPUs it exists
/// from now on, since the driver can no longer make it.
fn make_cache() -> Option<PathBuf> {
    let named = env::var_os("CUDA_CACHE_PATH").map(PathBuf::from);
    let cache = named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".nv")));
    let cache = cache.filter(|folder| is_part(folder))?;
    let exists = |device: &&str| fs::exists(device).is_ok_and(|exists| exists);
    if ["/dev/nvidiactl", "/dev/dxg"].iter().any(exists) {
        // If it cannot be made, the driver goes without.
        let _missing = DirBuilder::new().recursive(true).mode(0o700).create(&cache);
    }
    Some(cache)
}

/// The system calls of a restricted worker. Threads, memory, open descriptors, files that
/// [`restrict_files`] leaves, and time; nothing that starts, traces or signals a process, or
/// connects.
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    libc::SYS_set_mempolicy,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // Paths.
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statfs,
    libc::SYS_statx,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Time and facts.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
];

/// What newer architectures do not have: older forms of these calls, and registers.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[libc::c_long] = &[];

/// Allowed in addition if Landlock decides which files they may truncate.
const TRUNCATING: &[libc::c_long] = &[libc::SYS_ftruncate, libc::SYS_fallocate];

// Linux's numbers of requests for which libc has no name on each system.
const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const TIOCLINUX: u64 = 0x541c;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;

/// Some bits of the flags with which a file is opened.
struct OpenFlags {
    mask: libc::c_int,
    bits: libc::c_int,
}

/// Leaves this process, with all its threads and future threads, only the calls that are listed
/// here. Others fail with ENOSYS, so that libraries use an older one instead. The process can gain
/// no privileges either.
///
/// `has_few_files`: whether [`restrict_files`] has succeeded. If not, files are opened neither to
/// create, to truncate nor to only write them, and open ones are not truncated.
///
/// Errors: the system has no seccomp, or does not let this process use it.
pub fn restrict_calls(has_few_files: bool) -> io::Result<()> {
    let filter = filter(process::id(), has_few_files);
    filter.and_then(|filter| apply_filter_all_threads(&filter)).map_err(io::Error::other)
}

/// `own`: the number of this process.
fn filter(own: u32, has_few_files: bool) -> Result<BpfProgram, seccompiler::Error> {
    let thread = libc::CLONE_THREAD as u64;
    let own = u64::from(own);
    let makes_threads = condition(0, SeccompCmpOp::MaskedEq(thread), thread)?;
    let of_threads = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK];
    let rules_of_calls = [
        (libc::SYS_openat, opens(2, has_few_files)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, opens(1, has_few_files)?),
        (libc::SYS_clone, vec![SeccompRule::new(vec![makes_threads])?]),
        (libc::SYS_tgkill, is_any_of(0, &[own])?),
        (libc::SYS_prlimit64, is_any_of(0, &[0, own])?),
        (libc::SYS_prctl, is_any_of(0, &of_threads.map(|it| it as u64))?),
        // The kernel would send any signal to the owner of a descriptor.
        (libc::SYS_fcntl, vec![is_none_of(1, &[F_SETOWN, F_SETSIG, F_SETOWN_EX])?]),
        // The first two write to the terminal of the daemon's log as if its user typed.
        (libc::SYS_ioctl, vec![is_none_of(1, &[libc::TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP])?]),
    ];
    let truncating = if has_few_files { TRUNCATING } else { &[] };
    let always = ALLOWED.iter().chain(ALLOWED_OLD).chain(truncating);
    let rules: BTreeMap<_, _> =
        always.map(|call| (*call, Vec::new())).chain(rules_of_calls).collect();
    let denied = SeccompAction::Errno(libc::ENOSYS as u32);
    let arch = TargetArch::try_from(env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, denied, SeccompAction::Allow, arch)?.try_into()?)
}

/// Matches calls that open files: if Landlock decides what may be written, all but those that would
/// truncate a file that is opened for reading, which Landlock permits before Linux 6.2; otherwise
/// those for reading, and for reading and writing as drivers open devices.
///
/// `flags`: the number of their argument with the flags.
fn opens(flags: u8, has_few_files: bool) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let new_file = libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let existing = new_file | libc::O_ACCMODE;
    let allowed: &[OpenFlags] = if has_few_files {
        &[
            OpenFlags { mask: libc::O_TRUNC | libc::O_ACCMODE, bits: libc::O_RDONLY },
            OpenFlags { mask: libc::O_ACCMODE, bits: libc::O_WRONLY },
            OpenFlags { mask: libc::O_ACCMODE, bits: libc::O_RDWR },
        ]
    } else {
        &[
            OpenFlags { mask: existing, bits: libc::O_RDONLY },
            OpenFlags { mask: existing, bits: libc::O_RDWR },
        ]
    };
    let rule = |&OpenFlags { mask, bits }: &OpenFlags| {
        let has_bits = SeccompCmpOp::MaskedEq(mask as u64);
        Ok(SeccompRule::new(vec![condition(flags, has_bits, bits as u64)?])?)
    };
    allowed.iter().map(rule).collect()
}

fn is_any_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let is =
        |value: &u64| Ok(SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, *value)?])?);
    values.iter().map(is).collect()
}

fn is_none_of(argument: u8, values: &[u64]) -> Result<SeccompRule, seccompiler::Error> {
    let differ = values.iter().map(|value| condition(argument, SeccompCmpOp::Ne, *value));
    Ok(SeccompRule::new(differ.collect::<Result<_, _>>()?)?)
}

/// A condition on the lower half of an argument.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        net::{TcpStream, UdpSocket},
        process::Command,
        thread,
    };

    use rustix::process::{Pid, getppid, test_kill_process};
    use seccompiler::{apply_filter, sock_filter};

    use super::*;

    /// What the filter answers to a call, computed as the kernel does (filter.rst of its
    /// documentation describes the machine).
    fn answer(program: &[sock_filter], call: libc::c_long, arguments: &[u64]) -> u32 {
        let arch = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };
        let mut data = vec![call as u32, arch, 0, 0];
        for index in 0..6 {
            let argument = arguments.get(index).copied().unwrap_or(0);
            data.extend([argument as u32, (argument >> 32) as u32]);
        }
        let mut at = 0;
        let mut value = 0;
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(code) {
                0x20 => value = data[k as usize / 4],
                0x54 => value &= k,
                0x05 => at += k as usize,
                0x15 => at += jump(value == k),
                0x25 => at += jump(value > k),
                0x35 => at += jump(value >= k),
                0x06 => return k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    const OWN: u64 = 4321;

    #[test]
    fn listed_calls_are_allowed_with_harmless_arguments() {
        let program = filter(OWN as u32, true).unwrap();
        let is_allowed = |call, arguments: &[u64]| match answer(&program, call, arguments) {
            libc::SECCOMP_RET_ALLOW => true,
            denied => {
                assert_eq!(denied, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
                false
            }
        };
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
        let allowed: [(_, &[u64]); 12] = [
            (libc::SYS_futex, &[]),
            (libc::SYS_openat, &[0, 0, (libc::O_RDWR | libc::O_CREAT) as u64]),
            (libc::SYS_clone, &[thread]),
            (libc::SYS_tgkill, &[OWN, 1, 6]),
            (libc::SYS_prlimit64, &[0]),
            (libc::SYS_prlimit64, &[OWN]),
            (libc::SYS_prctl, &[libc::PR_SET_NAME as u64]),
            // The device layer waits for less than a millisecond at a time.
            (libc::SYS_prctl, &[libc::PR_SET_TIMERSLACK as u64]),
            (libc::SYS_fcntl, &[3, libc::F_DUPFD_CLOEXEC as u64]),
            (libc::SYS_fcntl, &[3, libc::F_SETFL as u64]),
            (libc::SYS_ioctl, &[3, libc::FIONBIO]),
            // Requests of NVIDIA's driver.
            (libc::SYS_ioctl, &[3, 0xc020_462a]),
        ];
        for (call, arguments) in allowed {
            assert!(is_allowed(call, arguments), "{call} {arguments:?}");
        }
        let high_half = u64::from(u32::MAX) + 1;
        let denied: [(_, &[u64]); 18] = [
            (libc::SYS_clone, &[libc::SIGCHLD as u64]),
            (libc::SYS_clone, &[libc::CLONE_VM as u64 | (high_half * thread)]),
            (libc::SYS_clone3, &[]),
            (libc::SYS_tgkill, &[OWN + 1, 1, 6]),
            (libc::SYS_kill, &[OWN, 6]),
            (libc::SYS_prlimit64, &[OWN + 1]),
            (libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64]),
            (libc::SYS_prctl, &[libc::PR_SET_SECCOMP as u64]),
            (libc::SYS_fcntl, &[3, F_SETOWN]),
            (libc::SYS_fcntl, &[3, F_SETSIG]),
            (libc::SYS_fcntl, &[3, F_SETOWN_EX]),
            (libc::SYS_fcntl, &[3, F_SETOWN | high_half]),
            (libc::SYS_ioctl, &[0, libc::TIOCSTI]),
            (libc::SYS_ioctl, &[0, libc::TIOCSTI | high_half]),
            (libc::SYS_ioctl, &[0, TIOCLINUX]),
            (libc::SYS_ioctl, &[0, FIOSETOWN]),
            (libc::SYS_ioctl, &[0, SIOCSPGRP]),
            // A call of the x32 interface.
            (libc::SYS_read | 0x4000_0000, &[]),
        ];
        for (call, arguments) in denied {
            assert!(!is_allowed(call, arguments), "{call} {arguments:?}");
        }
        // Connections, programs, other processes, and changes of files by their paths or modes.
        let never = [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_accept4,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_mount,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_openat2,
            libc::SYS_open_by_handle_at,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_mkdirat,
            libc::SYS_mknodat,
            libc::SYS_truncate,
            // With these two, the owner of a file could write it although it may only read it.
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_fchown,
            libc::SYS_fchownat,
            libc::SYS_fsetxattr,
            libc::SYS_setxattr,
        ];
        for call in never {
            assert!(!is_allowed(call, &[]), "{call}");
        }
        #[cfg(target_arch = "x86_64")]
        for call in [libc::SYS_chmod, libc::SYS_creat, libc::SYS_unlink, libc::SYS_rename] {
            assert!(!is_allowed(call, &[]), "{call}");
        }
    }

    #[test]
    fn without_landlock_files_are_only_opened_as_drivers_do() {
        let (few, all) = (filter(1, true).unwrap(), filter(1, false).unwrap());
        let calls = [
            (libc::SYS_openat, 2),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_open, 1),
        ];
        for (call, flags) in calls {
            let is_allowed = |program: &[sock_filter], bits: libc::c_int| {
                let mut arguments = [0; 6];
                arguments[flags] = bits as u64;
                answer(program, call, &arguments) == libc::SECCOMP_RET_ALLOW
            };
            for reading in [libc::O_RDONLY | libc::O_DIRECTORY, libc::O_RDWR | libc::O_CLOEXEC] {
                assert!(is_allowed(&all, reading) && is_allowed(&few, reading), "{reading:#o}");
            }
            assert!(!is_allowed(&all, libc::O_TRUNC) && !is_allowed(&few, libc::O_TRUNC));
            assert!(!is_allowed(&all, 3) && !is_allowed(&few, 3), "neither reading nor writing");
            let new = [libc::O_CREAT, libc::O_RDWR | libc::O_TRUNC, libc::O_WRONLY];
            for writing in new.into_iter().chain([libc::O_RDWR | libc::O_TMPFILE]) {
                assert!(!is_allowed(&all, writing) && is_allowed(&few, writing), "{writing:#o}");
            }
        }
        for truncating in [libc::SYS_ftruncate, libc::SYS_fallocate] {
            assert_eq!(answer(&few, truncating, &[]), libc::SECCOMP_RET_ALLOW);
            assert_eq!(
                answer(&all, truncating, &[]),
                libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32
            );
        }
    }

    #[test]
    fn threads_with_listed_calls_have_no_network_and_start_no_programs() {
        let is_denied = |error: io::Error| error.raw_os_error() == Some(libc::ENOSYS);
        thread::spawn(move || {
            apply_filter(&filter(1, true).unwrap()).unwrap();
            assert!(is_denied(UdpSocket::bind("127.0.0.1:0").unwrap_err()));
            assert!(is_denied(Command::new("true").status().unwrap_err()));
            assert!(fs::read("/proc/self/stat").is_ok());
            let no_signal = test_kill_process(getppid().unwrap());
            assert_eq!(no_signal, Err(rustix::io::Errno::NOSYS));
            // The library starts threads by an older call.
            assert_eq!(thread::spawn(|| 5).join().unwrap(), 5);
        })
        .join()
        .unwrap();
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }

    #[test]
    fn restricted_threads_open_what_drivers_need() {
        if !has_landlock() {
            return println!("skipped: the system has no Landlock");
        }
        let newer = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let controls_tcp = newer.handle_access(AccessNet::ConnectTcp).is_ok();
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let library = folder.path().join("driver").join("libcuda.so");
        fs::create_dir(library.parent().unwrap()).unwrap();
        fs::write(&library, "driver").unwrap();
        let mut open = File::open(&secret).unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let child = Pid::from_child(&other);
        let of_another = format!("/proc/{}/mem", child.as_raw_nonzero());
        assert!(File::open(&of_another).is_ok(), "a process can read the memory of its children");
        thread::spawn(move || {
            restrict_files(Some(&library)).unwrap();
            for path in [&secret, Path::new("/etc/passwd"), Path::new(&of_another)] {
                let kind = fs::read(path).map_err(|error| error.kind());
                assert_eq!(kind, Err(io::ErrorKind::PermissionDenied), "{path:?}");
            }
            let error = fs::write(library.with_file_name("new"), "").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(fs::read_to_string(&library).unwrap(), "driver");
            let name = "/proc/thread-self/comm";
            fs::write(name, "named").unwrap();
            assert_eq!(fs::read_to_string(name).unwrap(), "named\n");
            for path in ["/proc/self/maps", "/proc/meminfo", "/sys/devices/system/cpu/online"] {
                assert!(fs::read(path).is_ok(), "{path}");
            }
            assert!(File::options().read(true).write(true).open("/dev/null").is_ok());
            if controls_tcp {
                let error = TcpStream::connect("127.0.0.1:9").unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            }
            let mut text = String::new();
            open.read_to_string(&mut text).unwrap();
            assert_eq!(text, "secret", "an open descriptor stays usable");
        })
        .join()
        .unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
