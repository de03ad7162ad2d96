//! Limits of the system on the daemon: files, memory, mappings, swap.

use std::fs;

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    process::{Resource, getrlimit},
};

use super::sockets::DaemonProcess;
use crate::{
    cli::{doctor::finding::DoctorFinding, output::bytes_text},
    config::{Config, available_to, swap_limit_bytes},
    server::ServerSettings,
};

/// Mappings of a process apart from stored objects: code, stacks, payload memory, regions.
const OTHER_MAPPINGS: u64 = 4096;
const MAPPINGS_MAX: &str = "/proc/sys/vm/max_map_count";

/// Limits of the daemon's process, or of this one, from which a daemon would inherit them.
struct LimitFacts {
    process: String,
    /// The hard limit; `None` if there is none.
    open_files_max: Option<u64>,
    memory_bytes: u64,
    /// Bytes of swap that the process may use.
    swap_bytes: u64,
    /// `None` if the system does not say.
    mappings_max: Option<u64>,
    can_seal_memory: bool,
}

pub fn check(config: &Config, daemon: Option<&DaemonProcess>) -> Vec<DoctorFinding> {
    let facts = facts(daemon);
    vec![
        open_files(&facts, &config.server),
        memory(&facts, &config.server),
        mappings(&facts, &config.server),
        swap(&facts),
        sealed_memory(&facts),
    ]
}

fn facts(daemon: Option<&DaemonProcess>) -> LimitFacts {
    let id = daemon.map_or("self".to_owned(), |daemon| daemon.id.to_string());
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).ok();
    let mappings_max = fs::read_to_string(MAPPINGS_MAX).ok();
    LimitFacts {
        process: process_name(daemon),
        open_files_max: match limits.as_deref().and_then(hard_file_limit) {
            Some(limit) => limit,
            None => getrlimit(Resource::Nofile).maximum,
        },
        memory_bytes: available_to(&id),
        swap_bytes: swap_limit_bytes(&id),
        mappings_max: mappings_max.and_then(|text| text.trim().parse().ok()),
        can_seal_memory: can_seal_memory(),
    }
}

/// The name of the process whose limits are checked.
fn process_name(daemon: Option<&DaemonProcess>) -> String {
    match daemon {
        Some(daemon) => format!("the running daemon (process {})", daemon.id),
        None => "a daemon started from this shell".to_owned(),
    }
}

/// The hard limit on open files in `/proc/PID/limits`: `Some(None)` if there is none, `None` if the
/// text has no such line.
fn hard_file_limit(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Whether this system has sealed files in memory, in which payloads lie.
fn can_seal_memory() -> bool {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = memfd_create("capstan-doctor", flags);
    made.and_then(|file| fcntl_add_seals(file, SealFlags::SHRINK)).is_ok()
}

fn open_files(facts: &LimitFacts, settings: &ServerSettings) -> DoctorFinding {
    const CHECK: &str = "open_files";
    let (needed, process) = (settings.open_files_max(), &facts.process);
    match facts.open_files_max {
        Some(limit) if limit < needed => DoctorFinding::problem(
            CHECK,
            format!("{process} may open {limit} files, the configuration needs {needed}"),
            "raise LimitNOFILE of the unit (`ulimit -Hn` in a shell), or lower connections_max or \
             objects_max",
        ),
        Some(limit) => DoctorFinding::ok(CHECK, format!("{process} may open {limit} files")),
        None => DoctorFinding::ok(CHECK, format!("{process} may open any number of files")),
    }
}

/// Stored objects count only if they lie in memory.
fn memory(facts: &LimitFacts, settings: &ServerSettings) -> DoctorFinding {
    const CHECK: &str = "memory";
    let ServerSettings { bytes_in_flight_max, region_bytes_max, .. } = settings;
    let store_bytes = if settings.data_dir.is_none() { settings.store_bytes_max } else { 0 };
    let needed = bytes_in_flight_max.saturating_add(*region_bytes_max).saturating_add(store_bytes);
    let (available, process) = (bytes_text(facts.memory_bytes), &facts.process);
    let found = format!(
        "{process} has {available} of memory, the configuration allows it {}",
        bytes_text(needed)
    );
    if needed > facts.memory_bytes {
        let fix = "lower bytes_in_flight_max, store_bytes_max or region_bytes_max (auto suits the \
                   memory), or raise the memory limit";
        return DoctorFinding::problem(CHECK, found, fix);
    }
    DoctorFinding::ok(CHECK, found)
}

fn mappings(facts: &LimitFacts, settings: &ServerSettings) -> DoctorFinding {
    const CHECK: &str = "mappings";
    let needed = u64::from(settings.objects_max) + OTHER_MAPPINGS;
    match facts.mappings_max {
        Some(limit) if limit < needed => DoctorFinding::warning(
            CHECK,
            format!("a process may have {limit} memory mappings, objects_max needs {needed}"),
            format!("sysctl -w vm.max_map_count={needed}, or lower objects_max"),
        ),
        Some(limit) => {
            DoctorFinding::ok(CHECK, format!("a process may have {limit} memory mappings"))
        }
        None => DoctorFinding::ok(CHECK, format!("there is no {MAPPINGS_MAX}")),
    }
}

fn swap(facts: &LimitFacts) -> DoctorFinding {
    const CHECK: &str = "swap";
    let LimitFacts { process, swap_bytes, .. } = facts;
    if *swap_bytes == 0 {
        return DoctorFinding::ok(CHECK, format!("{process} cannot be swapped out"));
    }
    DoctorFinding::warning(
        CHECK,
        format!(
            "{} of the memory of {process} may be written to swap, scalars included",
            bytes_text(*swap_bytes)
        ),
        "set MemorySwapMax=0 as the systemd unit does, memswap_limit in a container, or `swapoff`",
    )
}

fn sealed_memory(facts: &LimitFacts) -> DoctorFinding {
    const CHECK: &str = "sealed_memory";
    if facts.can_seal_memory {
        return DoctorFinding::ok(CHECK, "files in memory can be made and sealed");
    }
    let fix = "allow the system calls memfd_create and fcntl in the container's seccomp profile";
    DoctorFinding::problem(CHECK, "no sealed file in memory (memfd) can be made", fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Severity;

    fn enough(settings: &ServerSettings) -> LimitFacts {
        LimitFacts {
            process: "the daemon".to_owned(),
            open_files_max: Some(settings.open_files_max()),
            memory_bytes: settings.bytes_in_flight_max + settings.region_bytes_max,
            swap_bytes: 0,
            mappings_max: Some(u64::from(settings.objects_max) + OTHER_MAPPINGS),
            can_seal_memory: true,
        }
    }

    fn settings() -> ServerSettings {
        ServerSettings { data_dir: Some("/var/lib/capstan".into()), ..ServerSettings::default() }
    }

    #[test]
    fn limits_that_suffice_are_fine() {
        let settings = settings();
        let facts = enough(&settings);
        assert_eq!(open_files(&facts, &settings).severity, Severity::Ok);
        assert_eq!(memory(&facts, &settings).severity, Severity::Ok);
        assert_eq!(mappings(&facts, &settings).severity, Severity::Ok);
        assert_eq!(swap(&facts).severity, Severity::Ok);
        assert_eq!(sealed_memory(&facts).severity, Severity::Ok);
        let unlimited = LimitFacts { open_files_max: None, mappings_max: None, ..facts };
        assert_eq!(open_files(&unlimited, &settings).severity, Severity::Ok);
        assert_eq!(mappings(&unlimited, &settings).severity, Severity::Ok);
    }

    #[test]
    fn each_limit_that_is_too_low_is_reported() {
        let settings = settings();
        let facts = enough(&settings);
        let facts = LimitFacts {
            open_files_max: facts.open_files_max.map(|limit| limit - 1),
            memory_bytes: facts.memory_bytes - 1,
            mappings_max: facts.mappings_max.map(|limit| limit - 1),
            swap_bytes: 1,
            can_seal_memory: false,
            ..facts
        };
        assert_eq!(open_files(&facts, &settings).severity, Severity::Problem);
        assert_eq!(memory(&facts, &settings).severity, Severity::Problem);
        assert_eq!(mappings(&facts, &settings).severity, Severity::Warning);
        assert_eq!(swap(&facts).severity, Severity::Warning);
        assert_eq!(sealed_memory(&facts).severity, Severity::Problem);
    }

    #[test]
    fn objects_without_a_data_directory_take_memory() {
        let settings = ServerSettings { data_dir: None, ..settings() };
        assert_eq!(memory(&enough(&settings), &settings).severity, Severity::Problem);
    }

    #[test]
    fn the_hard_limit_of_a_process_is_read() {
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        let of = |line: &str| hard_file_limit(&format!("{head}{line}\n"));
        assert_eq!(of("Max open files            1024                 4096      files"), {
            Some(Some(4096))
        });
        assert_eq!(of("Max open files            1024                 unlimited files"), {
            Some(None)
        });
        assert_eq!(of("Max processes             1                    2         processes"), None);
        assert!(hard_file_limit(&fs::read_to_string("/proc/self/limits").unwrap()).is_some());
    }
}
