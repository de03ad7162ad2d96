//! The data directory: one file per object and tenant, named by its content hash, mapped into
//! memory. Files of tenants other than the default one are in folders with their names.
//!
//! A file is a header (see [`FileHeader`]) and the object's bytes: points as Montgomery limbs, or
//! those of [`SparseShape`]. It is written under a temporary name, synced and renamed, so a file
//! with its final name is complete. When it is opened, its content is checked against its name,
//! which detects damage. A file lock ensures that one daemon uses the directory; the system
//! releases it when the process ends.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    file_header::{FileContent, FileHeader, FileOfBases, HEADER_BYTES},
    object::{ObjectData, ObjectKind, StoreCharge, StoredObject, StoredPoints},
};
use crate::{
    buffer::no_memory,
    curve::{Group, points::content_hasher},
    error::{EngineError, Error, Limit, Result},
    region::MappedFile,
    sparse::{self, MatrixChecker, SparseMatrix, SparseShape},
    telemetry::LogThrottle,
    tenant::TenantName,
    wire::decode::ObjectId,
};

/// Bytes of a file that are read at a time to check its content.
const READ_BYTES: u64 = 16 << 20;

pub struct DataDir {
    folder: PathBuf,
    _lock: File,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("data_dir: {}: {problem}", .path.display())]
pub struct DataDirError {
    path: PathBuf,
    problem: io::Error,
}

impl DataDirError {
    fn new(path: &Path, problem: io::Error) -> Self {
        Self { path: path.to_owned(), problem }
    }

    /// Whether only an administrator can fix the problem. Otherwise a later start may succeed, such
    /// as after another daemon has ended.
    pub fn is_permanent(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem};
        let kind = self.problem.kind();
        matches!(kind, IsADirectory | NotADirectory | PermissionDenied | ReadOnlyFilesystem)
    }
}

/// A file of an object.
pub struct ObjectFile {
    pub id: ObjectId,
    pub kind: ObjectKind,
}

fn extension(kind: ObjectKind) -> &'static str {
    kind.name()
}

fn io_error(what: &str) -> impl Fn(io::Error) -> Error {
    // Without the path, which errors must not show.
    move |error| Error::internal(format!("data directory: {what}: {}", error.kind()))
}

/// The error of a file whose content was read.
fn read_error(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => damaged("not a valid matrix"),
        _ => io_error("cannot be read")(error),
    }
}

/// The refusal of a call whose change of the data directory failed. The log has the cause.
fn write_error(error: io::Error) -> Error {
    static FAILED: LogThrottle = LogThrottle::new();
    if let Some(suppressed) = FAILED.pass() {
        tracing::error!(%error, suppressed, "cannot write to the data directory");
    }
    let refusal = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            EngineError::Exhausted { limit: Limit::Disk, retry_after: None }
        }
        _ => match no_memory("data directory", &error) {
            limit @ EngineError::Exhausted { .. } => limit,
            _ => EngineError::DiskFailed,
        },
    };
    refusal.into()
}

fn damaged(what: &str) -> Error {
    Error::internal(format!("damaged file: {what}: remove it and put the object again"))
}

impl DataDir {
    /// Creates the directory if needed, locks it, and removes unfinished files.
    ///
    /// Errors: the directory cannot be read or written, or another daemon uses it.
    pub fn open(data_dir: &Path) -> Result<Self, DataDirError> {
        let folder = data_dir.join("bases");
        for created in [data_dir, &folder] {
            create_folders(created).map_err(|error| DataDirError::new(created, error))?;
        }
        let disk = Self { folder, _lock: lock(data_dir)? };
        for tenant in disk.tenants()? {
            for unfinished in with_extension(&disk.folder_of(&tenant), "part")? {
                if let Err(error) = fs::remove_file(unfinished) {
                    tracing::warn!(%error, "cannot remove an unfinished file of an object");
                }
            }
        }
        Ok(disk)
    }

    /// The tenants that have a folder, and the default one.
    ///
    /// Errors: a folder cannot be read. To ignore it would lose its objects silently.
    pub fn tenants(&self) -> Result<Vec<TenantName>, DataDirError> {
        let mut tenants = vec![TenantName::default()];
        for path in entries(&self.folder)? {
            let name = path.file_name().and_then(|name| TenantName::new(name.to_str()?));
            match (name, fs::metadata(&path)) {
                (Some(name), Ok(found)) if found.is_dir() => tenants.push(name),
                (Some(_), Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(DataDirError::new(&path, error));
                }
                _ => {}
            }
        }
        Ok(tenants)
    }

    /// The files of a tenant's objects, in the order of their names.
    ///
    /// Errors: the tenant's folder cannot be read.
    pub fn files(&self, tenant: &TenantName) -> Result<Vec<ObjectFile>, DataDirError> {
        let folder = self.folder_of(tenant);
        let mut files = Vec::new();
        for kind in [ObjectKind::Bases, ObjectKind::Matrix] {
            let mut paths = with_extension(&folder, extension(kind))?;
            paths.sort_unstable();
            for path in paths {
                match id(&path) {
                    Some(id) => files.push(ObjectFile { id, kind }),
                    None => {
                        let file = path.file_name();
                        tracing::warn!(?file, "ignored a file whose name is not an id");
                    }
                }
            }
        }
        Ok(files)
    }

    fn folder_of(&self, tenant: &TenantName) -> PathBuf {
        match *tenant == TenantName::default() {
            true => self.folder.clone(),
            false => self.folder.join(tenant.as_str()),
        }
    }

    fn path(&self, tenant: &TenantName, id: ObjectId, kind: ObjectKind) -> PathBuf {
        self.folder_of(tenant).join(hex::encode(id.0)).with_extension(extension(kind))
    }

    /// Writes an object to disk and returns it with its data mapped.
    ///
    /// Errors: `Exhausted` if the disk is full, or the process has too many open files;
    /// `DiskFailed`. Nothing of the object is left in the directory.
    pub fn write(&self, tenant: &TenantName, object: StoredObject) -> Result<StoredObject> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = self.folder_of(tenant);
        let path = self.path(tenant, object.id, object.data.kind());
        // Another `Put` of the same object may be writing too.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{number}.part", std::process::id()));
        // An earlier file of the same object, which was not loaded, stays if this call fails.
        let mut leftover = unfinished.clone();
        let mut write = || -> io::Result<()> {
            if folder != self.folder {
                match fs::create_dir(&folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error)?,
                    // Another call may have made it, and not synced it yet.
                    _ => sync(&self.folder)?,
                }
            }
            let mut file = File::create(&unfinished)?;
            file.write_all(&FileHeader::encode(&object))?;
            file.write_all(object.data.as_bytes())?;
            file.sync_all()?;
            let is_new = is_absent(&path);
            fs::rename(&unfinished, &path)?;
            if is_new {
                leftover.clone_from(&path);
            }
            sync(&folder)
        };
        let written = write().map_err(write_error);
        let mapped = written.and_then(|()| map(&path, FileContent::of(&object.data)));
        // Frees the space: the disk may be full.
        let data = mapped.inspect_err(|_| _ = fs::remove_file(&leftover))?;
        Ok(StoredObject { data, persisted: true, ..object })
    }

    /// Removes the file of an object, and does not return before it stays removed after a crash.
    ///
    /// Errors: those of [`Self::write`].
    pub fn remove(&self, tenant: &TenantName, id: ObjectId, kind: ObjectKind) -> Result<()> {
        match fs::remove_file(self.path(tenant, id, kind)) {
            // Removed by hand, or by an earlier call that could not sync the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(write_error)?,
        }
        sync(&self.folder_of(tenant)).map_err(write_error)
    }

    /// Whether the file of an object is known to be removed.
    pub fn lacks_file(&self, tenant: &TenantName, id: ObjectId, kind: ObjectKind) -> bool {
        is_absent(&self.path(tenant, id, kind))
    }

    /// Checks the header of an object's file, its length, and its content against its name, and
    /// maps it. Points were checked before they were written; a matrix is checked again, since
    /// a wrong index would read other memory. `reserve` charges for the number of bytes.
    ///
    /// Errors: `Internal` if the file is damaged or cannot be read; those of `reserve`.
    pub fn load(
        &self,
        tenant: &TenantName,
        ObjectFile { id, kind }: ObjectFile,
        reserve: impl FnOnce(u64) -> Result<StoreCharge>,
    ) -> Result<StoredObject> {
        let path = self.path(tenant, id, kind);
        let mut header = [0; HEADER_BYTES];
        let mut file = File::open(&path).map_err(io_error("cannot be read"))?;
        let file_bytes = file.metadata().map_err(io_error("cannot be read"))?.len();
        file.read_exact(&mut header).map_err(|_| damaged("shorter than a header"))?;
        let header = FileHeader::decode(kind, id, &header);
        let header = header.ok_or_else(|| damaged("not the header of this object"))?;
        let bytes = file_bytes.saturating_sub(HEADER_BYTES as u64);
        if header.content.bytes() != Some(bytes) {
            return Err(damaged("wrong length"));
        }
        let charge = reserve(bytes)?;
        let hash = match header.content {
            FileContent::Bases(bases) => hash_points(bases.group, file),
            FileContent::Matrix(shape) => hash_matrix(shape, file),
        };
        if hash.map_err(read_error)? != id.0 {
            return Err(damaged("the content does not match the name"));
        }
        let data = map(&path, header.content)?;
        let FileHeader { payload, label, created_s, .. } = header;
        let object = StoredObject { id, data, payload, label, created_s, persisted: true };
        Ok(object.with_charge(charge))
    }
}

/// The object in a file; `None` if the file's name is not an id.
fn id(path: &Path) -> Option<ObjectId> {
    let mut id = [0; 32];
    hex::decode_to_slice(path.file_stem()?.as_encoded_bytes(), &mut id).ok()?;
    Some(ObjectId(id))
}

/// Whether nothing has this name. What cannot be examined is not absent.
fn is_absent(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// The paths of what is in a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataDirError> {
    let paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    paths.map_err(|error| DataDirError::new(folder, error))
}

/// The files of a folder; tenants' names, which name folders, may end like files.
fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, DataDirError> {
    let mut paths = entries(folder)?;
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    paths.retain(|path| path.extension().is_some_and(|e| e == extension) && !is_folder(path));
    Ok(paths)
}

/// Creates a folder unless it exists, and its parents. It survives a crash, also if an earlier
/// start has created it and could not sync its parent.
fn create_folders(folder: &Path) -> io::Result<()> {
    // The root has none.
    let Some(parent) = folder.parent() else { return Ok(()) };
    // A relative path has the current folder as its parent.
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if folder.is_dir() {
        return match sync(parent) {
            // This process cannot have created a folder in one that it may not read or change.
            Err(error) if is_out_of_reach(&error) => Ok(()),
            synced => synced,
        };
    }
    if !parent.is_dir() {
        create_folders(parent)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync(parent),
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Makes changes to a folder's entries survive a crash, except on file systems that cannot sync
/// folders.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn lock(data_dir: &Path) -> Result<File, DataDirError> {
    let path = data_dir.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| DataDirError::new(&path, error))?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            let used = io::Error::new(io::ErrorKind::ResourceBusy, "another daemon uses it");
            DataDirError::new(data_dir, used)
        }
        TryLockError::Error(error) => DataDirError::new(&path, error),
    })?;
    Ok(file)
}

/// The content hash of the rest of a file. It is read and not mapped: an error of the disk is then
/// an error of this file, while a mapping would yield zeros.
fn hash_points(group: Group, mut file: File) -> io::Result<[u8; 32]> {
    let mut hasher = content_hasher(group);
    let mut piece = Vec::new();
    while (&mut file).take(READ_BYTES).read_to_end(&mut piece)? > 0 {
        hasher.update_rayon(&piece);
        piece.clear();
    }
    Ok(hasher.finalize().into())
}

/// Like [`hash_points`], for a matrix, which is checked as well. The error of a matrix that is not
/// valid is of the kind [`io::ErrorKind::InvalidData`].
fn hash_matrix(shape: SparseShape, mut file: File) -> io::Result<[u8; 32]> {
    let mut hasher = sparse::content_hasher(shape);
    let mut checker = MatrixChecker::new(shape, READ_BYTES);
    let mut limbs = Vec::new();
    loop {
        let piece = checker.next_piece();
        let len = (piece.end - piece.start) as usize;
        if len == 0 {
            return Ok(hasher.finalize().into());
        }
        limbs.resize(len.div_ceil(size_of::<u64>()), 0_u64);
        let bytes = &mut bytemuck::cast_slice_mut(&mut limbs)[..len];
        file.read_exact(bytes)?;
        hasher.update_rayon(bytes);
        checker.check_next(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    }
}

fn map(path: &Path, content: FileContent) -> Result<ObjectData> {
    // The file belongs to this server and never changes once it has its name: it is written under
    // a temporary name, renamed when complete, and only ever unlinked. No other program may write
    // into the data directory.
    let mapped = File::open(path).and_then(|file| MappedFile::map(file, HEADER_BYTES as u64));
    let mapped = mapped.map_err(|error| no_memory("data directory: cannot be mapped", &error))?;
    let mapped = mapped.stored_as(path.display().to_string());
    if Some(mapped.as_bytes().len() as u64) != content.bytes() {
        return Err(damaged("wrong length"));
    }
    match content {
        FileContent::Bases(FileOfBases { group, infinities, .. }) => {
            let points = mapped.into_bases(group).map_err(|_| damaged("wrong length"))?;
            Ok(ObjectData::Bases(StoredPoints { points, infinities }))
        }
        FileContent::Matrix(shape) => {
            let matrix = SparseMatrix::unchecked(shape, Arc::new(mapped));
            matrix.map(ObjectData::Matrix).map_err(|_| damaged("wrong length"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_exhausted_limit() {
        let full = Error::from(EngineError::Exhausted { limit: Limit::Disk, retry_after: None });
        assert_eq!(write_error(io::ErrorKind::StorageFull.into()), full);
        assert_eq!(write_error(io::ErrorKind::QuotaExceeded.into()), full);
        assert_eq!(write_error(io::ErrorKind::FileTooLarge.into()), full);
        assert_eq!(write_error(io::ErrorKind::PermissionDenied.into()), Error::DISK_FAILED);
    }
}
