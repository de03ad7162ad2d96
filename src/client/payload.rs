//! Bytes on their way out. Messages want memory of their own ('static): borrowed bytes are copied
//! chunk by chunk as they go, so that never more than a few chunks exist twice.

use std::{
    mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

use super::copying;
use crate::curve::{Fr, layout::fr_as_bytes};

/// What is sent.
#[derive(Clone)]
pub(crate) enum Payload<'a> {
    /// Borrowed, may be witness: copies are wiped.
    Secret(&'a [u8], Copies),
    /// Borrowed, public.
    Public(&'a [u8]),
    /// Shared: sent as it is.
    Shared(Bytes),
}

impl<'a> Payload<'a> {
    /// Borrowed bytes that may be witness.
    pub fn secret(bytes: &'a [u8]) -> Self {
        Self::Secret(bytes, Copies::default())
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        let len = match self {
            Self::Secret(bytes, _) | Self::Public(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
        };
        len as u64
    }

    /// A piece to send. The range must lie within.
    pub fn chunk(&self, range: &Range<u64>) -> Bytes {
        let range = range.start as usize..range.end as usize;
        match self {
            Self::Secret(bytes, copies) => Bytes::from_owner(copies.copy(&bytes[range])),
            Self::Public(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Shared(bytes) => bytes.slice(range),
        }
    }

    /// Several of them, copied by several threads where there is much to copy.
    pub fn chunks(&self, ranges: Vec<Range<u64>>) -> Vec<Bytes> {
        let bytes = match self {
            Self::Secret(..) | Self::Public(_) => ranges.iter().map(|r| r.end - r.start).sum(),
            Self::Shared(_) => 0,
        };
        copying::each(bytes as usize, ranges, |range| self.chunk(&range))
    }

    /// All of it in one piece.
    pub fn whole(&self) -> Bytes {
        self.chunk(&(0..self.len()))
    }
}

/// Memory of chunks, filled again and again, and wiped after the last one of them: wiping each
/// chunk takes as long as copying it. In words, because wiping byte by byte takes half as long
/// again.
#[derive(Clone, Default)]
pub(crate) struct Copies(Arc<Idle>);

#[derive(Default)]
struct Idle(Mutex<Vec<Zeroizing<Vec<u64>>>>);

impl Drop for Idle {
    fn drop(&mut self) {
        let copies = mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        // The answer is there, and need not wait for that.
        copying::aside(move || drop(copies));
    }
}

/// A copy that goes back when the transport has encoded it.
struct Copied {
    words: Zeroizing<Vec<u64>>,
    len: usize,
    home: Copies,
}

impl Copies {
    fn idle(&self) -> MutexGuard<'_, Vec<Zeroizing<Vec<u64>>>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy(&self, bytes: &[u8]) -> Copied {
        let mut words = self.idle().pop().unwrap_or_default();
        let count = bytes.len().div_ceil(8);
        if words.len() != count {
            // Growing would leave what was in there behind.
            words = Zeroizing::new(vec![0; count]);
        }
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Copied { words, len: bytes.len(), home: self.clone() }
    }
}

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let words = mem::take(&mut self.words);
        self.home.idle().push(words);
    }
}

/// Elements that the caller gave away: wiped after the last chunk.
struct Owned(Vec<Fr>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        fr_as_bytes(&self.0)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

struct Shared(Arc<[Fr]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        fr_as_bytes(&self.0)
    }
}

pub(crate) fn owned_fr(scalars: Vec<Fr>) -> Bytes {
    Bytes::from_owner(Owned(scalars))
}

pub(crate) fn shared_fr(scalars: Arc<[Fr]>) -> Bytes {
    Bytes::from_owner(Shared(scalars))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Payload, owned_fr, shared_fr};
    use crate::curve::{Fr, layout::fr_as_bytes};

    #[test]
    fn chunks_are_the_bytes_they_name() {
        let values: Vec<Fr> = (1..=8).map(Fr::from).collect();
        let bytes = fr_as_bytes(&values).to_vec();
        let shared: Arc<[Fr]> = values.clone().into();
        for payload in [
            Payload::secret(&bytes),
            Payload::Public(&bytes),
            Payload::Shared(owned_fr(values)),
            Payload::Shared(shared_fr(shared)),
        ] {
            assert_eq!(payload.len(), 256);
            assert_eq!(payload.chunk(&(33..97)), bytes[33..97]);
            let chunks = payload.chunks(vec![0..33, 33..97, 250..256]);
            assert_eq!(chunks, [&bytes[..33], &bytes[33..97], &bytes[250..]]);
            assert_eq!(payload.whole(), bytes);
        }
    }
}
