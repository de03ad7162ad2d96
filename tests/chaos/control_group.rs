//! A control group with a memory limit.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// A group below the test's own one. Dropping it removes it, once no process is in it.
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// A group whose processes may use this much memory.
    ///
    /// Errors: the test has no rights to make one, or its system has none.
    pub fn new(bytes_max: u64) -> io::Result<Self> {
        let membership = fs::read_to_string("/proc/self/cgroup")?;
        let mut reasons = Vec::new();
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(own)) = (parts.next(), parts.next()) else { continue };
            // Version 2, or the hierarchy of memory in version 1.
            let (root, limit) = match controllers {
                "" => (Path::new("/sys/fs/cgroup"), "memory.max"),
                "memory" => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                _ => continue,
            };
            let parent = root.join(own.trim_start_matches('/'));
            match Self::below(&parent, limit, bytes_max) {
                Ok(group) => return Ok(group),
                Err(error) => reasons.push(format!("below {}: {error}", parent.display())),
            }
        }
        Err(io::Error::other(reasons.join("; ")))
    }

    /// A group below `parent`, whose file `limit` gets the limit.
    fn below(parent: &Path, limit: &str, bytes_max: u64) -> io::Result<Self> {
        if limit == "memory.max" {
            enable_memory(&parent.join("cgroup.subtree_control"))?;
        }
        let folder = tempfile::Builder::new().prefix("capstan-chaos-").tempdir_in(parent);
        // Removing a group's files, as `TempDir` would, is not permitted.
        let group = Self { folder: folder.map_err(during("the folder"))?.keep() };
        write(&group.folder.join(limit), &bytes_max.to_string()).map_err(during(limit))?;
        Ok(group)
    }

    /// Shell commands that move the shell to the group.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}; ", self.folder.join("cgroup.procs").display())
    }
}

/// Gives groups below the one with this `subtree_control` a limit of memory, in version 2. The
/// system refuses it with `EBUSY` if processes are in that group, unless it is the root.
fn enable_memory(subtree_control: &Path) -> io::Result<()> {
    let failed = during("cgroup.subtree_control");
    let enabled = fs::read_to_string(subtree_control).map_err(&failed)?;
    if enabled.split_whitespace().any(|controller| controller == "memory") {
        return Ok(());
    }
    write(subtree_control, "+memory").map_err(failed)
}

/// Writes to a file that exists.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn during(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                // The last process is about to leave.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}
