//! Memory available to this process: the machine's, or its control group's limit if that is lower.
//! Other limits of control groups, for `capstan doctor`.

use std::{fs, path::Path};

const GROUPS: &str = "/sys/fs/cgroup";
/// A group above `memory.high` is slowed down until it stands still; above `memory.max`, killed.
const MEMORY: LimitFiles = LimitFiles {
    controller: "memory",
    v2: &["memory.max", "memory.high"],
    v1: &["memory.limit_in_bytes"],
};
const SWAP: LimitFiles = LimitFiles { controller: "memory", v2: &["memory.swap.max"], v1: &[] };
const PROCESSES: LimitFiles =
    LimitFiles { controller: "pids", v2: &["pids.max"], v1: &["pids.max"] };

/// The files of control groups that hold one limit, in the two versions of control groups. The
/// lowest number counts.
#[derive(Clone, Copy)]
struct LimitFiles {
    controller: &'static str,
    v2: &'static [&'static str],
    v1: &'static [&'static str],
}

/// Bytes of memory available to this process.
pub fn available_bytes() -> u64 {
    available_to("self")
}

/// Bytes of memory available to a process, named as in `/proc`.
pub fn available_to(process: &str) -> u64 {
    let info = rustix::system::sysinfo();
    // The field's type differs between targets.
    #[allow(clippy::useless_conversion)]
    let machine = u64::from(info.totalram) * u64::from(info.mem_unit.max(1));
    let limit = group_limit(Path::new(GROUPS), &membership(process), MEMORY);
    limit.map_or(machine, |limit| limit.min(machine))
}

/// Bytes of swap that a process may use, named as in `/proc`. The limit of control groups of
/// version 1, which is one of memory and swap together, is ignored.
pub fn swap_limit_bytes(process: &str) -> u64 {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion)]
    let machine = u64::from(info.totalswap) * u64::from(info.mem_unit.max(1));
    let limit = group_limit(Path::new(GROUPS), &membership(process), SWAP);
    limit.map_or(machine, |limit| limit.min(machine))
}

/// The limit of control groups on the processes and threads of a process's group, named as in
/// `/proc`; `None` if there is none.
pub fn process_limit(process: &str) -> Option<u64> {
    group_limit(Path::new(GROUPS), &membership(process), PROCESSES)
}

fn membership(process: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default()
}

/// The smallest limit from the process's group up to the root, in both versions of control groups.
fn group_limit(root: &Path, membership: &str, files: LimitFiles) -> Option<u64> {
    let limits = membership.lines().filter_map(|line| {
        let (_number, controllers_and_group) = line.split_once(':')?;
        match controllers_and_group.split_once(':')? {
            ("", group) => lowest_limit(root, group, files.v2),
            (controllers, group) if controllers.split(',').any(|name| name == files.controller) => {
                lowest_limit(&root.join(files.controller), group, files.v1)
            }
            _ => None,
        }
    });
    limits.min()
}

/// The smallest number in files of these names, from the group's folder up to `root`. In a
/// container the group's folder may not be visible, but then `root` is the container's.
fn lowest_limit(root: &Path, group: &str, files: &[&str]) -> Option<u64> {
    let own = root.join(group.trim_start_matches('/'));
    own.ancestors()
        .take_while(|folder| folder.starts_with(root))
        .flat_map(|folder| files.iter().map(|file| folder.join(file)))
        .filter_map(|path| fs::read_to_string(path).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_lowest_limit_of_all_groups() {
        let root = tempfile::tempdir().unwrap();
        let leaf = root.path().join("slice/unit");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/slice/unit\n", MEMORY), None);
        fs::write(root.path().join("slice/memory.max"), "1000\n").unwrap();
        assert_eq!(group_limit(root.path(), "1:cpu:/\n0::/slice/unit\n", MEMORY), Some(1000));
        fs::write(leaf.join("memory.max"), "500\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/slice/unit\n", MEMORY), Some(500));
        assert_eq!(group_limit(root.path(), "4:cpu:/x\n", MEMORY), None);
    }

    #[test]
    fn a_lower_memory_high_is_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let unit = root.path().join("unit");
        fs::create_dir(&unit).unwrap();
        for (max, high, limit) in [
            ("1000", "max", Some(1000)),
            ("1000", "800", Some(800)),
            ("700", "800", Some(700)),
            ("max", "800", Some(800)),
            ("max", "max", None),
        ] {
            fs::write(unit.join("memory.max"), format!("{max}\n")).unwrap();
            fs::write(unit.join("memory.high"), format!("{high}\n")).unwrap();
            let read = group_limit(root.path(), "0::/unit\n", MEMORY);
            assert_eq!(read, limit, "memory.max {max}, memory.high {high}");
        }
    }

    #[test]
    fn reads_limits_of_groups_of_version_1() {
        let root = tempfile::tempdir().unwrap();
        let limit = |folder: &str, bytes: u64| {
            let folder = root.path().join("memory").join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.limit_in_bytes"), format!("{bytes}\n")).unwrap();
        };
        const UNLIMITED: u64 = 9_223_372_036_854_771_712;
        let membership = "11:cpu,cpuacct:/\n4:hugetlb,memory:/docker/x\n0::/docker/x\n";
        assert_eq!(group_limit(root.path(), membership, MEMORY), None);
        limit("", UNLIMITED);
        assert_eq!(group_limit(root.path(), membership, MEMORY), Some(UNLIMITED));
        limit("docker", 2000);
        limit("docker/x", 3000);
        assert_eq!(group_limit(root.path(), membership, MEMORY), Some(2000));
        let elsewhere = group_limit(root.path(), "5:memory:/elsewhere\n", MEMORY);
        assert_eq!(elsewhere, Some(UNLIMITED));
    }

    #[test]
    fn reads_limits_on_processes_of_both_versions() {
        let root = tempfile::tempdir().unwrap();
        for (folder, limit) in [("unit", "max"), ("pids/unit", "70")] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("pids.max"), limit).unwrap();
        }
        assert_eq!(group_limit(root.path(), "0::/unit\n", PROCESSES), None);
        assert_eq!(group_limit(root.path(), "3:pids:/unit\n", PROCESSES), Some(70));
        fs::write(root.path().join("unit/pids.max"), "60\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/unit\n", PROCESSES), Some(60));
    }

    #[test]
    fn a_limit_of_0_is_a_limit() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("unit")).unwrap();
        fs::write(root.path().join("unit/memory.swap.max"), "0\n").unwrap();
        assert_eq!(group_limit(root.path(), "0::/unit\n", SWAP), Some(0));
        // Version 1 has no such limit.
        assert_eq!(group_limit(root.path(), "4:memory:/unit\n", SWAP), None);
    }

    #[test]
    fn reports_the_memory_of_this_machine() {
        assert!(available_bytes() > 1 << 20);
    }
}
