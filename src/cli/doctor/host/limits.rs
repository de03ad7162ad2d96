//! Limits of the system on the daemon: files, threads, memory, addresses, mappings, swap.

use std::{fs, thread::available_parallelism};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    process::{Resource, geteuid, getrlimit},
};

use super::sockets::DaemonProcess;
use crate::{
    config::{Config, available_to, process_limit, swap_limit_bytes},
    doctor::finding::DoctorFinding,
    output::bytes_text,
    server::ServerSettings,
};

/// Mappings of a process apart from stored objects: code, stacks, payload memory, regions.
const OTHER_MAPPINGS: u64 = 4096;
/// Threads apart from those of the settings, without those for blocking work.
const OTHER_THREADS: u64 = 64;
/// The most threads that the runtime starts for blocking work, such as reading files.
const BLOCKING_THREADS: u64 = 512;
/// Addresses for all but payloads, regions and stored objects: code, stacks, heaps.
const OTHER_ADDRESSES: u64 = 8 << 30;
const OPEN_FILES: &str = "Max open files";
const MAPPINGS_MAX: &str = "/proc/sys/vm/max_map_count";

/// Limits of the daemon's process, or of this one, from which a daemon would inherit them.
struct LimitFacts {
    process: String,
    /// The hard limit, up to which the daemon raises its own; `None` if there is none.
    open_files_max: Option<u64>,
    /// `None` if there is no limit, as for the two below.
    file_bytes_max: Option<u64>,
    addresses_max: Option<u64>,
    /// Processes and threads.
    processes_max: Option<u64>,
    processors: u64,
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
        file_size(&facts, config),
        processes(&facts, config),
        address_space(&facts, config),
        memory(&facts, &config.server),
        mappings(&facts, &config.server),
        swap(&facts),
        sealed_memory(&facts),
    ]
}

fn facts(daemon: Option<&DaemonProcess>) -> LimitFacts {
    let id = daemon.map_or("self".to_owned(), |daemon| daemon.id.to_string());
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).ok();
    let soft = |name, resource| match limits.as_deref().and_then(|text| limit_pair(text, name)) {
        Some(pair) => pair.soft,
        None => getrlimit(resource).current,
    };
    // The limit on a user's processes does not hold for root.
    let user = daemon.map_or_else(|| geteuid().as_raw(), |daemon| daemon.user);
    let of_user = (user != 0).then(|| soft("Max processes", Resource::Nproc)).flatten();
    let mappings_max = fs::read_to_string(MAPPINGS_MAX).ok();
    LimitFacts {
        process: process_name(daemon),
        open_files_max: match limits.as_deref().and_then(|text| limit_pair(text, OPEN_FILES)) {
            Some(pair) => pair.hard,
            None => getrlimit(Resource::Nofile).maximum,
        },
        file_bytes_max: soft("Max file size", Resource::Fsize),
        addresses_max: soft("Max address space", Resource::As),
        processes_max: of_user.into_iter().chain(process_limit(&id)).min(),
        processors: available_parallelism().map_or(1, |processors| processors.get() as u64),
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

/// A limit in `/proc/PID/limits`; `None` means unlimited.
#[derive(Debug, PartialEq, Eq)]
struct LimitPair {
    soft: Option<u64>,
    hard: Option<u64>,
}

/// The limit of this name; `None` if the text has no such line.
fn limit_pair(limits: &str, name: &str) -> Option<LimitPair> {
    let mut values = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut next = || match values.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(LimitPair { soft: next()?, hard: next()? })
}

/// Whether this system has sealed files in memory, in which payloads lie.
fn can_seal_memory() -> bool {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = memfd_create("capstan-doctor", flags);
    made.and_then(|file| fcntl_add_seals(file, SealFlags::SHRINK)).is_ok()
}

fn open_files(facts: &LimitFacts, settings: &ServerSettings) -> DoctorFinding {
    const CHECK: &str = "open_files";
    let needed = settings.open_files_max();
    let process = &facts.process;
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

/// The memory of inputs and that of results count as a file each.
fn file_size(facts: &LimitFacts, config: &Config) -> DoctorFinding {
    const CHECK: &str = "file_size";
    let needed = config.server.payload_file_bytes(config.cuda.pinned_bytes);
    let fix = "raise LimitFSIZE of the unit (`ulimit -f` in a shell), or lower bytes_in_flight_max";
    bytes_limit(CHECK, "make files of", facts.file_bytes_max, needed, facts, fix)
}

fn address_space(facts: &LimitFacts, config: &Config) -> DoctorFinding {
    const CHECK: &str = "address_space";
    let ServerSettings { region_bytes_max, store_bytes_max, .. } = &config.server;
    let payloads = 2 * config.server.payload_file_bytes(config.cuda.pinned_bytes);
    let needed = [*region_bytes_max, *store_bytes_max, OTHER_ADDRESSES];
    let needed = needed.into_iter().fold(payloads, u64::saturating_add);
    let fix = "raise LimitAS of the unit (`ulimit -v` in a shell), or lower bytes_in_flight_max, \
               region_bytes_max or store_bytes_max";
    bytes_limit(CHECK, "use addresses of", facts.addresses_max, needed, facts, fix)
}

fn bytes_limit(
    check: &'static str,
    may: &str,
    limit: Option<u64>,
    needed: u64,
    facts: &LimitFacts,
    fix: &str,
) -> DoctorFinding {
    let process = &facts.process;
    let Some(limit) = limit else {
        return DoctorFinding::ok(check, format!("{process} may {may} any number of bytes"));
    };
    let found = format!("{process} may {may} {}", bytes_text(limit));
    if limit < needed {
        let found = format!("{found}, the configuration needs {}", bytes_text(needed));
        return DoctorFinding::problem(check, found, fix);
    }
    DoctorFinding::ok(check, found)
}

fn processes(facts: &LimitFacts, config: &Config) -> DoctorFinding {
    const CHECK: &str = "processes";
    let LimitFacts { process, processes_max, processors, .. } = facts;
    let Some(limit) = processes_max else {
        return DoctorFinding::ok(CHECK, format!("{process} may start any number of threads"));
    };
    let pool = |threads: usize| if threads == 0 { *processors } else { threads as u64 };
    let pools = pool(config.threads) + pool(config.verify_threads) + config.server.workers as u64;
    let needed = processors + pools + OTHER_THREADS;
    let fix = "raise TasksMax and LimitNPROC of the unit, pids_limit of the container, or \
               `ulimit -u`; or lower threads and verify_threads";
    let found = format!("{process} may have {limit} processes and threads");
    if *limit < needed {
        let found = format!("{found}, the configuration needs {needed} or more");
        return DoctorFinding::problem(CHECK, found, fix);
    }
    if *limit < needed + BLOCKING_THREADS {
        let all = needed + BLOCKING_THREADS;
        let found = format!("{found}, and needs {all} while many calls read files");
        return DoctorFinding::warning(CHECK, found, fix);
    }
    DoctorFinding::ok(CHECK, found)
}

/// Stored objects count only if they lie in memory.
fn memory(facts: &LimitFacts, settings: &ServerSettings) -> DoctorFinding {
    const CHECK: &str = "memory";
    let ServerSettings { bytes_in_flight_max, region_bytes_max, .. } = settings;
    let store_bytes = if settings.data_dir.is_none() { settings.store_bytes_max } else { 0 };
    let needed = bytes_in_flight_max.saturating_add(*region_bytes_max).saturating_add(store_bytes);
    let available = bytes_text(facts.memory_bytes);
    let process = &facts.process;
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
    use crate::{
        config::{SettingValues, command},
        doctor::finding::Severity,
    };

    fn enough(settings: &ServerSettings) -> LimitFacts {
        LimitFacts {
            process: "the daemon".to_owned(),
            open_files_max: Some(settings.open_files_max()),
            file_bytes_max: None,
            addresses_max: None,
            processes_max: None,
            processors: 8,
            memory_bytes: settings.bytes_in_flight_max + settings.region_bytes_max,
            swap_bytes: 0,
            mappings_max: Some(u64::from(settings.objects_max) + OTHER_MAPPINGS),
            can_seal_memory: true,
        }
    }

    fn settings() -> ServerSettings {
        ServerSettings { data_dir: Some("/var/lib/capstan".into()), ..ServerSettings::default() }
    }

    /// The defaults, whose limits on bytes depend on this host.
    fn config() -> Config {
        let flags = command().get_matches_from(["capstand", "--config", "/dev/null"]);
        SettingValues::read(&flags, []).unwrap().check().unwrap()
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
    fn limits_on_file_sizes_threads_and_addresses_are_reported() {
        let config = config();
        let enough = enough(&config.server);
        let checks: [fn(&LimitFacts, &Config) -> DoctorFinding; 3] =
            [file_size, processes, address_space];
        let severities = |facts: &LimitFacts| checks.map(|check| check(facts, &config).severity);
        assert_eq!(severities(&enough), [Severity::Ok; 3]);
        let payloads = config.server.payload_file_bytes(config.cuda.pinned_bytes);
        let low = LimitFacts {
            file_bytes_max: Some(payloads - 1),
            processes_max: Some(32),
            addresses_max: Some(2 * payloads),
            ..enough
        };
        assert_eq!(severities(&low), [Severity::Problem; 3]);
        let high = LimitFacts {
            file_bytes_max: Some(payloads),
            processes_max: Some(1 << 15),
            addresses_max: Some(1 << 45),
            ..low
        };
        assert_eq!(severities(&high), [Severity::Ok; 3]);
        let few_threads = LimitFacts { processes_max: Some(512), ..high };
        assert_eq!(processes(&few_threads, &config).severity, Severity::Warning);
    }

    #[test]
    fn the_limits_of_a_process_are_read() {
        let head = "Limit                     Soft Limit           Hard Limit           Units\n";
        let of = |line: &str| limit_pair(&format!("{head}{line}\n"), OPEN_FILES);
        assert_eq!(of("Max open files            1024                 4096      files"), {
            Some(LimitPair { soft: Some(1024), hard: Some(4096) })
        });
        assert_eq!(of("Max open files            1024                 unlimited files"), {
            Some(LimitPair { soft: Some(1024), hard: None })
        });
        assert_eq!(of("Max processes             1                    2         processes"), None);
        let limits = fs::read_to_string("/proc/self/limits").unwrap();
        for name in [OPEN_FILES, "Max file size", "Max processes", "Max address space"] {
            assert!(limit_pair(&limits, name).is_some(), "{name}");
        }
    }
}
