//! Hashes of large inputs.

/// Adds bytes to a hash: with the feature `parallel`, in parallel on the current rayon pool.
pub fn update(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    #[cfg(feature = "parallel")]
    hasher.update_rayon(bytes);
    #[cfg(not(feature = "parallel"))]
    hasher.update(bytes);
}
