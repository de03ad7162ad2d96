//! Memory that is written once and then sealed against any change.

use std::{
    fs::File,
    io::{self, Write},
};

use rustix::fs::{self, MemfdFlags, SealFlags};

use super::MappedFile;

/// Memory that bytes are appended to, and that is sealed in the end. Its pages exist once bytes are
/// appended.
#[derive(Default)]
pub struct SealedMemory(Option<File>);

impl SealedMemory {
    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.0.take() {
            Some(file) => file,
            None => Self::create()?,
        };
        Ok(self.0.insert(file))
    }

    fn create() -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let create = |flags| fs::memfd_create("capstan-object", flags);
        // Linux before 6.3 does not know the flag.
        Ok(create(flags | MemfdFlags::NOEXEC_SEAL).or_else(|_| create(flags))?.into())
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    /// Seals the memory against any change, and maps it.
    pub fn seal(mut self) -> io::Result<MappedFile> {
        self.file()?;
        let file = self.0.ok_or(io::ErrorKind::InvalidData)?;
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fs::fcntl_add_seals(&file, seals)?;
        MappedFile::map(file, 0)
    }
}
