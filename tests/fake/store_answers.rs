//! Answers of the store.

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

/// The answer to a `Put` whose header announced a vector.
pub fn put(header: Option<v1::put_request::Message>) -> v1::PutResponse {
    let Some(v1::put_request::Message::Vector(vector)) = header else {
        panic!("the fake takes vectors only");
    };
    let v1::VectorUpload { upload_id, encoding, count, .. } = vector;
    let vector = v1::object::Kind::Vector(v1::Vector { upload_id, encoding, count });
    v1::PutResponse { object: Some(v1::Object { kind: Some(vector) }), existed: false }
}

/// The answer to a `Stat`: two points of this id.
pub fn other(id: [u8; 32]) -> v1::StatResponse {
    let (object_id, group) = (id.to_vec().into(), v1::Group::G1.into());
    let bases = v1::Bases { object_id, group, count: 2, persisted: true, ..Default::default() };
    let object = v1::Object { kind: Some(v1::object::Kind::Bases(bases)) };
    let status = Some(v1::stat_response::Status::Object(object));
    v1::StatResponse { status, ..Default::default() }
}
