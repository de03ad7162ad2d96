//! Random data, reproducible or secret, and threads to compute with it.

use ark_ff::PrimeField;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use zeroize::Zeroizing;

use super::exit::{CliFailure, Exit, Result};
use crate::client::Fr;

/// `n` random field elements. The same label gives the same elements in every run, so that `bench`
/// finds the bases of an earlier interrupted run.
pub fn random(label: &str, n: usize) -> Vec<Fr> {
    let mut stream =
        blake3::Hasher::new_derive_key("capstan v1 bench").update(label.as_bytes()).finalize_xof();
    let mut bytes = [0; 32];
    let next = |_| {
        stream.fill(&mut bytes);
        Fr::from_le_bytes_mod_order(&bytes)
    };
    (0..n).map(next).collect()
}

/// Secret random numbers, from a seed of the operating system. Not `OsRng`: arkworks' feature for
/// it makes its test generator differ from run to run.
pub fn secret() -> Result<StdRng> {
    let mut seed = Zeroizing::new([0; 32]);
    let failed = |error| CliFailure::new(Exit::Failed, format!("no random numbers: {error}"));
    getrandom::fill(&mut *seed).map_err(failed)?;
    Ok(StdRng::from_seed(*seed))
}

/// Runs `work` on a thread that may block.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the work does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_give_reproducible_and_distinct_elements() {
        assert_eq!(random("a", 3), random("a", 3));
        assert_ne!(random("a", 3), random("b", 3));
        assert_ne!(random("a", 2)[0], random("a", 2)[1]);
    }
}
