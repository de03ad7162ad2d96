//! The residues of products' coefficients, by transforms of rows on an engine.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    factors::IntegerFactors,
    garner::PRIMES,
    sizes::{ProductSize, SizeTransform},
};
use crate::{
    curve::NttPlan,
    engines::{ExecutedBy, JobControl, MsmNttEngine, add_stages, long_rows},
    error::{Error, Result},
    field::{Arithmetic, Element31, Field31, Prime31},
};

/// Elements per task.
const TASK: usize = 1 << 14;

/// Rows of elements, which are wiped when dropped.
type ResidueRows = Zeroizing<Vec<Vec<Element31>>>;

/// The products of some rows modulo one prime, as transforms of a [`ProductSize`] give them.
pub(super) struct PrimeResidues {
    cyclic: ResidueRows,
    negacyclic: Option<ResidueRows>,
}

/// The products of some rows modulo all primes.
pub(super) struct ProductResidues {
    pub size: ProductSize,
    pub primes: [PrimeResidues; 3],
}

/// The elements of a row of a product, modulo one prime, of all coefficients of a part of the
/// product.
#[derive(Clone, Copy)]
pub(super) struct RowResidues<'a> {
    pub cyclic: &'a [Element31],
    /// Empty if the cyclic product is the whole one.
    pub negacyclic: &'a [Element31],
}

impl PrimeResidues {
    pub fn row(&self, row: usize) -> RowResidues<'_> {
        let negacyclic = self.negacyclic.as_ref().map_or(&[][..], |rows| &rows[row]);
        RowResidues { cyclic: &self.cyclic[row], negacyclic }
    }
}

/// Elements that are held at the same time for each row, apart from the engine's.
pub(super) fn working_elements(size: ProductSize, is_square: bool) -> u64 {
    let lengths = size.transforms().into_iter().map(|transform| 1_u64 << transform.lg_n);
    let all = lengths.clone().sum::<u64>();
    let longest = lengths.max().unwrap_or(0);
    3 * all + if is_square { 0 } else { longest }
}

/// Computes the residues.
///
/// Errors: those of the engine.
pub(super) fn residues(
    engine: &dyn MsmNttEngine,
    factors: IntegerFactors<'_>,
    size: ProductSize,
    executor: &mut Option<ExecutedBy>,
    control: &JobControl,
) -> Result<ProductResidues> {
    let mut of_prime = |prime: Prime31| -> Result<PrimeResidues> {
        let transforms = size.transforms().into_iter().map(|transform| {
            let product = PrimeProduct { engine, field: Field31::new(prime), transform, control };
            product.rows(factors, executor)
        });
        let mut transforms = transforms.collect::<Result<Vec<_>>>()?.into_iter();
        let cyclic = transforms.next().ok_or_else(|| internal("a size has a transform"))?;
        Ok(PrimeResidues { cyclic, negacyclic: transforms.next() })
    };
    let [first, second, third] = PRIMES;
    let primes = [of_prime(first)?, of_prime(second)?, of_prime(third)?];
    Ok(ProductResidues { size, primes })
}

/// Products modulo a prime, reduced to the length of a transform.
struct PrimeProduct<'a> {
    engine: &'a dyn MsmNttEngine,
    field: Field31,
    transform: SizeTransform,
    control: &'a JobControl,
}

impl PrimeProduct<'_> {
    fn rows(
        &self,
        factors: IntegerFactors<'_>,
        executor: &mut Option<ExecutedBy>,
    ) -> Result<ResidueRows> {
        let &Self { engine, field, control, .. } = self;
        let [forward, inverse] = self.plans()?;
        let mut run = |rows: &mut [Vec<Element31>], plan: &NttPlan<Element31>| -> Result<()> {
            let done = engine.ntt31(field, plan, rows, control)?;
            match executor {
                Some(known) => add_stages(&mut known.stages, &done.stages),
                None => *executor = Some(done),
            }
            Ok(())
        };
        let count = factors.a.len();
        let all = factors.a.iter().chain(factors.b.into_iter().flatten());
        // Both factors in one call, so that short rows are transformed at the same time.
        let mut rows = Zeroizing::new(Vec::with_capacity(2 * count));
        for limbs in all {
            rows.push(Vec::with_capacity(1 << self.transform.lg_n));
            self.reduce(limbs, rows.last_mut().ok_or_else(|| internal("a row is missing"))?)?;
        }
        run(&mut rows, &forward)?;
        let (values, others) = rows.split_at_mut(count);
        values.par_iter_mut().enumerate().try_for_each(|(row, values)| {
            let pieces = values.par_chunks_mut(TASK).enumerate();
            pieces.try_for_each(|(piece, values)| {
                control.check()?;
                match others.get(row) {
                    Some(other) => {
                        let pairs = values.iter_mut().zip(&other[piece * TASK..]);
                        pairs.for_each(|(a, b)| *a = field.multiply(*a, *b));
                    }
                    None => values.iter_mut().for_each(|a| *a = field.multiply(*a, *a)),
                }
                Ok::<_, Error>(())
            })
        })?;
        // Wiped now, so that the inverse transform does not hold their memory.
        rows.drain(count..).for_each(|row| drop(Zeroizing::new(row)));
        run(&mut rows, &inverse)?;
        Ok(rows)
    }

    /// Fills an empty row with the residues of the limbs, reduced modulo x^n - 1 or x^n + 1.
    fn reduce(&self, limbs: &[u32], row: &mut Vec<Element31>) -> Result<()> {
        let &Self { field, transform, control, .. } = self;
        let n = 1 << transform.lg_n;
        long_rows::pad(row, n, control)?;
        row.par_chunks_mut(TASK).enumerate().try_for_each(|(task, out)| {
            control.check()?;
            for (number, start) in (task * TASK..limbs.len()).step_by(n).enumerate() {
                let is_subtracted = transform.is_negacyclic && number % 2 == 1;
                for (out, limb) in out.iter_mut().zip(&limbs[start..]) {
                    let element = field.element(*limb);
                    *out = match is_subtracted {
                        true => field.subtract(*out, element),
                        false => field.add(*out, element),
                    };
                }
            }
            Ok(())
        })
    }

    fn plans(&self) -> Result<[NttPlan<Element31>; 2]> {
        let SizeTransform { lg_n, is_negacyclic } = self.transform;
        let root = || self.field.root_of_unity(lg_n + 1).ok_or_else(|| internal("no such root"));
        let coset = is_negacyclic.then(root).transpose()?;
        let plan =
            NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: true };
        let inverse =
            NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..plan };
        Ok([plan, inverse])
    }
}

fn internal(problem: &str) -> Error {
    Error::Internal(problem.into())
}
