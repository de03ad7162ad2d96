//! Products of integers on one GPU: residues of their coefficients modulo three primes, by
//! transforms, and their limbs.

use std::ops::Range;

use zeroize::Zeroizing;

use super::{
    vector::GpuVector,
    vectors::{GpuVectors, TransformedVector, no_memory},
    vectors31::short_rows,
};
use crate::{
    error::{Error, Result},
    field::{Field31, Prime31},
    ntt31::{
        CarryScratch, DeviceResidues, Product31Rows, ResidueShape, ShortRows, WordDecodeRule,
        WordOperation, WordVector,
    },
};

/// The primes, in the order of the kernels.
const PRIMES: [Prime31; 3] = [Prime31::P469762049, Prime31::P1811939329, Prime31::BabyBear];
/// log2 of the shortest transforms of a product.
const LG_N_MIN: u32 = 8;
/// Limbs that a thread stores at once: rows of limbs begin at multiples.
const QUAD: usize = 4;
/// The most rows of few words: each takes three launches, which no model counts.
const SHORT_ROWS_MAX: usize = 64;
/// Words of a row whose kernels take longer than their launches.
const LONG_ROW: usize = 1 << 16;

/// The transforms of a product: one modulo x^u - 1, or also one modulo x^(2u) + 1, which takes
/// three quarters of the work of one modulo x^(4u) - 1.
#[derive(Clone, Copy)]
struct ProductParts {
    lg_u: u32,
    /// Whether the product has three parts of u coefficients, not one.
    has_thirds: bool,
}

impl ProductParts {
    fn new(of_a: usize, of_b: usize) -> Self {
        let length = of_a + of_b;
        let lg_n = length.next_power_of_two().ilog2().max(LG_N_MIN);
        let lg_u = lg_n.saturating_sub(2);
        let fits = length <= 3 << lg_u && of_a.max(of_b) <= 2 << lg_u;
        match lg_u >= LG_N_MIN && fits {
            true => Self { lg_u, has_thirds: true },
            false => Self { lg_u: lg_n, has_thirds: false },
        }
    }

    /// Words of the residues of a row modulo one prime.
    fn words(self) -> usize {
        (if self.has_thirds { 3 } else { 1 }) << self.lg_u
    }

    /// log2 of the largest transform.
    fn lg_n_max(self) -> u32 {
        self.lg_u + u32::from(self.has_thirds)
    }
}

impl GpuVectors {
    /// Multiplies integers, row by row; squares `a` without `b`. Rows of the product have as many
    /// limbs as both factors.
    ///
    /// Errors: `Exhausted`, also for many short rows, which the host multiplies sooner; those of
    /// the job's control; `Internal` for other vectors, or products of more than 2^26 limbs.
    pub fn multiply_integers(
        &self,
        a: &GpuVector,
        b: Option<&GpuVector>,
    ) -> Result<TransformedVector> {
        let (of_a, of_b) = (a.row_length, b.unwrap_or(a).row_length);
        let (length, parts) = (of_a + of_b, ProductParts::new(of_a, of_b));
        if a.rows > SHORT_ROWS_MAX && parts.words() < LONG_ROW {
            return Err(no_memory());
        }
        let residues = self.zeros(a.field(), PRIMES.len() * a.rows, parts.words())?;
        let transform = b.map(|_| self.zeros(a.field(), a.rows, 1 << parts.lg_n_max()));
        let transform = transform.transpose()?;
        let of_prime = a.rows * parts.words();
        let mut method = String::new();
        for (number, prime) in PRIMES.into_iter().enumerate() {
            let first = number * of_prime;
            let product =
                ResidueProduct { gpu: self, field: Field31::new(prime), transform: &transform };
            let cyclic = first..first + (a.rows << parts.lg_u);
            let of_part = |words: Range<usize>| {
                let residues = residues.words()?.slice(words.start, words.len());
                residues.ok_or_else(wrong_shape)
            };
            let (folded_a, folded_b) = (
                product.folded(a, 1 << parts.lg_u)?,
                b.map(|b| product.folded(b, 1 << parts.lg_u)).transpose()?.flatten(),
            );
            let factors = (folded_a.as_ref().unwrap_or(a), folded_b.as_ref().or(b));
            method = product.launch(factors, parts.lg_u, false, of_part(cyclic.clone())?)?;
            if parts.has_thirds {
                let negacyclic = cyclic.end..first + of_prime;
                method = product.launch((a, b), parts.lg_u + 1, true, of_part(negacyclic)?)?;
            }
        }
        let limbs = self.zeros(a.field(), a.rows, length.next_multiple_of(QUAD))?;
        self.launch_limbs(&residues, &limbs, length, parts)?;
        let vector = match a.rows {
            1 => GpuVector::with_shorter_row(limbs, length),
            _ => self.with_row_length(&limbs, length)?,
        };
        let method = format!("modulo {} primes, {method}", PRIMES.len());
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

    /// Adds the coefficients of each row up, of which the first `length` limbs are those of the
    /// product.
    fn launch_limbs(
        &self,
        residues: &GpuVector,
        limbs: &GpuVector,
        length: usize,
        parts: ProductParts,
    ) -> Result<()> {
        let (rows, stream, u) = (limbs.rows, &self.stream, 1_usize << parts.lg_u);
        let stride = rows * parts.words();
        let part_count = if parts.has_thirds { 3 } else { 1 };
        let shape = ResidueShape { parts: part_count, length: u as u32, stride: stride as u64 };
        let scratch = CarryScratch::lease(self.gpu().gpu.arena(), stream, shape)?;
        let residues = residues.words()?;
        for row in 0..rows {
            self.control().check()?;
            let all_from = |first: usize| {
                residues.slice(first, residues.len() - first).ok_or_else(wrong_shape)
            };
            let cyclic = all_from(row * u)?;
            let negacyclic = parts.has_thirds.then(|| all_from(rows * u + row * 2 * u));
            let to =
                limbs.words()?.slice(row * limbs.row_length, length).ok_or_else(wrong_shape)?;
            let residues = DeviceResidues { shape, cyclic, negacyclic: negacyclic.transpose()? };
            residues.launch_limbs(&self.gpu().words.limbs, stream, &scratch, to)?;
        }
        Ok(())
    }
}

/// Products of residues modulo one prime.
struct ResidueProduct<'g> {
    gpu: &'g GpuVectors,
    field: Field31,
    /// Memory for the transform of the second factor.
    transform: &'g Option<GpuVector>,
}

impl ResidueProduct<'_> {
    /// Multiplies rows modulo x^n - 1 or x^n + 1 for n = 2^`lg_n`, and returns how.
    fn launch(
        &self,
        (a, b): (&GpuVector, Option<&GpuVector>),
        lg_n: u32,
        is_negacyclic: bool,
        out: WordVector<'_>,
    ) -> Result<String> {
        let &Self { gpu, field, transform } = self;
        let rows = u32::try_from(a.rows).map_err(|_| no_memory())?;
        let transforms = &gpu.gpu().words.transforms;
        let plan = || transforms.plan_residues(field, lg_n, is_negacyclic, rows);
        let plan = gpu.with_evictions(plan)?;
        let [needs_transform, _] = plan.needs(b.is_none());
        let of_b = transform.as_ref().map(GpuVector::words).transpose()?;
        let of_b = of_b.map(|words| words.slice(0, a.rows << lg_n).ok_or_else(wrong_shape));
        let data = Product31Rows {
            a: short_rows(a)?,
            b: b.map(short_rows).transpose()?,
            transforms: [needs_transform.then_some(out), of_b.transpose()?],
            out: ShortRows { words: out, length: 1 << lg_n },
            rows,
        };
        transforms.multiply(&gpu.stream, &plan, data)?;
        Ok(plan.to_string())
    }

    /// Rows of up to 2u limbs modulo x^u - 1; `None` if they have at most u limbs.
    fn folded(&self, vector: &GpuVector, u: usize) -> Result<Option<GpuVector>> {
        let &Self { gpu, field, .. } = self;
        let Some(above) = vector.row_length.checked_sub(u).filter(|above| *above > 0) else {
            return Ok(None);
        };
        let (low, high) =
            (gpu.with_row_length(vector, u)?, gpu.zeros(vector.field(), vector.rows, u)?);
        gpu.copy_rows(&high, 0, vector, u, above)?;
        // Only reduces: the form of a word does not matter for a sum.
        let rule = WordDecodeRule { is_montgomery: true, reduce: true };
        let refused = gpu.gpu().msm.resident().lease(&gpu.stream, 8)?;
        let kernels = gpu.kernels31();
        for part in [&low, &high] {
            kernels.decode(&gpu.stream, field, part.words()?, rule, refused.all())?;
        }
        let sum = WordOperation::Add([low.words()?, high.words()?]);
        kernels.pointwise(&gpu.stream, field, low.words()?, sum)?;
        Ok(Some(low))
    }
}

fn wrong_shape() -> Error {
    Error::Internal("residues of a product have another shape".into())
}
