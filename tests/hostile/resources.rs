//! The process's memory and descriptors under each row.
//!
//! Worlds of one process exist one after another, so what is measured belongs to one of them; a
//! test that creates a second one while it holds the first waits for ever. The
//! process is the server, its clients and the test: the bound on memory holds for all of them
//! together.

use std::{
    collections::HashSet,
    fs,
    io::Write,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use capstan::server::ServerSettings;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::daemon::TEST_TIMEOUT;

/// Resident memory that a row may take above `bytes_in_flight_max`.
const ABOVE_BUDGET_MAX: u64 = 256 << 20;

/// Descriptors that a row may have open above those that its world began with.
const DESCRIPTORS_MAX: usize = 64;

/// Resident memory that changes by less than this for a while is steady.
const STEADY_BYTES: u64 = 1 << 20;

static ONE_WORLD: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

/// Checks the memory and the descriptors of the process while a world exists. Create it before the
/// world's server, and drop it after that.
pub struct ResourceCheck {
    budget: u64,
    before: usize,
    peak: AtomicU64,
    descriptors: AtomicUsize,
    /// See [`DESCRIPTORS_MAX`].
    pub descriptors_max: usize,
    _one_world: OwnedMutexGuard<()>,
}

impl ResourceCheck {
    /// Waits until no other world exists.
    pub async fn begin(settings: &ServerSettings) -> Self {
        let one_world = ONE_WORLD.clone().lock_owned().await;
        let check = Self {
            budget: settings.bytes_in_flight_max,
            before: descriptors(),
            peak: AtomicU64::new(0),
            descriptors: AtomicUsize::new(0),
            descriptors_max: DESCRIPTORS_MAX,
            _one_world: one_world,
        };
        reset_peak();
        check
    }

    /// Asserts the bounds for the row that ends here. The next row begins.
    pub fn assert_within(&self, name: &str) {
        let (peak, open) = (peak_resident(), descriptors().saturating_sub(self.before));
        self.peak.fetch_max(peak, Ordering::Relaxed);
        self.descriptors.fetch_max(open, Ordering::Relaxed);
        let max = self.budget + ABOVE_BUDGET_MAX;
        assert!(peak <= max, "{name}: {} of {} MiB resident", peak >> 20, max >> 20);
        assert!(open <= self.descriptors_max, "{name}: {open} descriptors more than before");
        reset_peak();
    }

    /// Asserts that `row`, which begins now, takes at most `bytes` more than is resident.
    pub async fn assert_takes(&self, name: &str, bytes: u64, row: impl Future<Output = ()>) {
        self.assert_within(name);
        let before = resident();
        row.await;
        let taken = peak_resident().saturating_sub(before);
        assert!(taken <= bytes, "{name}: took {} of {} MiB", taken >> 20, bytes >> 20);
    }

    /// Waits until resident memory does not grow for a second: what was sent has arrived.
    pub async fn until_steady(&self) {
        let (mut highest, mut since) = (resident(), Instant::now());
        while since.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = resident();
            if now > highest + STEADY_BYTES {
                (highest, since) = (now, Instant::now());
            }
        }
    }
}

impl Drop for ResourceCheck {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.assert_within(&name);
        let (peak, open) = (self.peak.get_mut(), self.descriptors.get_mut());
        println!("{name}: {} MiB resident at most, {open} descriptors at most", *peak >> 20);
        // Connections of the test's clients close a moment after their last use.
        let begun = Instant::now();
        while descriptors() > self.before {
            let (before, after) = (self.before, descriptors());
            assert!(begun.elapsed() < TEST_TIMEOUT, "{name}: {before} descriptors, now {after}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Makes the peak of resident memory begin again at what is resident now.
fn reset_peak() {
    let reset = fs::File::options().write(true).open("/proc/self/clear_refs");
    reset.and_then(|mut file| file.write_all(b"5")).expect("Linux 4.0 or newer");
}

/// The peak of resident memory, bytes.
fn peak_resident() -> u64 {
    memory("VmHWM:")
}

/// Resident memory, bytes.
pub fn resident() -> u64 {
    memory("VmRSS:")
}

fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("is listed");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// The open descriptors, without those that every async runtime has: other tests of this process
/// start theirs at any time.
fn descriptors() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("procfs").flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let (mut others, mut sockets) = (0, HashSet::new());
    for target in targets {
        let text = target.to_string_lossy();
        if text.starts_with("socket:") {
            // Runtimes have copies of one socket, by which they hear of signals.
            sockets.insert(target);
        } else if !text.starts_with("anon_inode:") {
            others += 1;
        }
    }
    others + sockets.len()
}
