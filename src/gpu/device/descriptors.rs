//! The files that the threads of this process have open.

use std::io;

/// Gives this thread a copy of the process's table of open files. From then on, no other thread has
/// what this one opens, and they are closed one by one: only the thread that opened a file may
/// close it.
///
/// Errors: the system has no such call, or refuses it.
pub fn separate_descriptors() -> io::Result<()> {
    // No descriptor has this number, so that none is closed. `unshare` is often denied in
    // containers.
    let none = libc::c_uint::MAX;
    // SAFETY: it takes three numbers, and touches no memory of this process.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, none, none, libc::CLOSE_RANGE_UNSHARE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
