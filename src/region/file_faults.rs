//! Pages of mapped files that do not exist: the disk has failed, the file was truncated, or a
//! client has given back pages of a region and the system has no memory for others. The system
//! reports such a page with SIGBUS to the thread that touches it, which would end the process.
//! Here, the handler of the signal puts zeros in its place and marks the mapping, so that only the
//! calls that use it fail.
#![allow(unsafe_code)]

use std::{
    io, mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
};

use libc::{c_int, c_void, sigaction, siginfo_t};
use parking_lot::Mutex;

/// Zeros are mapped from the page that cannot be read up to a multiple of this, because the system
/// allows a process some 65 000 mappings.
const FILLED_BYTES: usize = 2 << 20;

/// All slots that have ever been used, in a list that only grows: the handler may read it at any
/// time.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

/// The slots that watch nothing.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// The previous action on the signal, set before the handler is installed.
static EARLIER: OnceLock<sigaction> = OnceLock::new();

/// A range of addresses. It is empty if the slot is free.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    is_writable: AtomicBool,
    is_damaged: AtomicBool,
    next: *mut Slot,
}

// SAFETY: `next` does not change once the slot is in the list.
unsafe impl Sync for Slot {}

/// What this process does with a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MappingAccess {
    ReadOnly,
    ReadWrite,
}

/// Watches a mapping of a file until it is dropped, which must be before the mapping ends.
pub struct WatchedMapping(&'static Slot);

impl WatchedMapping {
    /// Watches `len` bytes from `start` on, which lie in a private or shared mapping.
    ///
    /// Errors: the handler cannot be installed.
    pub fn new(start: *const u8, len: usize, access: MappingAccess) -> io::Result<Self> {
        install()?;
        let free = FREE.lock().pop();
        let slot = free.unwrap_or_else(new_slot);
        let first = start as usize;
        slot.is_damaged.store(false, Ordering::Relaxed);
        slot.is_writable.store(access == MappingAccess::ReadWrite, Ordering::Relaxed);
        // A fault of the memory itself is reported with the address of its page.
        slot.start.store(first - first % page_bytes(), Ordering::Release);
        // The handler ignores the slot until its end is set.
        slot.end.store(first + len, Ordering::Release);
        Ok(Self(slot))
    }

    /// Notes that another process could not read some bytes of the file.
    pub fn mark_damaged(&self) {
        self.0.is_damaged.store(true, Ordering::Release);
    }

    /// Whether some bytes could not be read, and were read as zeros.
    pub fn is_damaged(&self) -> bool {
        self.0.is_damaged.load(Ordering::Acquire)
    }
}

impl Drop for WatchedMapping {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
        FREE.lock().push(self.0);
    }
}

fn new_slot() -> &'static Slot {
    let (start, end, is_writable, is_damaged) = Default::default();
    let slot = Slot { start, end, is_writable, is_damaged, next: ptr::null_mut() };
    let added = Box::into_raw(Box::new(slot));
    let add = |first| {
        // SAFETY: nobody else knows the slot before it is in the list.
        unsafe { (*added).next = first };
        Some(added)
    };
    let _first = SLOTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    // SAFETY: it is never freed, and its `next` is only read from now on.
    unsafe { &*added }
}

/// Ignores two signals that would end this process. Writes beyond the limit on file sizes fail
/// instead. SIGHUP asks for a reload, which is no reason to end before its handler is installed.
pub fn outlive_signals() {
    for signal in [libc::SIGXFSZ, libc::SIGHUP] {
        // SAFETY: no code of this process runs when the signal arrives.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Installs the handler once.
fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut is_installed = INSTALLED.lock();
    if !*is_installed {
        let checked = |status: c_int| match status {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: zeros are a valid `sigaction`, and the handler has the signature that SA_SIGINFO
        // demands. It runs on the alternate stack if the thread has one.
        unsafe {
            let (mut wanted, mut earlier): (sigaction, sigaction) = mem::zeroed();
            checked(sigaction(libc::SIGBUS, ptr::null(), &mut earlier))?;
            let _earlier = EARLIER.set(earlier);
            wanted.sa_sigaction = on_bus_error as *const () as usize;
            wanted.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            checked(sigaction(libc::SIGBUS, &wanted, ptr::null_mut()))?;
        }
        *is_installed = true;
    }
    Ok(())
}

/// The handler: system calls, atomics and nothing else.
extern "C" fn on_bus_error(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the system passes a valid pointer.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let is_fault = code > 0;
    if is_fault && find_watched(address).is_some_and(|watched| watched.fill(address)) {
        return;
    }
    // SAFETY: zeros are the default action. After a fault, the thread touches the page again. A
    // signal of another process is raised again, for the default action.
    unsafe {
        let default = mem::zeroed();
        let earlier = EARLIER.get().filter(|_| is_fault).copied().unwrap_or(default);
        sigaction(libc::SIGBUS, &earlier, ptr::null_mut());
        if !is_fault {
            libc::raise(libc::SIGBUS);
        }
    }
}

/// A slot, and the end of the range that it watched when it was found.
struct Watched {
    slot: &'static Slot,
    end: usize,
}

/// The slot that watches this address.
fn find_watched(address: usize) -> Option<Watched> {
    let mut next = SLOTS.load(Ordering::Acquire);
    // SAFETY: slots are never freed.
    while let Some(slot) = unsafe { next.as_ref() } {
        let end = slot.end.load(Ordering::Acquire);
        let start = slot.start.load(Ordering::Acquire);
        // The slot may be freed and used again meanwhile.
        let is_unchanged = slot.end.load(Ordering::Acquire) == end;
        if is_unchanged && (start..end).contains(&address) {
            return Some(Watched { slot, end });
        }
        next = slot.next;
    }
    None
}

impl Watched {
    /// Maps zeros over the page of `address` and those after it, and marks the mapping. False if
    /// the system refuses.
    fn fill(&self, address: usize) -> bool {
        let page = page_bytes();
        let (start, end) = (address - address % page, self.end.next_multiple_of(page));
        let filled_end = (start + 1).next_multiple_of(FILLED_BYTES).min(end);
        let Some(bytes) = filled_end.checked_sub(start) else { return false };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let access = match self.slot.is_writable.load(Ordering::Acquire) {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        self.slot.is_damaged.store(true, Ordering::Release);
        // SAFETY: a thread touches the range, so its owner has not dropped it. Those who read it
        // get zeros from now on, which `is_damaged` reports.
        let filled = unsafe { libc::mmap(start as *mut c_void, bytes, access, flags, -1, 0) };
        filled != libc::MAP_FAILED
    }
}

fn page_bytes() -> usize {
    // SAFETY: has no arguments in memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use memmap2::Mmap;

    use super::*;

    const BYTES: usize = 3 * FILLED_BYTES;

    fn mapped_file() -> (std::fs::File, Mmap) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; BYTES]).unwrap();
        file.rewind().unwrap();
        // SAFETY: reading past the end of the file is what is tested.
        let map = unsafe { Mmap::map(&file) }.unwrap();
        (file, map)
    }

    fn watch(map: &Mmap) -> WatchedMapping {
        WatchedMapping::new(map.as_ptr(), map.len(), MappingAccess::ReadOnly).unwrap()
    }

    #[test]
    fn pages_that_cannot_be_read_are_zeros_and_mark_their_mapping() {
        let (file, map) = mapped_file();
        let (whole_file, whole) = mapped_file();
        let [watched, other] = [&map, &whole].map(watch);
        assert_eq!((map[BYTES - 1], watched.is_damaged()), (7, false));
        file.set_len(10_000).unwrap();
        assert_eq!(map[9_999], 7);
        assert!(!watched.is_damaged());
        let sum: u64 = map.iter().map(|byte| u64::from(*byte)).sum();
        // The rest of the file's last page is zeros in any case.
        assert_eq!((sum, watched.is_damaged()), (70_000, true));
        assert_eq!((whole[BYTES - 1], other.is_damaged()), (7, false));
        // A slot is used again, for another mapping.
        drop(watched);
        drop(map);
        let (file, map) = mapped_file();
        let again = watch(&map);
        assert!(!again.is_damaged());
        file.set_len(0).unwrap();
        let touch = || std::thread::scope(|scope| scope.spawn(|| map[BYTES / 2]).join().unwrap());
        assert_eq!((touch(), again.is_damaged(), other.is_damaged()), (0, true, false));
        drop(whole_file);
    }
}
