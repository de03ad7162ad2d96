//! Reads numbers and bytes of a part of a file.

use super::error::ProofFileError;

type Result<T> = std::result::Result<T, ProofFileError>;

/// The unread bytes of a part of a file.
#[derive(Debug, Clone, Copy)]
pub struct PartReader<'a> {
    part: &'static str,
    rest: &'a [u8],
    /// The offset of `rest` in the file.
    position: usize,
}

impl<'a> PartReader<'a> {
    pub fn new(part: &'static str, file: &'a [u8]) -> Self {
        Self { part, rest: file, position: 0 }
    }

    /// The offset in the file of the next byte.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Checks that `count` items of at least `width` bytes each can follow. Nothing is allocated
    /// for a count that has not passed this check.
    ///
    /// Errors: `Truncated`.
    pub fn check_count(&self, count: u64, width: usize) -> Result<()> {
        let needed = count.saturating_mul(width as u64);
        let length = self.rest.len() as u64;
        let (part, position) = (self.part, self.position);
        match needed.checked_sub(length) {
            None | Some(0) => Ok(()),
            Some(missing) => Err(ProofFileError::Truncated { part, position, missing }),
        }
    }

    pub fn take(&mut self, bytes: u64) -> Result<&'a [u8]> {
        self.check_count(bytes, 1)?;
        let (taken, rest) = self.rest.split_at(bytes as usize);
        self.rest = rest;
        self.position += taken.len();
        Ok(taken)
    }

    /// The next `bytes` as a part with its own name.
    pub fn part(&mut self, part: &'static str, bytes: u64) -> Result<Self> {
        let mut renamed = Self { part, ..*self };
        let position = self.position;
        let rest = renamed.take(bytes)?;
        *self = Self { part: self.part, ..renamed };
        Ok(Self { part, rest, position })
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N as u64)?;
        Ok(taken.try_into().expect("N bytes were taken"))
    }

    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Errors: `TrailingBytes` if the part has more bytes.
    pub fn finish(self) -> Result<()> {
        let Self { part, rest, position } = self;
        let bytes = rest.len();
        if bytes == 0 {
            return Ok(());
        }
        Err(ProofFileError::TrailingBytes { part, position, bytes })
    }
}
