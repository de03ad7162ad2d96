//! Limbs of a product from its coefficients: tasks carry at the same time, then what they carry out
//! is added to the next ones.

use rayon::prelude::*;

use super::{
    garner::{Garner, PRIMES},
    sizes::ProductSize,
    transforms::{ProductResidues, RowResidues},
};
use crate::{
    engines::JobControl,
    error::{Error, Result},
    field::{Arithmetic, Element31, Field31},
};

/// Limbs per task.
const TASK: usize = 1 << 14;

/// Sets the limbs of row number `row` of the products.
///
/// Errors: `Corrupt` if the coefficients are not those of a product of this length; those of
/// `control`.
pub(super) fn set_limbs(
    residues: &ProductResidues,
    row: usize,
    limbs: &mut [u32],
    control: &JobControl,
) -> Result<()> {
    let [first, second, third] = &residues.primes;
    let coefficients = Coefficients {
        size: residues.size,
        residues: [first.row(row), second.row(row), third.row(row)],
        garner: Garner::new(),
        halves: PRIMES.map(|prime| {
            let field = Field31::new(prime);
            field.inverse(field.element(2)).expect("2 is not zero")
        }),
    };
    let tasks = limbs.par_chunks_mut(TASK).enumerate();
    let carries = tasks.map(|(task, limbs)| {
        control.check()?;
        Ok(coefficients.set_limbs(task * TASK, limbs))
    });
    let carries = carries.collect::<Result<Vec<_>>>()?;
    let mut carry = 0;
    for (limbs, next) in limbs.chunks_mut(TASK).zip(carries) {
        control.check()?;
        carry = next + add(limbs, carry);
    }
    if carry == 0 { Ok(()) } else { Err(Error::Corrupt) }
}

/// Adds to limbs. Returns what is carried out of them.
fn add(limbs: &mut [u32], mut carry: u64) -> u64 {
    for limb in limbs {
        if carry == 0 {
            break;
        }
        let sum = carry + u64::from(*limb);
        (*limb, carry) = (sum as u32, sum >> 32);
    }
    carry
}

/// The coefficients of a row.
struct Coefficients<'a> {
    size: ProductSize,
    residues: [RowResidues<'a>; 3],
    garner: Garner,
    /// 1/2 modulo each prime.
    halves: [Element31; 3],
}

/// What a coefficient of a product of thirds is made of. With U modulo x^u - 1 and V = (V0, V1)
/// modulo x^(2u) + 1, twice the product is (U + V0 - V1, 2 V1, U - V0 - V1).
#[derive(Clone, Copy)]
enum Third {
    Low,
    Middle,
    High,
}

impl Coefficients<'_> {
    /// Sets the limbs from index `first` on, as if nothing was carried into them. Returns what they
    /// carry out.
    fn set_limbs(&self, first: usize, limbs: &mut [u32]) -> u64 {
        let mut carry = 0;
        match self.size {
            ProductSize::Whole { .. } => {
                let residue = |prime: usize, at: usize| self.residues[prime].cyclic[at];
                self.carry(first, limbs, &mut carry, residue);
            }
            ProductSize::Thirds { lg_u } => {
                let mut at = first;
                let mut rest = limbs;
                while !rest.is_empty() {
                    // Those of one third.
                    let third = at >> lg_u;
                    let offset = at & ((1 << lg_u) - 1);
                    let count = rest.len().min((1 << lg_u) - offset);
                    let (own, others) = rest.split_at_mut(count);
                    match third {
                        0 => self.carry_third(Third::Low, offset, own, &mut carry),
                        1 => self.carry_third(Third::Middle, offset, own, &mut carry),
                        _ => self.carry_third(Third::High, offset, own, &mut carry),
                    }
                    (at, rest) = (at + count, others);
                }
            }
        }
        carry
    }

    #[inline]
    fn carry_third(&self, third: Third, offset: usize, limbs: &mut [u32], carry: &mut u64) {
        let fields = PRIMES.map(Field31::new);
        self.carry(offset, limbs, carry, |prime, at| {
            let RowResidues { cyclic, negacyclic } = self.residues[prime];
            let field = fields[prime];
            let u = cyclic.len();
            let high = negacyclic[at + u];
            if matches!(third, Third::Middle) {
                return high;
            }
            let rest = field.subtract(cyclic[at], high);
            let low = negacyclic[at];
            let double = match third {
                Third::Low => field.add(rest, low),
                Third::Middle | Third::High => field.subtract(rest, low),
            };
            field.multiply(double, self.halves[prime])
        });
    }

    /// Carries through the coefficients from index `first` on.
    #[inline]
    fn carry(
        &self,
        first: usize,
        limbs: &mut [u32],
        carry: &mut u64,
        residue: impl Fn(usize, usize) -> Element31,
    ) {
        for (at, limb) in (first..).zip(limbs) {
            let residues = [residue(0, at), residue(1, at), residue(2, at)];
            let sum = self.garner.coefficient(residues) + u128::from(*carry);
            // A coefficient is below 2^91, so the carry is below 2^60.
            (*limb, *carry) = (sum as u32, (sum >> 32) as u64);
        }
    }
}
