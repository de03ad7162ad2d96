//! The points and matrices of a key that a server keeps.

use ark_bls12_381::Bls12_381;
use ark_ec::AffineRepr;
use ark_ff::One;
use ark_groth16::ProvingKey;

use super::{ConstraintMatrices, Groth16Error};
use crate::{
    client::{
        BasesHandle, Client, ClientError, CurvePoint, Fr, G1Affine, G2Affine, MatrixHandle,
        PutOptions,
    },
    sparse::{SparseBuilder, SparseMatrix},
};

/// What a server keeps of a key.
#[derive(Debug, Clone)]
pub struct KeyObjects {
    pub matrix_a: MatrixHandle,
    pub matrix_b: MatrixHandle,
    pub a: BasesHandle<G1Affine>,
    pub b_g1: BasesHandle<G1Affine>,
    pub b_g2: BasesHandle<G2Affine>,
    pub h: BasesHandle<G1Affine>,
    pub l: BasesHandle<G1Affine>,
    /// Selects the variables that have a point in `a`; `None` if all have one.
    pub variables_of_a: Option<MatrixHandle>,
    /// Selects the variables that have a point in `b_g1` or `b_g2`; `None` if all have one.
    pub variables_of_b: Option<MatrixHandle>,
}

/// The variables whose points are not infinity: others add nothing to a sum.
struct Selection(Vec<usize>);

impl Selection {
    /// `None` if it would leave out less than an eighth of `count` variables: copying the others
    /// costs time, too.
    fn new(count: usize, is_used: impl Fn(usize) -> bool) -> Option<Self> {
        let used: Vec<_> = (0..count).filter(|variable| is_used(*variable)).collect();
        let is_worth_it = !used.is_empty() && count - used.len() >= count.div_ceil(8);
        is_worth_it.then_some(Self(used))
    }

    fn points<A: Copy>(&self, all: &[A]) -> Vec<A> {
        self.0.iter().map(|variable| all[*variable]).collect()
    }

    /// The matrix whose product with an assignment is the selected variables.
    fn matrix(&self, variables: usize) -> Result<SparseMatrix, Groth16Error> {
        let mut rows = SparseBuilder::new(self.0.len(), variables);
        for variable in &self.0 {
            rows.push_row([(Fr::one(), *variable)]).map_err(|_| Groth16Error::TooLarge)?;
        }
        rows.build().map_err(|_| Groth16Error::TooLarge)
    }
}

impl KeyObjects {
    /// Sends what the server does not have. `key` belongs to `matrices`.
    pub async fn put(
        client: &Client,
        key: &ProvingKey<Bls12_381>,
        matrices: &ConstraintMatrices,
    ) -> Result<Self, Groth16Error> {
        let variables = matrices.variables();
        let of_a = Selection::new(variables, |at| !key.a_query[at].is_zero());
        let of_b = Selection::new(variables, |at| {
            !key.b_g1_query[at].is_zero() || !key.b_g2_query[at].is_zero()
        });
        let [matrix_a, matrix_b] = matrices.factors();
        Ok(Self {
            matrix_a: put_matrix(client, "matrix a", matrix_a).await?,
            matrix_b: put_matrix(client, "matrix b", matrix_b).await?,
            a: put_points(client, "a_query", &key.a_query, &of_a).await?,
            b_g1: put_points(client, "b_g1_query", &key.b_g1_query, &of_b).await?,
            b_g2: put_points(client, "b_g2_query", &key.b_g2_query, &of_b).await?,
            h: put_points(client, "h_query", &key.h_query, &None).await?,
            l: put_points(client, "l_query", &key.l_query, &None).await?,
            variables_of_a: put_selection(client, &of_a, variables).await?,
            variables_of_b: put_selection(client, &of_b, variables).await?,
        })
    }
}

async fn put_points<A: CurvePoint>(
    client: &Client,
    part: &'static str,
    points: &[A],
    selection: &Option<Selection>,
) -> Result<BasesHandle<A>, Groth16Error> {
    let put = match selection {
        Some(selection) => client.put_bases_with(options(part), &selection.points(points)).await,
        None => client.put_bases_with(options(part), points).await,
    };
    put.map_err(of_part(part))
}

async fn put_matrix(
    client: &Client,
    part: &'static str,
    matrix: &SparseMatrix,
) -> Result<MatrixHandle, Groth16Error> {
    client.put_matrix_with(options(part), matrix).await.map_err(of_part(part))
}

async fn put_selection(
    client: &Client,
    selection: &Option<Selection>,
    variables: usize,
) -> Result<Option<MatrixHandle>, Groth16Error> {
    let Some(selection) = selection else { return Ok(None) };
    put_matrix(client, "selection", &selection.matrix(variables)?).await.map(Some)
}

fn options(part: &str) -> PutOptions {
    PutOptions { label: format!("groth16 {part}"), ..PutOptions::default() }
}

fn of_part(part: &'static str) -> impl Fn(ClientError) -> Groth16Error {
    move |error| Groth16Error::Part { part, error }
}
