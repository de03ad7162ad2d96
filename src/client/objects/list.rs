//! The list of all objects, page by page.

use capstan_math::curve::Group;

use crate::wire::v1;
use crate::{Client, call::CallFuture, connection::affinity::AffinityKey, error::ClientError};

impl Client {
    /// All objects, or the bases of one group.
    pub(crate) fn list_objects(&self, group: Option<Group>) -> CallFuture<'_, v1::ListResponse> {
        Box::pin(async move {
            // A proxy sends all pages to one server while it serves.
            let key = AffinityKey::random()?;
            let route = &self.route(|| key);
            let send = |request| async move { self.store(route).list(request).await };
            let group = group.map(|group| v1::Group::from(group).into());
            let mut call = self.begin_call(None)?;
            let (mut all, mut request) = (
                v1::ListResponse::default(),
                v1::ListRequest { group, ..v1::ListRequest::default() },
            );
            loop {
                let page = call.unary(request.clone(), send).await?;
                all.bases.extend(page.bases);
                all.matrices.extend(page.matrices);
                all.unknown_devices.extend(page.unknown_devices);
                if page.next_page_token.is_empty() {
                    break;
                }
                if page.next_page_token == request.page_token {
                    return Err(ClientError::invalid_response("a page follows itself"));
                }
                request.page_token = page.next_page_token;
            }
            all.unknown_devices.sort_unstable();
            all.unknown_devices.dedup();
            Ok(all)
        })
    }
}
