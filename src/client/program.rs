//! Programs: several operations in one call. `capstan-math` builds them; a run sends their message,
//! or the id of a stored one.

use std::sync::Arc;

use bytes::Bytes;
use capstan_math::builder::{
    BuiltProgram, ProgramBases, ProgramBuilder, ProgramMatrix, ProgramObject,
};

use crate::{
    BasesHandle, ClientError, MatrixHandle,
    objects::held::HeldObject,
    wire::{
        self,
        v1::{self, program_ref},
    },
};

/// Builds a program whose steps a server runs in one call, and whose intermediate values stay on
/// the server. Errors are `InvalidProgram`, before anything is sent.
///
/// ```no_run
/// # async fn lesson(srs: Vec<capstan::curve::G1Affine>, polynomial: Vec<capstan::curve::Fr>)
/// # -> Result<(), capstan::client::ClientError> {
/// use capstan::client::{Client, Fr, ProgramBuilder, ProgramRun};
///
/// let client = Client::connect("http://127.0.0.1:7654").await?;
/// let bases = client.put_bases(&srs).await?;
///
/// // Opens a KZG commitment at the point 5.
/// let mut program = ProgramBuilder::new();
/// let f = program.input(polynomial.len() as u64)?;
/// let value = program.evaluate(f, Fr::from(5))?;
/// let quotient = program.divide_by_linear(f, Fr::from(5))?;
/// let proof = program.msm(&bases, quotient)?;
/// let program = program.build()?;
///
/// let run = ProgramRun::new(&program).input(f, &polynomial).send(value).send_points(proof);
/// let opened = client.run(run).await?;
/// println!("{} with proof {}", opened.vector(value)?[0], opened.points(proof)?[0]);
/// # Ok(()) }
/// ```
///
/// The compiler refuses points as the input of a step:
///
/// ```compile_fail
/// # use capstan::client::{BasesHandle, ClientError, G1Affine, NttTransform, ProgramBuilder};
/// # fn wrong(bases: &BasesHandle<G1Affine>) -> Result<(), ClientError> {
/// let mut program = ProgramBuilder::new();
/// let f = program.input(8)?;
/// let sum = program.msm(bases, f)?;
/// program.ntt(sum, NttTransform::forward())?;
/// # Ok(()) }
/// ```
pub type ClientProgramBuilder = ProgramBuilder<ClientError>;

/// The message of a program's steps.
pub(crate) fn message(program: &BuiltProgram) -> v1::Program {
    wire::steps::message(program.program().steps())
}

/// What a run sends: the id of a stored program, or all of it.
pub(crate) fn reference(program: &BuiltProgram) -> v1::ProgramRef {
    let program = match program.id() {
        Some(id) => program_ref::Program::ProgramId(Bytes::copy_from_slice(&id)),
        None => program_ref::Program::Inline(message(program)),
    };
    v1::ProgramRef { program: Some(program) }
}

/// The objects of its steps that this process holds.
pub(crate) fn held(program: &BuiltProgram) -> Vec<Arc<HeldObject>> {
    let keepers = program.objects().iter().filter_map(|object| object.keeper.clone());
    keepers.filter_map(|keeper| keeper.downcast().ok()).collect()
}

fn object(id: [u8; 32], held: Option<&Arc<HeldObject>>) -> ProgramObject {
    ProgramObject { id, keeper: held.map(|held| held.clone() as _) }
}

impl<A> From<&BasesHandle<A>> for ProgramBases<A> {
    fn from(handle: &BasesHandle<A>) -> Self {
        Self::new(object(handle.info.id.0, handle.held.as_ref()), handle.offset, handle.len)
    }
}

impl<A> From<BasesHandle<A>> for ProgramBases<A> {
    fn from(handle: BasesHandle<A>) -> Self {
        (&handle).into()
    }
}

impl From<&MatrixHandle> for ProgramMatrix {
    fn from(handle: &MatrixHandle) -> Self {
        Self { object: object(handle.id().0, handle.held.as_ref()), shape: handle.shape() }
    }
}
