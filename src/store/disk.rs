//! The data directory: one file for each object, named by its content, mapped into memory.
//!
//! A file is a header of 256 bytes (see [`Meta`]) and the points as Montgomery limbs. It is written
//! under another name, synced and renamed, so a file with a proper name is whole; its content is
//! checked against its name when it is opened, so a damaged disk is noticed. One daemon at a time
//! has the directory: it holds a lock that the system takes back when the process ends.
#![allow(unsafe_code)]

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use super::bases::{Room, StoredBases};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        layout::{points_as_bytes, points_from_bytes},
        points::{Bases, CurvePoint, PointEncoding, PointSlice, id_of},
    },
    error::{Error, Result},
    wire::decode::{ObjectId, PayloadId},
};

const EXTENSION: &str = "bases";
/// Locked by the daemon that has the directory.
const LOCK: &str = "lock";
const HEADER_BYTES: usize = 256;
const MAGIC: &[u8; 8] = b"CAPSTAN\x01";
/// Where the header says how the payload wrote its points: 0 where it does not.
const ENCODING_AT: usize = 72;
/// By their number in the header, less one.
const ENCODINGS: [PointEncoding; 3] =
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery];
/// Where the label begins in the header; its length is one byte before.
const LABEL_AT: usize = 80;

/// The data directory.
pub struct Disk {
    folder: PathBuf,
    _lock: File,
}

/// A file's header: magic (8), group 1 or 2 (8), count (8), infinities (8), created (8), payload
/// hash (32), payload encoding (1, zero where the payload is unknown: files of earlier versions say
/// its hash alone), reserved (6), label length (1), label. Integers little-endian.
struct Meta {
    group: Group,
    count: u64,
    infinities: u64,
    created_s: i64,
    payload: Option<PayloadId>,
    label: String,
}

impl Meta {
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
            said => {
                let encoding = *ENCODINGS.get(usize::from(said) - 1)?;
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

/// Points in a mapped file, after its header.
struct Mapped(Mmap);

impl<A: CurvePoint> AsRef<[A]> for Mapped {
    fn as_ref(&self) -> &[A] {
        points_from_bytes(&self.0[HEADER_BYTES..]).expect("length and alignment were checked")
    }
}

fn trouble(what: &str, error: &io::Error) -> Error {
    // The path stays out of what a client may see; the kind of trouble does not hurt.
    Error::Internal(format!("data directory: {what}: {}", error.kind()))
}

fn damaged(what: &str) -> Error {
    Error::Internal(format!("damaged file: {what}"))
}

impl Disk {
    /// Makes sure that the directory is there, can be written to and is nobody else's; removes
    /// unfinished files.
    ///
    /// Errors: `Internal` where the disk refuses, or another daemon has the directory.
    pub fn open(data_dir: &Path) -> Result<Self> {
        let folder = data_dir.join("bases");
        fs::create_dir_all(&folder).map_err(|error| trouble("cannot be created", &error))?;
        let disk = Self { folder, _lock: lock(data_dir)? };
        for unfinished in disk.with_extension("part") {
            fs::remove_file(unfinished).map_err(|error| trouble("cannot be written", &error))?;
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

    /// Writes bases to disk and gives them back mapped.
    ///
    /// Errors: `Internal` where the disk refuses.
    pub fn keep(&self, bases: StoredBases) -> Result<StoredBases> {
        let meta = Meta {
            group: bases.points.group(),
            count: bases.points.len() as u64,
            infinities: bases.infinities,
            created_s: bases.created_s,
            payload: bases.payload,
            label: bases.label.clone(),
        };
        let path = self.path(bases.id);
        // Another `Put` of the same bases may be writing too.
        let unfinished = tempfile_beside(&path);
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
            // A full disk stays full of it otherwise.
            let _gone = fs::remove_file(&unfinished);
            trouble("cannot be written", &error)
        })?;
        let points = map(&path, &meta)?;
        Ok(StoredBases { points, persisted: true, ..bases })
    }

    /// Removes a file.
    ///
    /// Errors: `Internal` where the disk refuses.
    pub fn forget(&self, id: ObjectId) -> Result<()> {
        match fs::remove_file(self.path(id)) {
            // Whoever removed it by hand did what was asked for.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| trouble("cannot be written", &error)),
        }
    }

    /// Maps a file and checks it: header, length, and content against name. The points in it were
    /// checked before they were written. `room` is asked for what they take.
    ///
    /// Errors: `Internal` for a damaged file; what `room` says.
    pub fn load(
        path: &Path,
        room: impl FnOnce(Group, u64) -> Result<Room>,
    ) -> Result<(StoredBases, Room)> {
        let mut header = [0; HEADER_BYTES];
        let mut file = File::open(path).map_err(|error| trouble("cannot be read", &error))?;
        io::Read::read_exact(&mut file, &mut header).map_err(|_| damaged("too short"))?;
        let meta = Meta::decode(&header).ok_or_else(|| damaged("not a header"))?;
        let room = room(meta.group, meta.count)?;
        let points = map(path, &meta)?;
        let id = match &points {
            Bases::G1(points) => id_of::<G1Affine>(points),
            Bases::G2(points) => id_of::<G2Affine>(points),
        };
        if path.file_stem().is_none_or(|stem| *stem != *hex::encode(id)) {
            return Err(damaged("its content is not what its name says"));
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
    let file = file.map_err(|error| trouble("cannot be written", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Internal("data directory: another daemon uses it".into()))
        }
        Err(TryLockError::Error(error)) => Err(trouble("cannot be locked", &error)),
    }
}

fn tempfile_beside(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.part", std::process::id()))
}

fn map(path: &Path, meta: &Meta) -> Result<Bases> {
    let open = || -> io::Result<Mmap> {
        let file = File::open(path)?;
        // SAFETY: the file is private to this server and is never changed once it has its name: it
        // is written under another one, renamed when whole, and only ever unlinked, which leaves
        // the mapping intact. Whoever else writes into the data directory breaks this, as they
        // would break the bases themselves; deploy/README.md says so.
        unsafe { Mmap::map(&file) }
    };
    let mapped = open().map_err(|error| trouble("cannot be mapped", &error))?;
    let bytes = (mapped.len() as u64).checked_sub(HEADER_BYTES as u64);
    if bytes != meta.count.checked_mul(meta.group.affine_bytes() as u64) {
        return Err(damaged("its length"));
    }
    Ok(match meta.group {
        Group::G1 => Bases::G1(PointSlice::new(Arc::new(Mapped(mapped)))),
        Group::G2 => Bases::G2(PointSlice::new(Arc::new(Mapped(mapped)))),
    })
}
