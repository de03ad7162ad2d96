//! A file in which tests plan faults of emulated drivers in other processes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::{TempDir, tempdir_in};

use crate::emulated;

pub struct FaultFile {
    folder: TempDir,
}

impl FaultFile {
    /// A file that plans nothing for running processes, and these faults for those that start.
    pub fn new(of_starts: &str) -> Self {
        // Restricted workers may read the folder of their driver.
        let near = emulated::driver().and_then(|driver| tempdir_in(driver.parent()?).ok());
        let file = Self { folder: near.unwrap_or_else(|| tempfile::tempdir().unwrap()) };
        file.plan("", of_starts);
        file
    }

    /// The setting of the processes that read it.
    pub fn setting(&self) -> (&'static str, String) {
        ("EMU_FAULT_FILE", self.path().display().to_string())
    }

    /// Replaces the planned faults of running processes, and those of processes that start before
    /// the next call of this function.
    pub fn plan(&self, of_running: &str, of_starts: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{of_running}\n{of_starts}\n")).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    /// The temporary folder of the file.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file for a log, which does not exist yet.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("faults")
    }
}

/// The calls that processes reported in a log when the planned fault `fault`, which they had not
/// reached, was replaced.
pub fn dropped_after(log: &str, fault: &str) -> Vec<u64> {
    let begin = format!("fault \"{fault}\" was dropped after ");
    let reports = log.lines().filter_map(|line| line.split_once(&begin));
    reports.map(|(_, rest)| rest.strip_suffix(" calls").unwrap().parse().unwrap()).collect()
}
