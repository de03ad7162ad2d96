//! Puts objects that this process holds again.

use std::sync::Arc;

use capstan_math::curve::points::Bases;

use super::held::{HeldContent, HeldObject};
use crate::{
    BasesId, Client, MatrixId, PutOptions,
    call::{CallBudget, CallFuture},
    connection::affinity::CallRoute,
    error::{ClientError, Result},
};

/// How often the objects of one call are put again: between a put and the call that needs it, the
/// server may change again.
const PUTS_MAX: u32 = 2;

/// The objects that a call needs and this process holds.
pub(crate) struct HeldObjects {
    objects: Vec<Arc<HeldObject>>,
    puts_left: u32,
}

impl HeldObjects {
    pub fn new(objects: Vec<Arc<HeldObject>>) -> Self {
        Self { objects, puts_left: PUTS_MAX }
    }

    /// Puts the objects again if the call may have failed with `error` because the server does not
    /// know them. Otherwise returns `error`.
    pub async fn put_again(
        &mut self,
        error: ClientError,
        client: &Client,
        route: &CallRoute,
        call: &CallBudget,
    ) -> Result<()> {
        if !error.is_not_found() || self.objects.is_empty() || self.puts_left == 0 {
            return Err(error);
        }
        self.puts_left -= 1;
        for object in &self.objects {
            let put = put(client, object, route.clone());
            call.deadline.until_deadline(put).await?;
        }
        Ok(())
    }
}

/// Puts the object on the server that `route` chooses, unless that has it.
fn put<'a>(client: &'a Client, object: &'a HeldObject, route: CallRoute) -> CallFuture<'a, ()> {
    let HeldObject { id, content, label, persist } = object;
    let options = PutOptions { label: label.clone(), persist: *persist, ..PutOptions::default() };
    Box::pin(async move {
        match content {
            HeldContent::Bases(Bases::G1(points)) => {
                client.put_bases_as(BasesId(*id), points, options, route).await.map(drop)
            }
            HeldContent::Bases(Bases::G2(points)) => {
                client.put_bases_as(BasesId(*id), points, options, route).await.map(drop)
            }
            HeldContent::Matrix(matrix) => {
                client.put_matrix_as(MatrixId(*id), matrix, &options, route).await.map(drop)
            }
        }
    })
}
