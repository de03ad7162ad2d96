//! A file that appears under its name when it is complete.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::cli::exit::{CliFailure, Exit, Result, fail};

/// A file next to the one that it will replace. Removed on drop, unless it was committed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

/// Errors: `Exit::Usage` if two outputs have the same path: one would replace the other.
pub fn check_distinct(paths: &[&Path]) -> Result<()> {
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].contains(path) {
            let message = format!("two outputs have the same name: {}", path.display());
            return fail(Exit::Usage, message);
        }
    }
    Ok(())
}

impl PendingFile {
    /// Fails if the folder cannot be written to, before the content is computed.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| CliFailure::output(path.display(), &error);
        // Renaming would replace a device or a pipe by a file.
        if fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
            let message = format!("cannot write {}: not a regular file", path.display());
            return fail(Exit::NoOutput, message);
        }
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        // Random, so that a file that a killed process left behind is not in the way.
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| failed(io::Error::other(error.to_string())))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", hex::encode(random)));
        let temporary = path.with_file_name(hidden);
        let file = File::create_new(&temporary).map_err(failed)?;
        Ok(Self { path: path.to_owned(), temporary, file })
    }

    /// Another handle, for a thread that writes the content.
    pub fn writer(&self) -> Result<BufWriter<File>> {
        let file = self.file.try_clone().map_err(|error| self.failure(&error))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    pub fn write(&self, content: &[u8]) -> Result<()> {
        (&self.file).write_all(content).map_err(|error| self.failure(&error))
    }

    /// Replaces the file.
    pub fn commit(self) -> Result<()> {
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(|error| self.failure(&error))
    }

    pub fn failure(&self, error: &io::Error) -> CliFailure {
        CliFailure::output(self.path.display(), error)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // Does not exist after a commit.
        let _removed = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_file_only_when_it_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        fs::write(&path, "old").unwrap();
        let pending = PendingFile::create(&path).unwrap();
        pending.write(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(pending);
        assert_eq!((fs::read(&path).unwrap().as_slice(), names()), (&b"old"[..], 1));
        let pending = PendingFile::create(&path).unwrap();
        pending.write(b"new").unwrap();
        pending.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), names()), (&b"new"[..], 1));
    }

    #[test]
    fn refuses_to_replace_what_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null"), Path::new("/"), Path::new("")] {
            assert_eq!(PendingFile::create(path).unwrap_err().exit, Exit::NoOutput, "{path:?}");
        }
    }
}
