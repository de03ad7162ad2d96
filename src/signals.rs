//! Signals that would end the process, though it can go on.
#![allow(unsafe_code)]

/// Ignores the signal of writes beyond the limit on file sizes, which then fail with EFBIG.
pub fn ignore_file_size_limit() {
    ignore(libc::SIGXFSZ);
}

/// Ignores SIGHUP until a handler is installed: an operator may ask for a reload during the start.
#[cfg(feature = "server")]
pub fn ignore_hangups() {
    ignore(libc::SIGHUP);
}

fn ignore(signal: libc::c_int) {
    // SAFETY: no code of this process runs when the signal arrives.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}
