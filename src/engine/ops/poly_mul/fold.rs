//! Reduces rows modulo `X^n - 1` or `X^n + 1`, by adding or subtracting blocks of n coefficients.

use rayon::prelude::*;

use crate::{engines::JobControl, error::Result, field::Arithmetic, operation::PolyReduction};

/// Coefficients of a task, and the most blocks that one adds between two checks of the control.
const TASK_COEFFICIENTS: usize = 4096;
const TASK_BLOCKS: usize = 4096;

/// Adds the reduced `row` to `out`, which is at least as long as the result. Without a reduction,
/// adds the row itself.
///
/// Errors: those of `control`.
pub(super) fn add_reduced<F: Arithmetic>(
    field: F,
    row: &[F::Element],
    reduction: PolyReduction,
    out: &mut [F::Element],
    control: &JobControl,
) -> Result<()> {
    let degree = reduction.degree().and_then(|degree| usize::try_from(degree).ok());
    let degree = degree.unwrap_or(usize::MAX);
    let alternates = matches!(reduction, PolyReduction::Negacyclic(_));
    let used = out.len().min(row.len()).min(degree);
    let tasks = out[..used].par_chunks_mut(TASK_COEFFICIENTS).enumerate();
    tasks.try_for_each(|(task, out)| {
        let first = task * TASK_COEFFICIENTS;
        for (number, block) in row.chunks(degree).enumerate() {
            if number % TASK_BLOCKS == 0 {
                control.check()?;
            }
            let block = block.get(first..).unwrap_or_default();
            let pairs = out.iter_mut().zip(block);
            if alternates && number % 2 == 1 {
                pairs.for_each(|(out, coefficient)| *out = field.subtract(*out, *coefficient));
            } else {
                pairs.for_each(|(out, coefficient)| *out = field.add(*out, *coefficient));
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field31, Prime31};

    fn reduced(row: &[u32], reduction: PolyReduction, length: usize) -> Vec<u32> {
        let field = Field31::new(Prime31::BabyBear);
        let row: Vec<_> = row.iter().map(|value| field.element(*value)).collect();
        let mut out = vec![field.element(0); length];
        add_reduced(field, &row, reduction, &mut out, &JobControl::default()).unwrap();
        out.into_iter().map(|element| field.value(element)).collect()
    }

    #[test]
    fn blocks_are_added_or_alternate() {
        let row = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(reduced(&row, PolyReduction::None, 8), [1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(reduced(&row, PolyReduction::Cyclic(3), 3), [12, 7, 9]);
        assert_eq!(reduced(&row, PolyReduction::Cyclic(3), 5), [12, 7, 9, 0, 0]);
        let p = Prime31::BabyBear.modulus();
        assert_eq!(reduced(&row, PolyReduction::Negacyclic(3), 3), [4, p - 3, p - 3]);
        assert_eq!(reduced(&row, PolyReduction::Cyclic(1), 1), [28]);
        assert_eq!(reduced(&row, PolyReduction::Negacyclic(u64::MAX), 7), row);
    }
}
