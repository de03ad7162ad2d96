//! Products of integers on one GPU: residues of their coefficients modulo three primes, by
//! transforms, and their limbs.

use zeroize::Zeroizing;

use super::{
    vector::GpuVector,
    vectors::{GpuVectors, TransformedVector, no_memory},
    vectors31::short_rows,
};
use crate::{
    error::{Error, Result},
    field::{Field31, Prime31},
    ntt31::{CarryScratch, DeviceResidues, Product31Rows, ResidueShape, ShortRows},
};

/// The primes, in the order of the kernels.
const PRIMES: [Prime31; 3] = [Prime31::P469762049, Prime31::P1811939329, Prime31::BabyBear];
/// log2 of the shortest transforms of a product.
const LG_N_MIN: u32 = 8;
/// Limbs that a thread stores at once: rows of limbs begin at multiples.
const QUAD: usize = 4;

impl GpuVectors {
    /// Multiplies integers, row by row; squares `a` without `b`. Rows of the product have as many
    /// limbs as both factors.
    ///
    /// Errors: `Exhausted`; `Internal` for other vectors, or products of more than 2^26 limbs.
    pub fn multiply_integers(
        &self,
        a: &GpuVector,
        b: Option<&GpuVector>,
    ) -> Result<TransformedVector> {
        let (stream, words) = (&self.stream, &self.gpu().words);
        let length = a.row_length + b.unwrap_or(a).row_length;
        let lg_n = length.next_power_of_two().ilog2().max(LG_N_MIN);
        let rows = u32::try_from(a.rows).map_err(|_| no_memory())?;
        let row_words = 1_usize << lg_n;
        let residues = self.zeros(a.field(), PRIMES.len() * a.rows, row_words)?;
        let of_b = b.map(|_| self.zeros(a.field(), a.rows, row_words)).transpose()?;
        let of_b = of_b.as_ref().map(GpuVector::words).transpose()?;
        let mut method = String::new();
        for (number, prime) in PRIMES.into_iter().enumerate() {
            let field = Field31::new(prime);
            let plan = self.with_evictions(|| words.transforms.plan_residues(field, lg_n, rows))?;
            let of_prime = residues.words()?.slice(number * a.rows * row_words, a.rows * row_words);
            let of_prime = of_prime.ok_or_else(wrong_shape)?;
            let [needs_transform, _] = plan.needs(b.is_none());
            let data = Product31Rows {
                a: short_rows(a)?,
                b: b.map(short_rows).transpose()?,
                transforms: [needs_transform.then_some(of_prime), of_b],
                out: ShortRows { words: of_prime, length: 1 << lg_n },
                rows,
            };
            words.transforms.multiply(stream, &plan, data)?;
            method = format!("modulo {} primes, {plan}", PRIMES.len());
        }
        let stride = length.next_multiple_of(QUAD);
        let limbs = self.zeros(a.field(), a.rows, stride)?;
        self.launch_limbs(&residues, &limbs, [length, row_words])?;
        let vector = match a.rows {
            1 => GpuVector::with_shorter_row(limbs, length),
            _ => self.with_row_length(&limbs, length)?,
        };
        Ok(TransformedVector { vector, method })
    }

    /// The limbs of all rows. Waits for the device.
    ///
    /// Errors: `DeviceLost`.
    pub fn read_limbs(&self, vector: &GpuVector) -> Result<Zeroizing<Vec<u32>>> {
        let bytes = self.read(vector.bytes())?;
        let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        Ok(Zeroizing::new(words.collect()))
    }

    /// Adds the coefficients of each row up. `[length, row_words]`: limbs of a product, and residues
    /// of a row modulo one prime.
    fn launch_limbs(
        &self,
        residues: &GpuVector,
        limbs: &GpuVector,
        [length, row_words]: [usize; 2],
    ) -> Result<()> {
        let (rows, stream) = (limbs.rows, &self.stream);
        let stride = (rows * row_words) as u64;
        let shape = ResidueShape { parts: 1, length: row_words as u32, stride };
        let scratch = CarryScratch::lease(self.gpu().gpu.arena(), stream, shape)?;
        for row in 0..rows {
            let first = row * row_words;
            let count = (PRIMES.len() - 1) * rows * row_words + row_words;
            let cyclic = residues.words()?.slice(first, count).ok_or_else(wrong_shape)?;
            let to =
                limbs.words()?.slice(row * limbs.row_length, length).ok_or_else(wrong_shape)?;
            let residues = DeviceResidues { shape, cyclic, negacyclic: None };
            residues.launch_limbs(&self.gpu().words.limbs, stream, &scratch, to)?;
        }
        Ok(())
    }
}

fn wrong_shape() -> Error {
    Error::Internal("residues of a product have another shape".into())
}
