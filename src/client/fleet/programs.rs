//! Programs of objects that a fleet holds.

use std::{sync::Arc, time::Duration};

use capstan_math::{
    builder::{ProgramBases, ProgramMatrix, ProgramObject},
    curve::points::content_hash,
    error::FieldProblem,
    runner::{NewRun, ProgramRunner, RunOptions, RunValues},
    sparse::{self, SparseMatrix},
};

use super::Fleet;
use crate::{
    Client, ClientError, CurvePoint, InputElements, ProgramRun, PutOptions,
    error::Result,
    objects::held::{HeldContent, HeldObject},
};

/// A fleet holds objects, and puts them on the server that runs a program of them, if that does not
/// have them. Programs of the same objects go to the same server while it is up.
impl ProgramRunner for Fleet {
    type Error = ClientError;
    type Input<'a> = InputElements<'a>;

    /// The server that first runs a program of the points refuses them if they are wrong.
    async fn put_points<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> Result<ProgramBases<A>> {
        if points.is_empty() {
            return Err(ClientError::input("points", FieldProblem::Zero));
        }
        let (id, all) = (content_hash(points), 0..points.len());
        let object = hold(id, HeldContent::points(points.into(), all), options);
        Ok(ProgramBases::new(object, 0, points.len() as u64))
    }

    async fn put_sparse(
        &self,
        options: PutOptions,
        matrix: &SparseMatrix,
    ) -> Result<ProgramMatrix> {
        let content = HeldContent::Matrix(matrix.clone());
        let object = hold(sparse::content_hash(matrix), content, options);
        Ok(ProgramMatrix { object, shape: matrix.shape() })
    }

    async fn run_program<'a>(
        &self,
        run: NewRun<'a, InputElements<'a>>,
        options: RunOptions,
    ) -> Result<RunValues> {
        let key = run.program.objects().first().map(|object| object.id);
        let limit = options.deadline.or(self.inner.deadline);
        let (run, options) = (&run, &options);
        let work = |client: Client, deadline: Option<Duration>| {
            let options = RunOptions { deadline, ..options.clone() };
            async move { client.run_with(ProgramRun::from(run), options).await }
        };
        let candidates = self.candidates(key.as_ref().map(|id| &id[..]), 0);
        Ok(self.call_within(candidates, limit, work).await?.into())
    }
}

fn hold(id: [u8; 32], content: HeldContent, options: PutOptions) -> ProgramObject {
    let PutOptions { label, persist, .. } = options;
    ProgramObject { id, keeper: Some(Arc::new(HeldObject { id, content, label, persist })) }
}
