//! Bytes on their way out. Messages want memory of their own ('static): borrowed bytes are copied
//! chunk by chunk as they go, so that never more than a few chunks exist twice.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

use crate::curve::{Fr, layout::fr_as_bytes};

/// What is sent.
#[derive(Clone)]
pub(crate) enum Payload<'a> {
    /// Borrowed, may be witness: copies are wiped.
    Secret(&'a [u8]),
    /// Borrowed, public.
    Public(&'a [u8]),
    /// Shared: sent as it is.
    Shared(Bytes),
}

impl Payload<'_> {
    /// Bytes.
    pub fn len(&self) -> u64 {
        let len = match self {
            Self::Secret(bytes) | Self::Public(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
        };
        len as u64
    }

    /// A piece to send. The range must lie within.
    pub fn chunk(&self, range: Range<u64>) -> Bytes {
        let range = range.start as usize..range.end as usize;
        match self {
            Self::Secret(bytes) => Bytes::from_owner(Wiped::copy(&bytes[range])),
            Self::Public(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Shared(bytes) => bytes.slice(range),
        }
    }

    /// All of it in one piece.
    pub fn whole(&self) -> Bytes {
        self.chunk(0..self.len())
    }
}

/// A copy that is wiped when the transport has encoded it. In words: wiping byte by byte takes half
/// as long again.
struct Wiped {
    words: Zeroizing<Vec<u64>>,
    len: usize,
}

impl Wiped {
    fn copy(bytes: &[u8]) -> Self {
        let (whole, rest) = bytes.as_chunks();
        let mut words = Zeroizing::new(Vec::with_capacity(bytes.len().div_ceil(8)));
        words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word)));
        if !rest.is_empty() {
            let mut last = Zeroizing::new([0; 8]);
            last[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_ne_bytes(*last));
        }
        Self { words, len: bytes.len() }
    }
}

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
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
            Payload::Secret(&bytes),
            Payload::Public(&bytes),
            Payload::Shared(owned_fr(values)),
            Payload::Shared(shared_fr(shared)),
        ] {
            assert_eq!(payload.len(), 256);
            assert_eq!(payload.chunk(33..97), bytes[33..97]);
            assert_eq!(payload.whole(), bytes);
        }
    }
}
