//! Memory available to this process: the machine's, or its control group's limit if that is lower.

use std::{fs, path::Path};

/// Bytes of memory available to this process.
pub fn available_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The field's type differs between targets.
    #[allow(clippy::useless_conversion)]
    let machine = u64::from(info.totalram) * u64::from(info.mem_unit.max(1));
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_limit_bytes(Path::new("/sys/fs/cgroup"), &group).map_or(machine, |n| n.min(machine))
}

/// The smallest `memory.max` from the process's group up to the root (cgroup v2).
fn group_limit_bytes(root: &Path, membership: &str) -> Option<u64> {
    let own = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = root.join(own.trim_start_matches('/'));
    own.ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(|folder| fs::read_to_string(folder.join("memory.max")).ok())
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
        assert_eq!(group_limit_bytes(root.path(), "0::/slice/unit\n"), None);
        fs::write(root.path().join("slice/memory.max"), "1000\n").unwrap();
        assert_eq!(group_limit_bytes(root.path(), "1:cpu:/\n0::/slice/unit\n"), Some(1000));
        fs::write(leaf.join("memory.max"), "500\n").unwrap();
        assert_eq!(group_limit_bytes(root.path(), "0::/slice/unit\n"), Some(500));
        assert_eq!(group_limit_bytes(root.path(), "4:memory:/x\n"), None);
    }

    #[test]
    fn reports_the_memory_of_this_machine() {
        assert!(available_bytes() > 1 << 20);
    }
}
