//! What a worker gives up once its GPU is open: it needs no network, starts no programs, does not
//! inspect other processes, creates and removes no file, and opens none to truncate or only write
//! it. It can still open existing files for reading, and for reading and writing, like devices.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads, sock_filter,
};

/// Numbers from here on belong to the x32 interface, which offers most calls a second time.
const X32_CALLS: u32 = 0x4000_0000;

// Newer calls, whose numbers are those of every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;

/// System calls that fail with EPERM from now on.
const DENIED: &[libc::c_long] = &[
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
    // Changes of files by their paths.
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mknodat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    // Changes of modes, owners and attributes of open files. `ftruncate` stays: drivers set the
    // size of memory files with it.
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
    libc::SYS_fremovexattr,
    FCHMODAT2,
    SETXATTRAT,
    REMOVEXATTRAT,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    // Its flags lie in memory, which a filter cannot read.
    libc::SYS_openat2,
];

/// Older calls, most of which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const DENIED_OLD: &[libc::c_long] = &[
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_mkdir,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_creat,
    libc::SYS_utime,
    libc::SYS_utimes,
];
// `renameat`, for which libc has no name there.
#[cfg(not(target_arch = "x86_64"))]
const DENIED_OLD: &[libc::c_long] = &[38];

/// A call that opens a file, and the number of its argument with the flags.
struct OpeningCall {
    number: libc::c_long,
    flags: u8,
}

const OPENING: &[OpeningCall] = &[
    OpeningCall { number: libc::SYS_openat, flags: 2 },
    #[cfg(target_arch = "x86_64")]
    OpeningCall { number: libc::SYS_open, flags: 1 },
];

/// Some bits of the flags with which a file is opened.
#[derive(Clone, Copy)]
struct OpenFlags {
    mask: libc::c_int,
    bits: libc::c_int,
}

const fn flag(bits: libc::c_int) -> OpenFlags {
    OpenFlags { mask: bits, bits }
}

/// Flags with which a file is created, truncated or only written. A driver opens its devices for
/// reading and writing.
const WRITING: [OpenFlags; 4] = [
    flag(libc::O_CREAT),
    flag(libc::O_TRUNC),
    flag(libc::O_TMPFILE & !libc::O_DIRECTORY),
    OpenFlags { mask: libc::O_ACCMODE, bits: libc::O_WRONLY },
];

/// Denies them for all threads of this process and their future threads, permanently. The process
/// can gain no privileges either.
///
/// Errors: the system has no seccomp, or does not let this process use it.
pub fn enter() -> Result<(), seccompiler::Error> {
    apply_filter_all_threads(&filter()?)
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let always = DENIED.iter().chain(DENIED_OLD).map(|call| (*call, Vec::new()));
    let mut rules = always.collect::<BTreeMap<_, _>>();
    for call in OPENING {
        let writing = WRITING.iter().map(|flags| opens_with(call, *flags));
        rules.insert(call.number, writing.collect::<Result<_, _>>()?);
    }
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    let mut program = BpfProgram::from(deny_x32());
    program.append(&mut BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Matches a call that opens a file with these flags.
fn opens_with(call: &OpeningCall, flags: OpenFlags) -> Result<SeccompRule, seccompiler::Error> {
    let OpenFlags { mask, bits } = flags;
    let width = SeccompCmpArgLen::Dword;
    let has_bits = SeccompCmpOp::MaskedEq(mask as u64);
    let condition = SeccompCondition::new(call.flags, width, has_bits, bits as u64)?;
    Ok(SeccompRule::new(vec![condition])?)
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
    use std::{
        fs::{self, File, Permissions},
        io,
        net::UdpSocket,
        os::unix::fs::{PermissionsExt, symlink},
        path::Path,
        process::Command,
        thread,
    };

    use seccompiler::apply_filter;

    use super::*;

    #[test]
    fn threads_behind_the_filter_have_no_network_and_start_no_programs() {
        let is_denied = |error: io::Error| error.raw_os_error() == Some(libc::EPERM);
        thread::spawn(move || {
            apply_filter(&filter().unwrap()).unwrap();
            assert!(is_denied(UdpSocket::bind("127.0.0.1:0").unwrap_err()));
            assert!(is_denied(Command::new("true").status().unwrap_err()));
            assert!(fs::read("/proc/self/stat").is_ok());
        })
        .join()
        .unwrap();
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }

    #[test]
    fn threads_behind_the_filter_open_devices_and_change_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, new) = (folder.path().join("kept"), folder.path().join("new"));
        fs::write(&kept, "kept").unwrap();
        let (file, other) = (kept.clone(), new.clone());
        thread::spawn(move || {
            let open = File::open(&file).unwrap();
            apply_filter(&filter().unwrap()).unwrap();
            let denied = [
                open.set_permissions(Permissions::from_mode(0o777)),
                fs::write(&other, "new"),
                fs::write(&file, "changed"),
                File::options().write(true).open(&file).map(drop),
                File::options().append(true).open(&file).map(drop),
                fs::remove_file(&file),
                fs::rename(&file, &other),
                fs::hard_link(&file, &other),
                symlink(&file, &other),
                fs::create_dir(&other),
                fs::set_permissions(&file, Permissions::from_mode(0o777)),
            ];
            for (number, result) in denied.into_iter().enumerate() {
                let error = result.expect_err("must be denied").raw_os_error();
                assert_eq!(error, Some(libc::EPERM), "{number}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
            // Drivers open devices like this, and a filter cannot tell them from files.
            for path in [Path::new("/dev/null"), &file] {
                assert!(File::options().read(true).write(true).open(path).is_ok());
            }
        })
        .join()
        .unwrap();
        assert!(kept.exists() && !new.exists());
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
