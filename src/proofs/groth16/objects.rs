//! The points and matrices of a key that a runner keeps.

use std::borrow::Cow;

use ark_bls12_381::Bls12_381;
use ark_ec::AffineRepr;
use ark_ff::One;
use ark_groth16::ProvingKey;

use super::{ConstraintMatrices, Groth16Error, key_upload::KeyUpload};
use crate::{
    builder::{ProgramBases, ProgramMatrix},
    curve::{Fr, G1Affine, G2Affine},
    runner::ProgramRunner,
    sparse::{SparseBuilder, SparseMatrix},
};

/// What a runner keeps of a key.
#[derive(Debug, Clone)]
pub struct KeyObjects {
    pub matrix_a: ProgramMatrix,
    pub matrix_b: ProgramMatrix,
    pub a: ProgramBases<G1Affine>,
    pub b_g1: ProgramBases<G1Affine>,
    pub b_g2: ProgramBases<G2Affine>,
    /// l_query, then h_query.
    pub c: ProgramBases<G1Affine>,
    /// Selects the variables that have a point in `a`; `None` if all have one.
    pub variables_of_a: Option<ProgramMatrix>,
    /// Selects the variables that have a point in `b_g1` or `b_g2`; `None` if all have one.
    pub variables_of_b: Option<ProgramMatrix>,
}

/// The variables whose points are sent: points at infinity add nothing to a sum.
enum Selection {
    All,
    Only(Vec<usize>),
}

impl Selection {
    /// All if less than an eighth of `count` variables would be left out: copying the others costs
    /// time, too.
    fn new(count: usize, is_used: impl Fn(usize) -> bool) -> Self {
        let used: Vec<_> = (0..count).filter(|variable| is_used(*variable)).collect();
        let is_worth_it = !used.is_empty() && count - used.len() >= count.div_ceil(8);
        if is_worth_it { Self::Only(used) } else { Self::All }
    }

    fn points<'a, A: Copy>(&self, all: &'a [A]) -> Cow<'a, [A]> {
        match self {
            Self::All => all.into(),
            Self::Only(used) => used.iter().map(|variable| all[*variable]).collect(),
        }
    }

    /// The matrix whose product with an assignment is the selected variables; `None` for all.
    fn matrix(&self, variables: usize) -> Result<Option<SparseMatrix>, Groth16Error> {
        let Self::Only(used) = self else { return Ok(None) };
        let mut rows = SparseBuilder::new(used.len(), variables);
        for variable in used {
            rows.push_row([(Fr::one(), *variable)]).map_err(|_| Groth16Error::TooLarge)?;
        }
        rows.build().map(Some).map_err(|_| Groth16Error::TooLarge)
    }

    fn count(&self, variables: usize) -> usize {
        match self {
            Self::All => variables,
            Self::Only(used) => used.len(),
        }
    }
}

impl KeyObjects {
    /// Puts what the runner does not have. `key` belongs to `matrices`.
    pub async fn put<R: ProgramRunner>(
        upload: &mut KeyUpload<'_, R>,
        key: &ProvingKey<Bls12_381>,
        matrices: &ConstraintMatrices,
    ) -> Result<Self, Groth16Error> {
        let variables = matrices.variables();
        let used_by_a = Selection::new(variables, |at| !key.a_query[at].is_zero());
        let used_by_b = Selection::new(variables, |at| {
            !key.b_g1_query[at].is_zero() || !key.b_g2_query[at].is_zero()
        });
        let selection_of_a = used_by_a.matrix(variables)?;
        let selection_of_b = used_by_b.matrix(variables)?;
        let [matrix_a, matrix_b] = matrices.factors();
        let selections = [&selection_of_a, &selection_of_b].into_iter().flatten();
        let matrix_bytes = [matrix_a, matrix_b].into_iter().chain(selections);
        let in_g1 = used_by_a.count(variables)
            + used_by_b.count(variables)
            + key.h_query.len()
            + key.l_query.len();
        let total = matrix_bytes.map(|matrix| matrix.as_bytes().len()).sum::<usize>()
            + in_g1 * size_of::<G1Affine>()
            + used_by_b.count(variables) * size_of::<G2Affine>();
        upload.expect(total as u64)?;
        Ok(Self {
            matrix_a: upload.put_matrix("matrix a", matrix_a).await?,
            matrix_b: upload.put_matrix("matrix b", matrix_b).await?,
            a: upload.put_points("a_query", &used_by_a.points(&key.a_query)).await?,
            b_g1: upload.put_points("b_g1_query", &used_by_b.points(&key.b_g1_query)).await?,
            b_g2: upload.put_points("b_g2_query", &used_by_b.points(&key.b_g2_query)).await?,
            c: {
                let points = [&key.l_query[..], &key.h_query].concat();
                upload.put_points("l_query and h_query", &points).await?
            },
            variables_of_a: upload.put_selection("variables of a", selection_of_a).await?,
            variables_of_b: upload.put_selection("variables of b", selection_of_b).await?,
        })
    }
}
