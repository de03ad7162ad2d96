//! A proving key that a runner keeps.

use std::sync::Arc;

use ark_bls12_381::Bls12_381;
use ark_groth16::{ProvingKey, VerifyingKey};

use super::{
    ConstraintMatrices, Groth16Error,
    key_upload::{KeyUpload, NewParts},
    matrices::check_length,
    objects::KeyObjects,
    program::{ProofProgram, domain_lg},
    weak_key::check_proving_key,
};
use crate::{
    curve::{G1Affine, G2Affine},
    runner::{ProgramRunner, PutOptions},
};

/// A proving key and the constraint system that it belongs to, which a runner has: a server, a
/// fleet, or the engine in this process.
#[derive(Debug, Clone)]
pub struct Groth16Key {
    pub(super) matrices: Arc<ConstraintMatrices>,
    pub(super) objects: KeyObjects,
    pub(super) lg_n: u32,
    /// The program for one proof, which the runner stores.
    pub(super) single: ProofProgram,
    pub(super) points: KeyPoints,
    pub(super) verifying_key: Arc<VerifyingKey<Bls12_381>>,
    new: NewParts,
}

/// The points of a key that blind proofs. The runner does not keep them.
#[derive(Debug, Clone, Copy)]
pub struct KeyPoints {
    pub alpha_g1: G1Affine,
    pub beta_g1: G1Affine,
    pub beta_g2: G2Affine,
    pub delta_g1: G1Affine,
    pub delta_g2: G2Affine,
}

impl Groth16Key {
    /// Puts the key's points, the constraint system and the program of a proof, unless a server has
    /// them. Variables whose points are infinity are left out of the sums over A and B if they
    /// are at least an eighth of all variables. An error releases the parts that were new.
    ///
    /// A key of another constraint system with the same lengths is accepted, but
    /// [`Groth16Prover::with_check`](super::Groth16Prover::with_check) refuses its proofs.
    ///
    /// Errors: `Length` if the key does not belong to the constraint system; `WeakKey`; `Empty`;
    /// `TooLarge`; `StoreTooSmall`; `Part` with the runner's error; `Run`.
    pub async fn register<R: ProgramRunner>(
        runner: &R,
        key: &ProvingKey<Bls12_381>,
        matrices: ConstraintMatrices,
    ) -> Result<Self, Groth16Error> {
        Self::register_with(runner, PutOptions::default(), key, matrices).await
    }

    /// Like [`Self::register`], with persistence, progress over all parts, a deadline for each, or
    /// a label of at most 100 bytes, which the name of each part follows.
    pub async fn register_with<R: ProgramRunner>(
        runner: &R,
        options: PutOptions,
        key: &ProvingKey<Bls12_381>,
        matrices: ConstraintMatrices,
    ) -> Result<Self, Groth16Error> {
        matrices.check_provable()?;
        let lg_n = domain_lg(&matrices)?;
        check_key(key, &matrices, lg_n)?;
        let mut upload = KeyUpload::begin(runner, options).await?;
        let put = async {
            let objects = KeyObjects::put(&mut upload, key, &matrices).await?;
            let single = ProofProgram::new(&matrices, &objects, lg_n, 1);
            let mut single = single.map_err(|error| Groth16Error::run(R::Error::from(error)))?;
            let stored = runner.store_program(&single.program).await;
            single.program = stored.map_err(Groth16Error::run)?;
            Ok((objects, single))
        };
        let (objects, single) = match put.await {
            Ok(put) => put,
            Err(error) => {
                upload.new.release(runner).await;
                return Err(error);
            }
        };
        let points = KeyPoints {
            alpha_g1: key.vk.alpha_g1,
            beta_g1: key.beta_g1,
            beta_g2: key.vk.beta_g2,
            delta_g1: key.delta_g1,
            delta_g2: key.vk.delta_g2,
        };
        let verifying_key = key.vk.clone().into();
        let new = upload.new;
        let matrices = matrices.into();
        Ok(Self { matrices, objects, lg_n, single, points, verifying_key, new })
    }

    /// Releases the parts that a server did not have before [`Self::register`], for example
    /// because no proof verifies. Other keys that were registered since may use them, too.
    pub async fn discard<R: ProgramRunner>(self, runner: &R) {
        self.new.release(runner).await;
    }

    /// The constraint system.
    pub fn matrices(&self) -> &ConstraintMatrices {
        &self.matrices
    }

    /// What the runner keeps of the key.
    #[doc(hidden)]
    pub fn objects(&self) -> &KeyObjects {
        &self.objects
    }

    /// What the runner does not keep of it.
    #[doc(hidden)]
    pub fn points(&self) -> &KeyPoints {
        &self.points
    }
}

fn check_key(
    key: &ProvingKey<Bls12_381>,
    matrices: &ConstraintMatrices,
    lg_n: u32,
) -> Result<(), Groth16Error> {
    let (variables, public) = (matrices.variables(), matrices.public_variables());
    check_length("a_query of the key", variables, key.a_query.len())?;
    check_length("b_g1_query of the key", variables, key.b_g1_query.len())?;
    check_length("b_g2_query of the key", variables, key.b_g2_query.len())?;
    check_length("l_query of the key", variables - public, key.l_query.len())?;
    check_length("h_query of the key", (1 << lg_n) - 1, key.h_query.len())?;
    check_length("gamma_abc_g1 of the key", public, key.vk.gamma_abc_g1.len())?;
    Ok(check_proving_key(key)?)
}
