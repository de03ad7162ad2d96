//! Outgoing bytes. Messages own their memory ('static), so borrowed bytes are copied chunk by chunk
//! as they are sent: only a few chunks exist twice at any time.

use std::{mem, ops::Range, sync::Arc};

use ark_ff::Zero;
use bytes::Bytes;
use capstan_math::curve::{
    Fr,
    layout::{fr_as_bytes, fr_as_bytes_mut},
};
use capstan_region::SharedMemory;
use parking_lot::Mutex;
use zeroize::{Zeroize, Zeroizing};

use super::{copy_pool::CopyPool, mapped_region::ClientRegion};

#[derive(Clone)]
pub(crate) enum OutgoingBytes<'a> {
    /// Borrowed, may be witness data: copies are wiped.
    Secret(&'a [u8]),
    Public(&'a [u8]),
    /// Shared: sent without a copy.
    Shared(Bytes),
    /// The first `bytes` bytes of memory that the server may write at any time. May be witness
    /// data: copies are wiped.
    Region {
        region: &'a ClientRegion,
        bytes: usize,
    },
}

impl OutgoingBytes<'_> {
    pub fn len(&self) -> u64 {
        let len = match self {
            Self::Secret(bytes) | Self::Public(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Region { bytes, .. } => *bytes,
        };
        len as u64
    }

    /// The bytes, or the memory that begins with them if the server may write it.
    fn source(&self) -> Result<&[u8], &SharedMemory> {
        match self {
            Self::Secret(bytes) | Self::Public(bytes) => Ok(bytes),
            Self::Shared(bytes) => Ok(bytes),
            Self::Region { region, .. } => Err(&region.memory),
        }
    }

    /// Copies bytes from `start` on, which must be in bounds.
    pub fn read(&self, start: usize, out: &mut [u8]) {
        match self.source() {
            Ok(bytes) => out.copy_from_slice(&bytes[start..][..out.len()]),
            Err(memory) => memory.read(start, out),
        }
    }

    /// Passes the bytes of a range, which must be in bounds, to `take`. If the server may write
    /// them, `take` gets a copy, which is wiped.
    pub fn with_range(&self, range: Range<usize>, take: impl FnOnce(&[u8])) {
        match self.source() {
            Ok(bytes) => take(&bytes[range]),
            Err(memory) => {
                let mut copy = Zeroizing::new(vec![0_u8; range.len()]);
                memory.read(range.start, &mut copy);
                take(&copy)
            }
        }
    }

    fn chunk(&self, range: &Range<u64>, pool: &Arc<ChunkPool>) -> Bytes {
        let range = range.start as usize..range.end as usize;
        match self {
            Self::Secret(_) | Self::Region { .. } => {
                Bytes::from_owner(pool.copy(range.len(), |out| self.read(range.start, out)))
            }
            Self::Public(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Shared(bytes) => bytes.slice(range),
        }
    }

    /// The bytes of several ranges, which must be in bounds; copied by several threads if they are
    /// large.
    pub fn chunks(&self, ranges: Vec<Range<u64>>, pool: &Arc<ChunkPool>) -> Vec<Bytes> {
        let bytes = match self {
            Self::Shared(_) => 0,
            _ => ranges.iter().map(|r| r.end - r.start).sum(),
        };
        pool.threads.map(bytes as usize, ranges, |range| self.chunk(&range, pool))
    }

    pub fn as_single_chunk(&self, threads: &CopyPool) -> Bytes {
        self.chunk(&(0..self.len()), &ChunkPool::new(&SpareChunks::default(), threads))
    }
}

/// Wiped chunk buffers of earlier payloads, kept as long as the client: fresh memory costs as much
/// as the copy into it (`benches/experiments/transport.md`).
#[derive(Clone, Default)]
pub(crate) struct SpareChunks(Arc<Mutex<Vec<Zeroizing<Vec<u64>>>>>);

impl SpareChunks {
    /// What an upload over eight connections has in flight; 24 MiB.
    const COUNT_MAX: usize = 96;

    fn wipe_and_keep(&self, chunks: Vec<Zeroizing<Vec<u64>>>) {
        for mut chunk in chunks {
            if self.0.lock().len() < Self::COUNT_MAX {
                chunk.as_mut_slice().zeroize();
                self.0.lock().push(chunk);
            }
        }
    }
}

/// Pool of a payload's chunk buffers, wiped when the payload and its chunks are dropped: wiping
/// each chunk takes as long as copying it. Buffers consist of words, since wiping single bytes
/// takes longer (`benches/experiments/transport.md`).
pub(crate) struct ChunkPool {
    idle: Mutex<Vec<Zeroizing<Vec<u64>>>>,
    spare: SpareChunks,
    threads: CopyPool,
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        let chunks = mem::take(self.idle.get_mut());
        // The response has arrived and must not wait for the wiping.
        let words: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let spare = self.spare.clone();
        self.threads.run_later(8 * words, move || spare.wipe_and_keep(chunks));
    }
}

/// A copied chunk. Its buffer returns to the pool after the transport has encoded it.
struct PooledChunk {
    words: Zeroizing<Vec<u64>>,
    len: usize,
    pool: Arc<ChunkPool>,
}

impl ChunkPool {
    pub fn new(spare: &SpareChunks, threads: &CopyPool) -> Arc<Self> {
        let (spare, threads) = (spare.clone(), threads.clone());
        Arc::new(Self { idle: Mutex::default(), spare, threads })
    }

    /// A chunk of `len` bytes, which `write` writes.
    fn copy(self: &Arc<Self>, len: usize, write: impl FnOnce(&mut [u8])) -> PooledChunk {
        let words = self.idle.lock().pop().or_else(|| self.spare.0.lock().pop());
        let (mut words, count) = (words.unwrap_or_default(), len.div_ceil(8));
        if words.len() < count {
            // Growing would leave the old contents behind unwiped.
            words = Zeroizing::new(vec![0; count]);
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        write(&mut bytes[..len]);
        PooledChunk { words, len, pool: self.clone() }
    }
}

impl AsRef<[u8]> for PooledChunk {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl Drop for PooledChunk {
    fn drop(&mut self) {
        let words = mem::take(&mut self.words);
        self.pool.idle.lock().push(words);
    }
}

struct ElementOwner<T>(T);

impl<T: AsRef<[Fr]>> AsRef<[u8]> for ElementOwner<T> {
    fn as_ref(&self) -> &[u8] {
        fr_as_bytes(self.0.as_ref())
    }
}

/// The elements' memory, without a copy.
pub(crate) fn owned_fr(elements: impl AsRef<[Fr]> + Send + 'static) -> Bytes {
    Bytes::from_owner(ElementOwner(elements))
}

/// Elements that are sent without a copy, and then overwritten with a result.
pub(crate) struct OwnedElements(Arc<Zeroizing<Vec<Fr>>>);

/// A share of [`OwnedElements`].
struct SharedElements(Arc<Zeroizing<Vec<Fr>>>);

impl AsRef<[Fr]> for SharedElements {
    fn as_ref(&self) -> &[Fr] {
        &self.0
    }
}

impl OwnedElements {
    pub fn new(elements: Vec<Fr>) -> Self {
        Self(Arc::new(Zeroizing::new(elements)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn as_bytes(&self) -> &[u8] {
        fr_as_bytes(&self.0)
    }

    /// The bytes, without a copy.
    pub fn share(&self) -> Bytes {
        owned_fr(SharedElements(self.0.clone()))
    }

    /// The memory, to be overwritten. It is allocated again if the transport still holds a share,
    /// after a connection broke for example.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = Self::new(vec![Fr::zero(); self.len()]);
        }
        fr_as_bytes_mut(Arc::get_mut(&mut self.0).expect("the only share"))
    }

    pub fn into_elements(self) -> Zeroizing<Vec<Fr>> {
        Arc::try_unwrap(self.0).unwrap_or_else(|shared| Zeroizing::clone(&shared))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use capstan_math::curve::{Fr, layout::fr_as_bytes};

    use super::{
        ChunkPool, CopyPool, OutgoingBytes, OwnedElements, SpareChunks, Zeroizing, owned_fr,
    };

    #[test]
    fn chunks_equal_the_bytes_of_their_ranges() {
        let values: Vec<Fr> = (1..=8).map(Fr::from).collect();
        let bytes = fr_as_bytes(&values).to_vec();
        let shared: Arc<[Fr]> = values.clone().into();
        let threads = CopyPool::default();
        let pool = ChunkPool::new(&SpareChunks::default(), &threads);
        for payload in [
            OutgoingBytes::Secret(&bytes),
            OutgoingBytes::Public(&bytes),
            OutgoingBytes::Shared(owned_fr(Zeroizing::new(values))),
            OutgoingBytes::Shared(owned_fr(shared)),
        ] {
            assert_eq!(payload.len(), 256);
            assert_eq!(payload.chunk(&(33..97), &pool), bytes[33..97]);
            let chunks = payload.chunks(vec![0..33, 33..97, 250..256], &pool);
            assert_eq!(chunks, [&bytes[..33], &bytes[33..97], &bytes[250..]]);
            assert_eq!(payload.as_single_chunk(&threads), bytes);
        }
    }

    #[test]
    fn chunk_buffers_are_wiped_and_used_for_the_next_payload() {
        let (spare, threads) = (SpareChunks::default(), CopyPool::default());
        let buffer_of = |bytes: &[u8]| {
            let pool = ChunkPool::new(&spare, &threads);
            let chunk = OutgoingBytes::Secret(bytes).chunk(&(0..bytes.len() as u64), &pool);
            assert_eq!(chunk, bytes);
            chunk.as_ptr()
        };
        let first = buffer_of(&[7; 100]);
        assert!(spare.0.lock()[0].iter().all(|word| *word == 0), "not wiped");
        assert_eq!(buffer_of(&[9; 60]), first);
        assert_eq!(spare.0.lock().len(), 1);
    }

    #[test]
    fn owned_elements_are_overwritten_in_place_unless_they_are_still_shared() {
        let values: Vec<Fr> = (1..=8).map(Fr::from).collect();
        let elements = values.clone();
        let place = elements.as_ptr().cast::<u8>();
        let mut owned = OwnedElements::new(elements);
        let sent = owned.share();
        assert_eq!((sent.as_ptr(), &sent[..]), (place, fr_as_bytes(&values)));
        drop(sent);
        assert_eq!(owned.as_bytes_mut().as_ptr(), place);
        let late = owned.share();
        owned.as_bytes_mut().fill(0);
        assert_eq!(late, fr_as_bytes(&values), "overwritten while it is sent");
        assert_eq!(*owned.into_elements(), [Fr::from(0); 8]);
    }
}
