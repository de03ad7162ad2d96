//! Products and sums of integers on one GPU. A product's limbs follow from residues of its
//! coefficients modulo three primes, which transforms compute.

use std::ops::Range;

use zeroize::Zeroizing;

use super::{
    vector::GpuVector,
    vectors::{GpuVectors, TransformedVector, no_memory},
    vectors31::short_rows,
};
use crate::{
    error::{Error, Result},
    field::{Field31, FieldId, Prime31},
    ntt::StridedRows,
    ntt31::{
        DeviceResidues, LimbRows, LimbTerm, Product31Rows, ResidueShape, ShortRows, WordDecodeRule,
        WordOperation, WordVector,
    },
};

/// The primes, in the order of the kernels.
const PRIMES: [Prime31; 3] = [Prime31::P469762049, Prime31::P1811939329, Prime31::BabyBear];
/// log2 of the shortest transforms of a product.
const LG_N_MIN: u32 = 8;
/// Limbs that a thread stores at once: rows that are computed begin at multiples.
const QUAD: usize = 4;

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
    /// Errors: `Exhausted`; those of the job's control; `Internal` for other vectors, or for
    /// products of more than 2^26 limbs.
    pub fn multiply_integers(
        &self,
        a: &GpuVector,
        b: Option<&GpuVector>,
    ) -> Result<TransformedVector> {
        let (of_a, of_b) = (a.row_length, b.unwrap_or(a).row_length);
        let length = of_a + of_b;
        let parts = ProductParts::new(of_a, of_b);
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
        let vector =
            self.computed_integers(a.rows, length, |out| self.launch_limbs(&residues, out, parts))?;
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

    /// Adds multiples of integers, row by row, modulo 2^32 to the power of `length`.
    ///
    /// Shape: 1 to 8 terms with the same number of rows. The magnitudes of the factors add up to
    /// less than 2^32.
    /// Errors: `Exhausted`; those of the job's control; `Internal` for other shapes.
    pub fn sum_integers(&self, terms: &[(&GpuVector, i64)], length: usize) -> Result<GpuVector> {
        let rows = terms.first().map_or(0, |(vector, _)| vector.rows);
        let terms = terms.iter().map(|&(vector, factor)| {
            let length = u32::try_from(vector.row_length).map_err(|_| no_memory())?;
            Ok(LimbTerm { limbs: vector.words()?, length, factor })
        });
        let terms = terms.collect::<Result<Vec<_>>>()?;
        let kernels = &self.gpu().words.limbs;
        let stream = &self.stream;
        self.computed_integers(rows, length, |out| {
            Ok(kernels.launch_sum(stream, &terms, out, |bytes| self.lease(bytes))?)
        })
    }

    /// Integers of `length` limbs, which `set` computes. Rows begin at multiples of 16 bytes until
    /// they are computed.
    fn computed_integers(
        &self,
        rows: usize,
        length: usize,
        set: impl FnOnce(LimbRows<'_>) -> Result<()>,
    ) -> Result<GpuVector> {
        let stride = length.next_multiple_of(QUAD);
        let made = self.zeros(FieldId::Integers, rows, stride)?;
        let too_many = |_| no_memory();
        set(LimbRows {
            limbs: StridedRows { vector: made.words()?, stride },
            rows: u32::try_from(rows).map_err(too_many)?,
            length: u32::try_from(length).map_err(too_many)?,
        })?;
        match rows {
            1 => Ok(GpuVector::with_shorter_row(made, length)),
            _ if stride == length => Ok(made),
            _ => self.with_row_length(&made, length),
        }
    }

    /// Adds the coefficients of each row up.
    fn launch_limbs(
        &self,
        residues: &GpuVector,
        out: LimbRows<'_>,
        parts: ProductParts,
    ) -> Result<()> {
        let rows = out.rows as usize;
        let u = 1_usize << parts.lg_u;
        let shape = ResidueShape {
            rows: out.rows,
            parts: if parts.has_thirds { 3 } else { 1 },
            length: u as u32,
            stride: (rows * parts.words()) as u64,
        };
        let scratch = shape.carry_scratch(|bytes| self.lease(bytes))?;
        let cyclic = residues.words()?;
        let of_cyclic = rows * u;
        let negacyclic = parts.has_thirds.then(|| {
            let rest = cyclic.slice(of_cyclic, cyclic.len() - of_cyclic);
            rest.ok_or_else(wrong_shape)
        });
        let residues = DeviceResidues { shape, cyclic, negacyclic: negacyclic.transpose()? };
        Ok(residues.launch_limbs(&self.gpu().words.limbs, &self.stream, &scratch, out)?)
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
        let plan = || Ok(transforms.plan_residues(field, lg_n, is_negacyclic, rows)?);
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
        let refused = gpu.lease(8)?;
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
