//! A file that appears under its name when it is complete.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, BufWriter, Write},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};

use super::exit::{CliFailure, Exit, Result, fail};

/// Permission bits of a new file, before the umask.
const MODE: u32 = 0o666;

/// A file next to the one that it will replace. Removed on drop, unless it was committed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
    /// Whether it has the owner of the file that it will replace.
    has_owner: io::Result<()>,
}

/// Replaces a file when the content is complete. What cannot be replaced, such as a pipe, a file in
/// a folder that cannot be written to, or a mount point, is overwritten: if that fails, the old
/// content is lost.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let overwrite =
        || fs::write(path, content).map_err(|error| CliFailure::output(path.display(), &error));
    if is_stream(path) {
        return overwrite();
    }
    match PendingFile::try_create(path, MODE) {
        Ok(pending) => {
            pending.write(content)?;
            pending.commit()
        }
        Err(error) if cannot_be_replaced(&error) => overwrite(),
        Err(error) => Err(CliFailure::output(path.display(), &error)),
    }
}

/// Whether no file can be created next to the one to write, maybe only because of its longer name.
fn cannot_be_replaced(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, PermissionDenied, ReadOnlyFilesystem};
    [PermissionDenied, ReadOnlyFilesystem, InvalidFilename].contains(&error.kind())
}

/// Whether the path leads to a device or a pipe, or to a file that is open in this process, such as
/// `/dev/stderr`.
fn is_stream(path: &Path) -> bool {
    let is_descriptor = |path: &Path| path.starts_with("/proc");
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    folder.is_some_and(|folder| is_descriptor(&folder))
        || fs::read_link(path).is_ok_and(|target| is_descriptor(&target))
        || fs::metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            kind.is_char_device() || kind.is_block_device() || kind.is_fifo()
        })
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
        if path == Path::new("-") {
            return fail(Exit::Usage, "standard output is not supported here: name a file");
        }
        Self::create_with_mode(path, MODE)
    }

    /// Like [`Self::create`]; a file that does not exist yet gets these permission bits.
    pub fn create_with_mode(path: &Path, mode: u32) -> Result<Self> {
        Self::try_create(path, mode).map_err(|error| CliFailure::output(path.display(), &error))
    }

    fn try_create(path: &Path, mode: u32) -> io::Result<Self> {
        let existing = fs::metadata(path).ok();
        // Renaming would replace a device or a pipe by a file.
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            return Err(io::Error::other("not a regular file"));
        }
        let path = target(path);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        // Random, so that a file that a killed process left behind is not in the way.
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", hex::encode(random)));
        let temporary = path.with_file_name(hidden);
        let file = File::options().write(true).create_new(true).mode(mode).open(&temporary)?;
        let mut pending = Self { path, temporary, file, has_owner: Ok(()) };
        if let Some(existing) = existing {
            pending.has_owner = keep_owner(&pending.file, &existing);
            // After the owner, since a change of the owner can clear bits.
            pending.file.set_permissions(existing.permissions())?;
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

    /// Replaces the file. If its owner could not be kept or it is a mount point, it is overwritten:
    /// the old content is kept if the disk is full and the file system can reserve space, but not
    /// after other errors of writing.
    pub fn commit(self) -> Result<()> {
        let overwrite = || overwrite_with(&self.temporary, &self.path);
        let synced = self.file.sync_all();
        let committed = synced.and_then(|()| match &self.has_owner {
            Err(_) => overwrite(),
            Ok(()) => match fs::rename(&self.temporary, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => overwrite(),
                renamed => renamed,
            },
        });
        committed.map_err(|error| self.failure(&error))
    }

    /// Replaces the file as a whole: nobody reads a part of its content.
    ///
    /// Errors: in addition to those of writing, if its owner cannot be kept.
    pub fn replace(self) -> Result<()> {
        self.has_owner.as_ref().map_err(|error| self.failure(error))?;
        let synced = self.file.sync_all();
        let replaced = synced.and_then(|()| fs::rename(&self.temporary, &self.path));
        replaced.map_err(|error| self.failure(&error))
    }

    pub fn failure(&self, error: &io::Error) -> CliFailure {
        CliFailure::output(self.path.display(), error)
    }
}

/// Overwrites a file with the content of another one, after its space is reserved.
fn overwrite_with(from: &Path, to: &Path) -> io::Result<()> {
    let mut content = File::open(from)?;
    let mut file = File::options().write(true).create(true).truncate(false).open(to)?;
    let bytes = content.metadata()?.len();
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.max(1)) {
        // Not every file system reserves space.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // Copied before it is cut, since cutting would free what was reserved.
    io::copy(&mut content, &mut file)?;
    file.set_len(bytes)
}

/// Gives a new file the owner and the group of an existing one.
fn keep_owner(file: &File, existing: &Metadata) -> io::Result<()> {
    let created = file.metadata()?;
    if (created.uid(), created.gid()) == (existing.uid(), existing.gid()) {
        return Ok(());
    }
    fchown(file, Some(existing.uid()), Some(existing.gid()))
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
    fn keeps_the_owner_of_the_file_that_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let owner = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.uid(), found.gid())
        };
        fs::write(&path, "old").unwrap();
        // Only a privileged process can do that; otherwise, the file keeps this process' user.
        let _changed = std::os::unix::fs::chown(&path, Some(1234), Some(1234));
        let before = owner(&path);
        write_file(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), owner(&path)), (&b"new"[..], before));
        // As if this process could not change the owner.
        let mut pending = PendingFile::create(&path).unwrap();
        pending.has_owner = Err(io::ErrorKind::PermissionDenied.into());
        let inode = fs::metadata(&path).unwrap().ino();
        fs::write(&path, "longer than the new content").unwrap();
        pending.write(b"again").unwrap();
        pending.commit().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), owner(&path)), (&b"again"[..], before));
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        let mut pending = PendingFile::create(&path).unwrap();
        pending.has_owner = Err(io::ErrorKind::PermissionDenied.into());
        pending.write(b"token").unwrap();
        assert!(pending.replace().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"again");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_whose_name_leaves_no_room_for_a_longer_one_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(255));
        for content in [&b"old"[..], b"new"] {
            write_file(&path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_open_file_is_written_to_and_a_device_is_not_replaced() {
        for path in ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2", "/dev/null", "/dev/full"] {
            assert!(is_stream(Path::new(path)), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), &folder.path().join("none"), Path::new("none")] {
            assert!(!is_stream(path), "{path:?}");
        }
        write_file(Path::new("/dev/null"), b"lost").unwrap();
        assert_eq!(write_file(folder.path(), b"").unwrap_err().exit, Exit::NoOutput);
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
