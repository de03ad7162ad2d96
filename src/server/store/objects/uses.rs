//! Finds the objects that calls use.

use super::{ObjectStore, object::ObjectData};
use crate::{
    curve::{Group, points::Bases},
    error::{Error, FieldProblem, Result},
    sparse::SparseMatrix,
    tenant::TenantId,
    wire::decode::ObjectId,
};

impl ObjectStore {
    /// All points of the bases named `id`.
    ///
    /// Errors: those of [`Self::get`]; `Mismatch` if the object is not bases.
    pub fn bases(&self, tenant: TenantId, id: ObjectId) -> Result<Bases> {
        match &self.get(tenant, id)?.data {
            ObjectData::Bases(bases) => Ok(bases.points.clone()),
            other => Err(mismatch(other, "bases".into())),
        }
    }

    /// `length` points of the bases named `id` from `offset` on; `None` means all of them.
    ///
    /// Errors: those of [`Self::get`]; `Mismatch` if they are not bases of `group`; `Invalid` if
    /// out of range.
    pub fn points(
        &self,
        tenant: TenantId,
        id: ObjectId,
        group: Group,
        offset: usize,
        length: Option<usize>,
    ) -> Result<Bases> {
        let object = self.get(tenant, id)?;
        let points = match &object.data {
            ObjectData::Bases(bases) if bases.points.group() == group => &bases.points,
            other => return Err(mismatch(other, format!("bases of {group}"))),
        };
        let too_large =
            |field, max: usize| Error::field(field, FieldProblem::TooLarge { max: max as u64 });
        let count = points.len();
        let rest = count.checked_sub(offset);
        let rest = rest.ok_or_else(|| too_large("spec.bases.stored.offset", count))?;
        let points = points.slice(offset, length.unwrap_or(rest));
        points.ok_or_else(|| too_large("spec.bases.stored.length", rest))
    }

    /// The matrix named `id`.
    ///
    /// Errors: those of [`Self::get`]; `Mismatch` if the object is not a matrix.
    pub fn matrix(&self, tenant: TenantId, id: ObjectId) -> Result<SparseMatrix> {
        match &self.get(tenant, id)?.data {
            ObjectData::Matrix(matrix) => Ok(matrix.clone()),
            other => Err(mismatch(other, "a matrix".into())),
        }
    }
}

fn mismatch(held: &ObjectData, needed: String) -> Error {
    Error::Mismatch { held: held.description(), needed }
}
