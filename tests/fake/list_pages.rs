//! Pages of a list.

use capstan::wire::v1;

/// A page, whose token is its number.
pub fn page(request: &v1::ListRequest, ends: bool) -> v1::ListResponse {
    let number = request.page_token.first().copied().unwrap_or(0);
    let matrix = v1::Matrix { object_id: vec![number; 32].into(), ..Default::default() };
    let next_page_token = match number {
        2 if ends => Vec::new(),
        number => vec![(number + 1).min(2)],
    };
    v1::ListResponse {
        matrices: vec![matrix],
        next_page_token: next_page_token.into(),
        ..Default::default()
    }
}
