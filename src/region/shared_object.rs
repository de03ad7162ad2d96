//! How another process maps a stored object.

use std::{io, os::fd::BorrowedFd};

use super::{MappedFile, SealedMemory};
use crate::{
    curve::points::{Bases, FileOfPoints},
    sparse::SparseMatrix,
};

/// A descriptor and an offset by which another process maps an object.
pub struct SharedObject<'a>(SharedPlace<'a>);

enum SharedPlace<'a> {
    /// The file that holds the object, and its first byte there.
    File(BorrowedFd<'a>, u64),
    /// A copy.
    Sealed(MappedFile),
}

impl<'a> SharedObject<'a> {
    /// Copies `bytes` to sealed memory, unless `file` holds them from a byte on.
    fn new(bytes: &[u8], file: Option<(BorrowedFd<'a>, u64)>) -> io::Result<Self> {
        if let Some((file, offset)) = file {
            return Ok(Self(SharedPlace::File(file, offset)));
        }
        let mut memory = SealedMemory::default();
        memory.append(bytes)?;
        Ok(Self(SharedPlace::Sealed(memory.seal()?)))
    }

    /// The points of `bases`.
    pub fn of_bases(bases: &'a Bases) -> io::Result<Self> {
        let file = bases.file().map(|FileOfPoints { file, offset }| (file, offset));
        Self::new(bases.as_bytes(), file)
    }

    /// The bytes of `matrix`.
    pub fn of_matrix(matrix: &'a SparseMatrix) -> io::Result<Self> {
        Self::new(matrix.as_bytes(), matrix.file())
    }

    /// The file, and its first byte that belongs to the object.
    pub fn file(&self) -> (BorrowedFd<'_>, u64) {
        match &self.0 {
            SharedPlace::File(file, offset) => (*file, *offset),
            SharedPlace::Sealed(sealed) => sealed.place(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, sync::Arc};

    use ark_ec::{AffineRepr, CurveGroup};

    use super::*;
    use crate::{
        curve::{Fr, G1Affine, Group, points::PointSlice},
        sparse::SparseBuilder,
    };

    fn points() -> Vec<G1Affine> {
        let generator = G1Affine::generator();
        (1..5_u64).map(|i| (generator * Fr::from(i)).into_affine()).collect()
    }

    fn mapped(shared: &SharedObject<'_>) -> MappedFile {
        let (file, offset) = shared.file();
        MappedFile::map(file.try_clone_to_owned().unwrap(), offset).unwrap()
    }

    fn is_copied(shared: &SharedObject<'_>) -> bool {
        matches!(shared.0, SharedPlace::Sealed(_))
    }

    #[test]
    fn sealed_points_are_read_by_whoever_maps_the_file() {
        let points = points();
        let vector = Bases::G1(PointSlice::new(Arc::new(points.clone())));
        let shared = SharedObject::of_bases(&vector).unwrap();
        let Bases::G1(read) = mapped(&shared).into_bases(Group::G1).unwrap() else {
            panic!("another group")
        };
        assert_eq!(*read, *points);
        let in_file = Bases::G1(read);
        let again = SharedObject::of_bases(&in_file).unwrap();
        assert!(is_copied(&shared) && !is_copied(&again), "points in a file are not copied");
        let mut writer = File::from(shared.file().0.try_clone_to_owned().unwrap());
        assert!(writer.write_all(&[1]).is_err(), "not sealed");
    }

    #[test]
    fn a_range_is_mapped_without_the_other_points() {
        let points = points();
        let in_memory = Bases::G1(PointSlice::new(Arc::new(points.clone())));
        let sealed = SharedObject::of_bases(&in_memory).unwrap();
        let in_file = mapped(&sealed).into_bases(Group::G1).unwrap();
        for (start, len) in [(0, 4), (1, 2), (3, 1), (2, 0)] {
            let bytes = len * Group::G1.affine_bytes();
            for all in [&in_memory, &in_file] {
                let range = all.slice(start, len).unwrap();
                let shared = SharedObject::of_bases(&range).unwrap();
                let (file, offset) = shared.file();
                let file = file.try_clone_to_owned().unwrap();
                let mapped = MappedFile::map_range(file, offset, bytes as u64).unwrap();
                assert_eq!(mapped.as_bytes().len(), bytes);
                let Bases::G1(read) = mapped.into_bases(Group::G1).unwrap() else {
                    panic!("another group")
                };
                assert_eq!(*read, points[start..start + len]);
                assert_eq!(Bases::G1(read).all_of_owner().len(), len);
            }
        }
        let file = || sealed.file().0.try_clone_to_owned().unwrap();
        assert!(MappedFile::map_range(file(), 96, 4 * 96).is_err(), "beyond the end");
        assert!(MappedFile::map_range(file(), u64::MAX, 96).is_err(), "beyond all files");
    }

    #[test]
    fn a_file_that_holds_no_whole_number_of_points_is_refused() {
        let mut memory = SealedMemory::default();
        memory.append(&[0; 97]).unwrap();
        assert!(memory.seal().unwrap().into_bases(Group::G1).is_err());
    }

    #[test]
    fn a_matrix_is_mapped_wherever_its_file_begins() {
        let mut builder = SparseBuilder::new(2, 3);
        builder.push_row([(Fr::from(5), 2), (Fr::from(1), 0)]).unwrap();
        builder.push_row([(Fr::from(7), 1)]).unwrap();
        let matrix = builder.build().unwrap();
        let shared = SharedObject::of_matrix(&matrix).unwrap();
        assert!(is_copied(&shared));
        let read = SparseMatrix::new(matrix.shape(), Arc::new(mapped(&shared))).unwrap();
        assert_eq!(read, matrix);
        assert!(!is_copied(&SharedObject::of_matrix(&read).unwrap()));
        let mut memory = SealedMemory::default();
        memory.append(&[1; 256]).unwrap();
        memory.append(matrix.as_bytes()).unwrap();
        let sealed = memory.seal().unwrap();
        let file = sealed.place().0.try_clone_to_owned().unwrap();
        let after_header = MappedFile::map(file, 256).unwrap();
        let read = SparseMatrix::new(matrix.shape(), Arc::new(after_header)).unwrap();
        assert_eq!((&read, read.file().unwrap().1), (&matrix, 256));
    }
}
