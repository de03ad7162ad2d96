//! Pages of the list of a tenant's objects.

use std::sync::Arc;

use crate::grpc::{
    calls::call::CallContext,
    devices::{residency, residency_snapshot::ResidencySnapshot},
    responses::{response, transport_parts::bytes_of_message},
};
use crate::{
    error::Result,
    store::StoredObject,
    wire::{
        decode::{ListPosition, ListSpec},
        encoded_bytes,
        v1::{self, object::Kind},
    },
};

/// Encoded bytes of a page: clients refuse messages of more than 4 MiB unless told otherwise.
const PAGE_BYTES_MAX: u64 = 3 << 20;

/// Encoded bytes of an entry's key and length, at most.
const ENTRY_OVERHEAD: u64 = 6;

/// Lists a page of the objects of a call's tenant, and admits it as the call's response.
///
/// Errors: `Exhausted`.
pub async fn list(call: &CallContext, spec: ListSpec) -> Result<v1::ListResponse> {
    let held = residency::snapshot(&call.state).await;
    let page = page(&call.state.objects.list(call.tenant.id), spec, &held);
    call.admit_response(bytes_of_message(encoded_bytes(&page)))?;
    Ok(page)
}

/// The page of `objects`, which are in the order of the list.
fn page(
    objects: &[Arc<StoredObject>],
    spec: ListSpec,
    held: &ResidencySnapshot,
) -> v1::ListResponse {
    let mut page =
        v1::ListResponse { unknown_devices: held.unknown_devices(), ..Default::default() };
    let begin = objects.partition_point(|object| Some(position(object)) <= spec.after);
    let mut left = spec.objects_max.unwrap_or(u32::MAX);
    let mut bytes = 0;
    let mut last = None;
    for object in &objects[begin..] {
        let kind = response::held_object(object, held);
        let is_listed = match (spec.group, &kind) {
            (Some(group), Kind::Bases(bases)) => v1::Group::from(group) == bases.group(),
            (None, Kind::Bases(_) | Kind::Matrix(_)) => true,
            _ => false,
        };
        if !is_listed {
            continue;
        }
        bytes += ENTRY_OVERHEAD + entry_bytes(&kind);
        // A page has at least one object, so that the caller makes progress.
        if let Some(last) = last.filter(|_| left == 0 || bytes > PAGE_BYTES_MAX) {
            page.next_page_token = ListPosition::to_token(last).into();
            return page;
        }
        match kind {
            Kind::Bases(bases) => page.bases.push(bases),
            Kind::Matrix(matrix) => page.matrices.push(matrix),
            Kind::Vector(_) => {}
        }
        left -= 1;
        last = Some(position(object));
    }
    page
}

fn position(object: &StoredObject) -> ListPosition {
    ListPosition { created_s: object.created_s, id: object.id }
}

fn entry_bytes(kind: &Kind) -> u64 {
    match kind {
        Kind::Bases(bases) => encoded_bytes(bases),
        Kind::Matrix(matrix) => encoded_bytes(matrix),
        Kind::Vector(vector) => encoded_bytes(vector),
    }
}

#[cfg(test)]
mod tests {
    use ark_ec::AffineRepr;

    use super::*;
    use crate::{
        curve::{
            G1Affine,
            points::{Bases, PointSlice},
        },
        store::{ObjectData, StoredPoints},
        wire::decode::{ObjectId, list_spec},
    };

    #[test]
    fn pages_fit_into_messages() {
        const COUNT: u64 = 40_000;
        let points = Bases::G1(PointSlice::new(Arc::new(vec![G1Affine::generator()])));
        let object = |number: u64| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&number.to_be_bytes());
            let data = ObjectData::Bases(StoredPoints { points: points.clone(), infinities: 0 });
            let label = "x".repeat(128);
            let created_s = 7;
            let id = ObjectId(id);
            let payload = None;
            let persisted = false;
            Arc::new(StoredObject { id, data, payload, label, created_s, persisted })
        };
        let objects: Vec<_> = (0..COUNT).map(object).collect();
        let mut request = v1::ListRequest::default();
        let mut listed = Vec::new();
        loop {
            let spec = list_spec(&request).unwrap();
            let page = page(&objects, spec, &ResidencySnapshot::default());
            assert!(encoded_bytes(&page) <= PAGE_BYTES_MAX + 1024, "{}", encoded_bytes(&page));
            listed.extend(page.bases.into_iter().map(|bases| bases.object_id));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        assert!(listed.iter().eq(objects.iter().map(|object| &object.id.0[..])));
    }
}
