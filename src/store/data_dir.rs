//! The data directory: one file per object, named by its content hash, mapped into memory.
//!
//! A file is a header of 256 bytes (see [`FileHeader`]) and the points as Montgomery limbs. It is
//! written under a temporary name, synced and renamed, so a file with its final name is complete.
//! When it is opened, its content is checked against its name, which detects damage. A file lock
//! ensures that one daemon uses the directory; the system releases it when the process ends.
#![allow(unsafe_code)]

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use super::bases::{StoreCharge, StoredBases};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        layout::{points_as_bytes, points_from_bytes},
        points::{Bases, CurvePoint, PointEncoding, PointSlice, content_hash},
    },
    error::{Error, Result},
    wire::decode::{ObjectId, PayloadId},
};

const EXTENSION: &str = "bases";
/// Name of the lock file.
const LOCK: &str = "lock";
const HEADER_BYTES: usize = 256;
const MAGIC: &[u8; 8] = b"CAPSTAN\x01";
/// Offset of the payload encoding in the header; 0 there means unknown.
const ENCODING_AT: usize = 72;
/// Payload encodings: the header stores the index plus one.
const ENCODINGS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];
/// Offset of the label in the header; the byte before it is the label's length.
const LABEL_AT: usize = 80;

/// The data directory.
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
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let group = match self.group {
            Group::G1 => 1u64,
            Group::G2 => 2,
        };
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&group.to_le_bytes());
        header[16..24].copy_from_slice(&self.count.to_le_bytes());
        header[24..32].copy_from_slice(&self.infinities.to_le_bytes());
        header[32..40].copy_from_slice(&self.created_s.to_le_bytes());
        if let Some(PayloadId { hash, encoding }) = self.payload {
            header[40..ENCODING_AT].copy_from_slice(&hash);
            let known = ENCODINGS.iter().position(|other| *other == encoding);
            header[ENCODING_AT] = known.map_or(0, |number| number as u8 + 1);
        }
        header[LABEL_AT - 1] = self.label.len() as u8;
        header[LABEL_AT..LABEL_AT + self.label.len()].copy_from_slice(self.label.as_bytes());
        header
    }

    fn decode(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes);
        let group = match word(8).ok()? {
            1 => Group::G1,
            2 => Group::G2,
            _ => return None,
        };
        let label = header.get(LABEL_AT..LABEL_AT + usize::from(header[LABEL_AT - 1]))?;
        let hash: [u8; 32] = header[40..ENCODING_AT].try_into().ok()?;
        let payload = match header[ENCODING_AT] {
            0 => None,
            number => {
                let encoding = *ENCODINGS.get(usize::from(number) - 1)?;
                Some(PayloadId { hash, encoding })
            }
        };
        Some(Self {
            group,
            count: word(16).ok()?,
            infinities: word(24).ok()?,
            created_s: word(32).ok()? as i64,
            payload,
            label: String::from_utf8(label.to_vec()).ok()?,
        })
        .filter(|_| header[..8] == *MAGIC)
    }
}

/// A mapped file: the header, then points.
struct MappedPoints(Mmap);

impl<A: CurvePoint> AsRef<[A]> for MappedPoints {
    fn as_ref(&self) -> &[A] {
        points_from_bytes(&self.0[HEADER_BYTES..]).expect("`map` checked the length")
    }
}

fn io_error(what: &str, error: &io::Error) -> Error {
    // Without the path, which errors must not show.
    Error::Internal(format!("data directory: {what}: {}", error.kind()))
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
        fs::create_dir_all(&folder).map_err(|error| io_error("cannot be created", &error))?;
        let disk = Self { folder, _lock: lock(data_dir)? };
        for unfinished in disk.with_extension("part") {
            fs::remove_file(unfinished).map_err(|error| io_error("cannot be written", &error))?;
        }
        Ok(disk)
    }

    /// All object files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.with_extension(EXTENSION)
    }

    fn with_extension(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        self.folder.join(hex::encode(id.0)).with_extension(EXTENSION)
    }

    /// Writes bases to disk and returns them with their points mapped.
    ///
    /// Errors: `Internal` if writing or mapping fails.
    pub fn write(&self, bases: StoredBases) -> Result<StoredBases> {
        let meta = FileHeader {
            group: bases.points.group(),
            count: bases.points.len() as u64,
            infinities: bases.infinities,
            created_s: bases.created_s,
            payload: bases.payload,
            label: bases.label.clone(),
        };
        let path = self.path(bases.id);
        // Another `Put` of the same bases may be writing too.
        let unfinished = unfinished_path(&path);
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(&meta.encode())?;
            file.write_all(match &bases.points {
                Bases::G1(points) => points_as_bytes::<G1Affine>(points),
                Bases::G2(points) => points_as_bytes::<G2Affine>(points),
            })?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| {
            // Frees the space: the disk may be full.
            let _gone = fs::remove_file(&unfinished);
            io_error("cannot be written", &error)
        })?;
        let points = map(&path, &meta)?;
        Ok(StoredBases { points, persisted: true, ..bases })
    }

    /// Removes the file of an object.
    ///
    /// Errors: `Internal` if removing fails.
    pub fn remove(&self, id: ObjectId) -> Result<()> {
        match fs::remove_file(self.path(id)) {
            // Removed by hand: nothing is left to do.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| io_error("cannot be written", &error)),
        }
    }

    /// Maps a file and checks its header, its length, and its content against its name. The points
    /// were checked before they were written. `room` reserves room for the group and count.
    ///
    /// Errors: `Internal` if the file is damaged; those of `room`.
    pub fn load(
        path: &Path,
        room: impl FnOnce(Group, u64) -> Result<StoreCharge>,
    ) -> Result<(StoredBases, StoreCharge)> {
        let mut header = [0; HEADER_BYTES];
        let mut file = File::open(path).map_err(|error| io_error("cannot be read", &error))?;
        io::Read::read_exact(&mut file, &mut header)
            .map_err(|_| damaged("shorter than a header"))?;
        let meta = FileHeader::decode(&header).ok_or_else(|| damaged("invalid header"))?;
        let room = room(meta.group, meta.count)?;
        let points = map(path, &meta)?;
        let id = match &points {
            Bases::G1(points) => content_hash::<G1Affine>(points),
            Bases::G2(points) => content_hash::<G2Affine>(points),
        };
        if path.file_stem().is_none_or(|stem| *stem != *hex::encode(id)) {
            return Err(damaged("the content does not match the name"));
        }
        let bases = StoredBases {
            id: ObjectId(id),
            points,
            infinities: meta.infinities,
            payload: meta.payload,
            label: meta.label,
            created_s: meta.created_s,
            persisted: true,
        };
        Ok((bases, room))
    }
}

fn lock(data_dir: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(data_dir.join(LOCK));
    let file = file.map_err(|error| io_error("cannot be written", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Internal(
            "data directory: another daemon uses it: set another data_dir".into(),
        )),
        Err(TryLockError::Error(error)) => Err(io_error("cannot be locked", &error)),
    }
}

fn unfinished_path(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.part", std::process::id()))
}

fn map(path: &Path, meta: &FileHeader) -> Result<Bases> {
    let open = || -> io::Result<Mmap> {
        let file = File::open(path)?;
        // SAFETY: the file belongs to this server and never changes once it has its name: it is
        // written under a temporary name, renamed when complete, and only ever unlinked, which
        // keeps the mapping valid. No other program may write into the data directory.
        unsafe { Mmap::map(&file) }
    };
    let mapped = open().map_err(|error| io_error("cannot be mapped", &error))?;
    let bytes = (mapped.len() as u64).checked_sub(HEADER_BYTES as u64);
    if bytes != meta.count.checked_mul(meta.group.affine_bytes() as u64) {
        return Err(damaged("wrong length"));
    }
    Ok(match meta.group {
        Group::G1 => Bases::G1(PointSlice::new(Arc::new(MappedPoints(mapped)))),
        Group::G2 => Bases::G2(PointSlice::new(Arc::new(MappedPoints(mapped)))),
    })
}
