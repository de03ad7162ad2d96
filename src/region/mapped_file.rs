//! A file that no process changes: one of the data directory, or sealed memory. It holds points or
//! a matrix. Other processes can map the same bytes. Bytes that the disk fails to read are zeros,
//! and code that reads bytes must check afterwards that the file is intact.
//!
//! Stored bases lie in files that nobody changes, of the data directory or in sealed memory, so
//! that workers map them instead of copying them.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use memmap2::{Mmap, MmapOptions};
use rustix::fs;

use super::file_faults::{MappingAccess, WatchedMapping};
use crate::{
    curve::{
        Group,
        layout::points_from_bytes,
        points::{Bases, CurvePoint, FileOfPoints, PointOwner, PointSlice},
    },
    sparse::MatrixOwner,
};

const LIMB_BYTES: u64 = size_of::<u64>() as u64;

/// A file that is mapped from some byte on.
pub struct MappedFile {
    file: OwnedFd,
    /// Declared before the mapping, so that it is dropped first; `None` for no bytes.
    watch: Option<WatchedMapping>,
    /// Its path in the data directory, if it is there.
    stored_as: Option<String>,
    /// Whether the damage was logged.
    is_logged: AtomicBool,
    map: Mmap,
    /// The first mapped byte of the file.
    offset: u64,
}

impl MappedFile {
    /// Maps a file that nobody changes: one of the data directory that has its final name, or
    /// memory that [`super::SealedMemory`] has sealed.
    pub fn map(file: impl Into<OwnedFd>, offset: u64) -> io::Result<Self> {
        let file = file.into();
        let bytes = file_bytes(&file)?.saturating_sub(offset);
        Self::map_bytes(file, offset, bytes)
    }

    /// Like [`Self::map`], but maps only the `bytes` bytes from `offset` on.
    ///
    /// Fails if the file is shorter.
    pub fn map_range(file: impl Into<OwnedFd>, offset: u64, bytes: u64) -> io::Result<Self> {
        let file = file.into();
        if offset.checked_add(bytes).is_none_or(|end| end > file_bytes(&file).unwrap_or(0)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::map_bytes(file, offset, bytes)
    }

    fn map_bytes(file: OwnedFd, offset: u64, bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: nobody changes the file, and removing its name keeps the mapping valid.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(&file) }?;
        let watch = || WatchedMapping::new(map.as_ptr(), map.len(), MappingAccess::ReadOnly);
        let watch = (!map.is_empty()).then(watch).transpose()?;
        let (stored_as, is_logged) = Default::default();
        Ok(Self { file, watch, stored_as, is_logged, map, offset })
    }

    /// Names the file, which is in the data directory.
    pub fn stored_as(self, path: String) -> Self {
        Self { stored_as: Some(path), ..self }
    }

    /// The mapped bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.map
    }

    /// Whether some bytes could not be read, and were read as zeros.
    fn is_damaged(&self) -> bool {
        let is_damaged = self.watch.as_ref().is_some_and(WatchedMapping::is_damaged);
        if let Some(file) = self.stored_as.as_deref().filter(|_| is_damaged)
            && !self.is_logged.swap(true, Ordering::Relaxed)
        {
            tracing::error!(file, "a file of the data directory cannot be read");
        }
        is_damaged
    }

    /// Notes that another process could not read some bytes.
    fn note_damage(&self) {
        // Memory that was only shared does not depend on a disk.
        if let Some(watch) = self.watch.as_ref().filter(|_| self.stored_as.is_some()) {
            watch.mark_damaged();
        }
    }

    /// The file, and its first byte that is mapped.
    pub fn place(&self) -> (BorrowedFd<'_>, u64) {
        (self.file.as_fd(), self.offset)
    }

    /// The points whose Montgomery limbs the mapped bytes are.
    ///
    /// Fails if the bytes are not a whole number of points, or if they are not aligned.
    pub fn into_bases(self, group: Group) -> io::Result<Bases> {
        let is_aligned = self.offset.is_multiple_of(LIMB_BYTES);
        if !is_aligned || !self.map.len().is_multiple_of(group.affine_bytes()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(match group {
            Group::G1 => Bases::G1(PointSlice::new(Arc::new(self))),
            Group::G2 => Bases::G2(PointSlice::new(Arc::new(self))),
        })
    }
}

impl<A: CurvePoint> PointOwner<A> for MappedFile {
    fn points(&self) -> &[A] {
        points_from_bytes(&self.map).expect("`into_bases` checked the length, and maps are aligned")
    }

    fn file(&self) -> Option<FileOfPoints<'_>> {
        Some(FileOfPoints { file: self.file.as_fd(), offset: self.offset })
    }

    fn is_intact(&self) -> bool {
        !self.is_damaged()
    }

    fn mark_damaged(&self) {
        self.note_damage();
    }
}

impl MatrixOwner for MappedFile {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some(self.place())
    }

    fn is_intact(&self) -> bool {
        !self.is_damaged()
    }

    fn mark_damaged(&self) {
        self.note_damage();
    }
}

fn file_bytes(file: &OwnedFd) -> io::Result<u64> {
    Ok(fs::fstat(file)?.st_size as u64)
}
