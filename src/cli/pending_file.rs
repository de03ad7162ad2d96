//! A file that appears under its name when it is complete.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::exit::{CliFailure, Exit, Result, fail};

/// A file next to the one that it will replace. Removed on drop, unless it was committed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

/// Errors: `Exit::Usage` if an output is an input, or another output: it would replace that file.
pub fn check_distinct(inputs: &[&Path], outputs: &[&Path]) -> Result<()> {
    let targets: Vec<_> = inputs.iter().chain(outputs).map(|path| target(path)).collect();
    for (index, path) in outputs.iter().enumerate() {
        let at = inputs.len() + index;
        let message = match targets[..at].iter().position(|known| *known == targets[at]) {
            None => continue,
            Some(known) if known < inputs.len() => "would replace an input",
            Some(_) => "is named for two outputs",
        };
        return fail(Exit::Usage, format!("{} {message}", path.display()));
    }
    Ok(())
}

/// The file that a path leads to. If it does not exist yet, links to its folder are followed.
fn target(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

impl PendingFile {
    /// Fails if the folder cannot be written to, before the content is computed.
    pub fn create(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| CliFailure::output(path.display(), &error);
        if path == Path::new("-") {
            return fail(Exit::Usage, "standard output is not supported here: name a file");
        }
        let existing = fs::metadata(path).ok();
        // Renaming would replace a device or a pipe by a file.
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            let message = format!("cannot write {}: not a regular file", path.display());
            return fail(Exit::NoOutput, message);
        }
        let path = target(path);
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
        let pending = Self { path, temporary, file };
        if let Some(existing) = existing {
            let permissions = pending.file.set_permissions(existing.permissions());
            permissions.map_err(|error| pending.failure(&error))?;
        }
        Ok(pending)
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
    fn writes_to_the_target_of_a_link_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        let pending = PendingFile::create(&link).unwrap();
        pending.write(b"new").unwrap();
        pending.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn files_are_the_same_however_their_paths_are_written() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [input, link, new] = ["input", "link", "new"].map(|name| folder.path().join(name));
        fs::write(&input, "").unwrap();
        symlink(&input, &link).unwrap();
        let again = folder.path().join("./new");
        let refused = |outputs: &[&Path]| check_distinct(&[&input], outputs).is_err();
        assert!(refused(&[&link]) && refused(&[&new, &again]) && refused(&[&new, &input]));
        assert!(!refused(&[&new, &folder.path().join("other")]));
    }

    #[test]
    fn refuses_to_replace_what_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null"), Path::new("/"), Path::new("")] {
            assert_eq!(PendingFile::create(path).unwrap_err().exit, Exit::NoOutput, "{path:?}");
        }
    }
}
