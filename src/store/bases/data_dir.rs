//! The data directory: one file per object and tenant, named by its content hash, mapped into
//! memory. Files of tenants other than the default one are in folders with their names.
//!
//! A file is a header of 256 bytes (see [`FileHeader`]) and the points as Montgomery limbs. It is
//! written under a temporary name, synced and renamed, so a file with its final name is complete.
//! When it is opened, its content is checked against its name, which detects damage. A file lock
//! ensures that one daemon uses the directory; the system releases it when the process ends.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use bytes::{Buf, BufMut};

use super::object::{StoreCharge, StoredBases};
use crate::{
    buffer::no_memory,
    curve::{
        G1Affine, G2Affine, Group,
        layout::points_as_bytes,
        points::{Bases, PointEncoding, content_hasher},
    },
    error::{Error, Limit, Result},
    region::PointsFile,
    telemetry::LogThrottle,
    tenant::TenantName,
    wire::decode::{self, ObjectId, PayloadId},
};

const EXTENSION: &str = "bases";
const HEADER_BYTES: usize = 256;
const MAGIC: [u8; 8] = *b"CAPSTAN\x01";
/// Payload encodings: the header stores the index plus one.
const ENCODINGS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];
const RESERVED_BYTES: usize = 6;
/// Bytes of a file that are read at a time to check its content.
const READ_BYTES: u64 = 16 << 20;

pub struct DataDir {
    folder: PathBuf,
    _lock: File,
}

/// A file's header: magic (8 bytes), group 1 or 2 (8), count (8), infinities (8), created (8),
/// payload hash (32), payload encoding (1), reserved (6), label length (1), label. Integers are
/// little-endian. Encoding 0: payload unknown; earlier versions stored its hash only.
struct FileHeader {
    group: Group,
    count: u64,
    infinities: u64,
    created_s: i64,
    payload: Option<PayloadId>,
    label: String,
}

impl FileHeader {
    fn encode(bases: &StoredBases) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.put_slice(&MAGIC);
        header.put_u64_le(match bases.points.group() {
            Group::G1 => 1,
            Group::G2 => 2,
        });
        header.put_u64_le(bases.points.len() as u64);
        header.put_u64_le(bases.infinities);
        header.put_i64_le(bases.created_s);
        header.put_slice(&bases.payload.map_or([0; 32], |payload| payload.hash));
        let encoding = |payload: PayloadId| ENCODINGS.iter().position(|e| *e == payload.encoding);
        header.put_u8(bases.payload.and_then(encoding).map_or(0, |index| index as u8 + 1));
        header.put_bytes(0, RESERVED_BYTES);
        header.put_u8(bases.label.len() as u8);
        header.put_slice(bases.label.as_bytes());
        header.resize(HEADER_BYTES, 0);
        header
    }

    fn decode(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut header = header.strip_prefix(&MAGIC)?;
        let group = match header.get_u64_le() {
            1 => Group::G1,
            2 => Group::G2,
            _ => return None,
        };
        let (count, infinities) = (header.get_u64_le(), header.get_u64_le());
        let created_s = header.get_i64_le();
        let (&hash, mut header) = header.split_first_chunk()?;
        let payload = match header.get_u8() {
            0 => None,
            number => Some(PayloadId { hash, encoding: *ENCODINGS.get(usize::from(number) - 1)? }),
        };
        header.advance(RESERVED_BYTES);
        let label_bytes = header.get_u8().into();
        let label = String::from_utf8(header.get(..label_bytes)?.to_vec()).ok()?;
        // The name of the file covers the points only.
        let is_sound = infinities <= count && decode::label(&label).is_ok();
        if !is_sound {
            return None;
        }
        Some(Self { group, count, infinities, created_s, payload, label })
    }
}

fn io_error(what: &str) -> impl Fn(io::Error) -> Error {
    // Without the path, which errors must not show.
    move |error| Error::Internal(format!("data directory: {what}: {}", error.kind()))
}

/// The refusal of a call whose change of the data directory failed. The log has the cause.
fn write_error(error: io::Error) -> Error {
    static FAILED: LogThrottle = LogThrottle::new();
    if let Some(suppressed) = FAILED.pass() {
        tracing::error!(%error, suppressed, "cannot write to the data directory");
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::Exhausted { limit: Limit::Disk, retry_after: None }
        }
        _ => match no_memory("data directory", &error) {
            limit @ Error::Exhausted { .. } => limit,
            _ => Error::DiskFailed,
        },
    }
}

fn damaged(what: &str) -> Error {
    Error::Internal(format!("damaged file: {what}: remove it and put the bases again"))
}

impl DataDir {
    /// Creates the directory if needed, locks it, and removes unfinished files.
    ///
    /// Errors: `Internal` if the directory cannot be written or another daemon uses it.
    pub fn open(data_dir: &Path) -> Result<Self> {
        let folder = data_dir.join("bases");
        fs::create_dir_all(&folder).map_err(io_error("cannot be created"))?;
        let disk = Self { folder, _lock: lock(data_dir)? };
        for tenant in disk.tenants() {
            for unfinished in with_extension(&disk.folder_of(&tenant), "part") {
                if let Err(error) = fs::remove_file(unfinished) {
                    tracing::warn!(%error, "cannot remove an unfinished file of bases");
                }
            }
        }
        Ok(disk)
    }

    /// The tenants that have a folder, and the default one.
    pub fn tenants(&self) -> Vec<TenantName> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let names = folders.filter_map(|entry| TenantName::new(entry.file_name().to_str()?));
        names.chain([TenantName::default()]).collect()
    }

    /// The files of a tenant's bases, with their names in order.
    pub fn files(&self, tenant: &TenantName) -> Vec<PathBuf> {
        let mut files = with_extension(&self.folder_of(tenant), EXTENSION);
        files.sort_unstable();
        files
    }

    fn folder_of(&self, tenant: &TenantName) -> PathBuf {
        match *tenant == TenantName::default() {
            true => self.folder.clone(),
            false => self.folder.join(tenant.as_str()),
        }
    }

    /// The object in a file; `None` if the file's name is no id.
    pub fn id(path: &Path) -> Option<ObjectId> {
        let mut id = [0; 32];
        hex::decode_to_slice(path.file_stem()?.as_encoded_bytes(), &mut id).ok()?;
        Some(ObjectId(id))
    }

    fn path(&self, tenant: &TenantName, id: ObjectId) -> PathBuf {
        self.folder_of(tenant).join(hex::encode(id.0)).with_extension(EXTENSION)
    }

    /// Writes bases to disk and returns them with their points mapped.
    ///
    /// Errors: `Exhausted` if the disk is full, or the process has too many open files;
    /// `DiskFailed`. Nothing of the bases is left in the directory.
    pub fn write(&self, tenant: &TenantName, bases: StoredBases) -> Result<StoredBases> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (folder, path) = (self.folder_of(tenant), self.path(tenant, bases.id));
        // Another `Put` of the same bases may be writing too.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}-{number}.part", std::process::id()));
        // An earlier file of the same bases, which was not loaded, stays if this call fails.
        let mut leftover = unfinished.clone();
        let mut write = || -> io::Result<()> {
            if !folder.exists() {
                fs::create_dir(&folder)?;
                sync(&self.folder)?;
            }
            let mut file = File::create(&unfinished)?;
            file.write_all(&FileHeader::encode(&bases))?;
            file.write_all(match &bases.points {
                Bases::G1(points) => points_as_bytes::<G1Affine>(points),
                Bases::G2(points) => points_as_bytes::<G2Affine>(points),
            })?;
            file.sync_all()?;
            let is_new = !path.exists();
            fs::rename(&unfinished, &path)?;
            if is_new {
                leftover.clone_from(&path);
            }
            sync(&folder)
        };
        let (group, count) = (bases.points.group(), bases.points.len() as u64);
        let written = write().map_err(write_error);
        let mapped = written.and_then(|()| map(&path, group, count));
        // Frees the space: the disk may be full.
        let points = mapped.inspect_err(|_| _ = fs::remove_file(&leftover))?;
        Ok(StoredBases { points, persisted: true, ..bases })
    }

    /// Removes the file of an object, and does not return before it stays removed after a crash.
    ///
    /// Errors: those of [`Self::write`].
    pub fn remove(&self, tenant: &TenantName, id: ObjectId) -> Result<()> {
        match fs::remove_file(self.path(tenant, id)) {
            // Removed by hand, or by an earlier call that could not sync the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(write_error)?,
        }
        sync(&self.folder_of(tenant)).map_err(write_error)
    }

    pub fn has_file(&self, tenant: &TenantName, id: ObjectId) -> bool {
        self.path(tenant, id).exists()
    }

    /// Checks the header of an object's file, its length, and its content against its name, and
    /// maps it. The points were checked before they were written. `reserve` charges for the group
    /// and count.
    ///
    /// Errors: `Internal` if the file is damaged or cannot be read; those of `reserve`.
    pub fn load(
        &self,
        tenant: &TenantName,
        id: ObjectId,
        reserve: impl FnOnce(Group, u64) -> Result<StoreCharge>,
    ) -> Result<StoredBases> {
        let path = self.path(tenant, id);
        let mut header = [0; HEADER_BYTES];
        let mut file = File::open(&path).map_err(io_error("cannot be read"))?;
        file.read_exact(&mut header).map_err(|_| damaged("shorter than a header"))?;
        let header = FileHeader::decode(&header).ok_or_else(|| damaged("invalid header"))?;
        let charge = reserve(header.group, header.count)?;
        if hash_points(header.group, file).map_err(io_error("cannot be read"))? != id.0 {
            return Err(damaged("the content does not match the name"));
        }
        let points = map(&path, header.group, header.count)?;
        let bases = StoredBases {
            id,
            points,
            infinities: header.infinities,
            payload: header.payload,
            label: header.label,
            created_s: header.created_s,
            persisted: true,
        };
        Ok(bases.with_charge(charge))
    }
}

/// The files of a folder; tenants' names, which name folders, may end like files.
fn with_extension(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let paths = entries.filter(|entry| !is_folder(entry)).map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

/// Makes changes of a folder's names survive a crash.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn lock(data_dir: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(data_dir.join("lock"));
    let file = file.map_err(io_error("cannot be written"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Internal(
            "data directory: another daemon uses it: set another data_dir".into(),
        )),
        Err(TryLockError::Error(error)) => Err(io_error("cannot be locked")(error)),
    }
}

/// The content hash of the rest of a file. It is read and not mapped: an error of the disk is then
/// an error of this file, while a mapping would end the process.
fn hash_points(group: Group, mut file: File) -> io::Result<[u8; 32]> {
    let (mut hasher, mut piece) = (content_hasher(group), Vec::new());
    while (&mut file).take(READ_BYTES).read_to_end(&mut piece)? > 0 {
        hasher.update_rayon(&piece);
        piece.clear();
    }
    Ok(hasher.finalize().into())
}

fn map(path: &Path, group: Group, count: u64) -> Result<Bases> {
    // The file belongs to this server and never changes once it has its name: it is written under
    // a temporary name, renamed when complete, and only ever unlinked. No other program may write
    // into the data directory.
    let mapped = File::open(path).and_then(|file| PointsFile::map(file, HEADER_BYTES as u64));
    let mapped = mapped.map_err(|error| no_memory("data directory: cannot be mapped", &error))?;
    if Some(mapped.points_bytes()) != count.checked_mul(group.affine_bytes() as u64) {
        return Err(damaged("wrong length"));
    }
    mapped.into_bases(group).map_err(|_| damaged("wrong length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_exhausted_limit() {
        let full = Error::Exhausted { limit: Limit::Disk, retry_after: None };
        assert_eq!(write_error(io::ErrorKind::StorageFull.into()), full);
        assert_eq!(write_error(io::ErrorKind::QuotaExceeded.into()), full);
        assert_eq!(write_error(io::ErrorKind::FileTooLarge.into()), full);
        assert_eq!(write_error(io::ErrorKind::PermissionDenied.into()), Error::DiskFailed);
    }
}
