//! A control group with a memory limit.

use std::{
    fs, io,
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
        let name = format!("capstan-chaos-{}", std::process::id());
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(own)) = (parts.next(), parts.next()) else { continue };
            // Version 2, or the hierarchy of memory in version 1.
            let (root, limit) = match controllers {
                "" => (Path::new("/sys/fs/cgroup"), "memory.max"),
                "memory" => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                _ => continue,
            };
            let folder = root.join(own.trim_start_matches('/')).join(&name);
            let group = Self { folder };
            let made = fs::create_dir(&group.folder).and_then(|()| {
                let limit = fs::OpenOptions::new().write(true).open(group.folder.join(limit))?;
                io::Write::write_all(&mut &limit, bytes_max.to_string().as_bytes())
            });
            match made {
                Ok(()) => return Ok(group),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Shell commands that move the shell to the group.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}; ", self.folder.join("cgroup.procs").display())
    }
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
