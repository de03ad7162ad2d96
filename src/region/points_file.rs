//! Points in a file that no process changes: in a file of the data directory, or in sealed memory.
//! Other processes can map the same points.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use memmap2::{Mmap, MmapOptions};
use rustix::fs::{self, MemfdFlags, SealFlags};

use crate::curve::{
    Group,
    layout::points_from_bytes,
    points::{Bases, CurvePoint, FileOfPoints, PointOwner, PointSlice},
};

const LIMB_BYTES: u64 = size_of::<u64>() as u64;

/// A mapped file that holds points as Montgomery limbs from some byte on.
pub struct PointsFile {
    file: OwnedFd,
    /// Begins with the first point.
    map: Mmap,
    /// The first byte of the points in the file.
    offset: u64,
}

impl PointsFile {
    /// Maps a file that nobody changes: one of the data directory that has its final name, or
    /// memory that [`SealedPoints`] has sealed.
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
        Ok(Self { file, map, offset })
    }

    /// Bytes of all points.
    pub fn points_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// All points of the file.
    ///
    /// Fails if the file does not hold a whole number of points, or if they are not aligned.
    pub fn into_bases(self, group: Group) -> io::Result<Bases> {
        let is_aligned = self.offset.is_multiple_of(LIMB_BYTES);
        if !is_aligned || !self.points_bytes().is_multiple_of(group.affine_bytes() as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(match group {
            Group::G1 => Bases::G1(PointSlice::new(Arc::new(self))),
            Group::G2 => Bases::G2(PointSlice::new(Arc::new(self))),
        })
    }
}

impl<A: CurvePoint> PointOwner<A> for PointsFile {
    fn points(&self) -> &[A] {
        points_from_bytes(&self.map).expect("`into_bases` checked the length, and maps are aligned")
    }

    fn file(&self) -> Option<FileOfPoints<'_>> {
        Some(FileOfPoints { file: self.file.as_fd(), offset: self.offset })
    }
}

fn file_bytes(file: &OwnedFd) -> io::Result<u64> {
    Ok(fs::fstat(file)?.st_size as u64)
}

/// Memory that points are appended to, and that is sealed in the end.
#[derive(Default)]
pub struct SealedPoints(Option<File>);

impl SealedPoints {
    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.0.take() {
            Some(file) => file,
            None => Self::create()?,
        };
        Ok(self.0.insert(file))
    }

    fn create() -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let create = |flags| fs::memfd_create("capstan-bases", flags);
        // Linux before 6.3 does not know the flag.
        Ok(create(flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| create(flags))?.into())
    }

    /// Appends points as Montgomery limbs.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    /// Seals the memory against any change, and maps it.
    pub fn seal(mut self) -> io::Result<PointsFile> {
        self.file()?;
        let file = self.0.ok_or(io::ErrorKind::InvalidData)?;
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fs::fcntl_add_seals(&file, seals)?;
        PointsFile::map(file, 0)
    }
}

/// A descriptor and an offset by which another process maps `bases`.
pub struct SharedBases<'a> {
    bases: &'a Bases,
    sealed: Option<PointsFile>,
}

impl<'a> SharedBases<'a> {
    /// Copies points that lie in no file to sealed memory.
    pub fn new(bases: &'a Bases) -> io::Result<Self> {
        let mut sealed = None;
        if bases.file().is_none() {
            let mut memory = SealedPoints::default();
            memory.append(bases.as_bytes())?;
            sealed = Some(memory.seal()?);
        }
        Ok(Self { bases, sealed })
    }

    pub fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match &self.sealed {
            Some(sealed) => Some((sealed.file.as_fd(), 0)),
            None => self.bases.file().map(|FileOfPoints { file, offset }| (file, offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ark_ec::{AffineRepr, CurveGroup};

    use super::*;
    use crate::curve::G1Affine;

    fn points() -> Vec<G1Affine> {
        let generator = G1Affine::generator();
        (1..5_u64).map(|i| (generator * crate::curve::Fr::from(i)).into_affine()).collect()
    }

    #[test]
    fn sealed_points_are_read_by_whoever_maps_the_file() {
        let points = points();
        let vector = Bases::G1(PointSlice::new(Arc::new(points.clone())));
        let shared = SharedBases::new(&vector).unwrap();
        let (file, offset) = shared.file().unwrap();
        let mapped = PointsFile::map(file.try_clone_to_owned().unwrap(), offset).unwrap();
        let Bases::G1(read) = mapped.into_bases(Group::G1).unwrap() else {
            panic!("another group")
        };
        assert_eq!(*read, *points);
        let in_file = Bases::G1(read);
        let again = SharedBases::new(&in_file).unwrap();
        assert!(again.sealed.is_none(), "points in a file are not copied");
        let mut writer = File::from(file.try_clone_to_owned().unwrap());
        assert!(writer.write_all(&[1]).is_err(), "not sealed");
    }

    #[test]
    fn a_range_is_mapped_without_the_other_points() {
        let points = points();
        let in_memory = Bases::G1(PointSlice::new(Arc::new(points.clone())));
        let sealed = SharedBases::new(&in_memory).unwrap();
        let (file, _) = sealed.file().unwrap();
        let in_file = PointsFile::map(file.try_clone_to_owned().unwrap(), 0).unwrap();
        let in_file = in_file.into_bases(Group::G1).unwrap();
        for (start, len) in [(0, 4), (1, 2), (3, 1), (2, 0)] {
            let bytes = (len * Group::G1.affine_bytes()) as u64;
            for all in [&in_memory, &in_file] {
                let range = all.slice(start, len).unwrap();
                let shared = SharedBases::new(&range).unwrap();
                let (file, offset) = shared.file().unwrap();
                let file = file.try_clone_to_owned().unwrap();
                let mapped = PointsFile::map_range(file, offset, bytes).unwrap();
                assert_eq!(mapped.points_bytes(), bytes);
                let Bases::G1(read) = mapped.into_bases(Group::G1).unwrap() else {
                    panic!("another group")
                };
                assert_eq!(*read, points[start..start + len]);
                assert_eq!(Bases::G1(read).all_of_owner().len(), len);
            }
        }
        let file = || file.try_clone_to_owned().unwrap();
        assert!(PointsFile::map_range(file(), 96, 4 * 96).is_err(), "beyond the end");
        assert!(PointsFile::map_range(file(), u64::MAX, 96).is_err(), "beyond all files");
    }

    #[test]
    fn a_file_that_holds_no_whole_number_of_points_is_refused() {
        let mut memory = SealedPoints::default();
        memory.append(&[0; 97]).unwrap();
        assert!(memory.seal().unwrap().into_bases(Group::G1).is_err());
    }
}
