//! Requests for a page of the list of objects.

use capstan_math::{
    curve::Group,
    error::{FieldProblem, InputError, Result},
};

use super::{ObjectId, group};
use crate::v1;

/// Bytes of a page token.
const TOKEN_BYTES: usize = 8 + 32;

/// A page of the list of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSpec {
    /// `None` lists all objects.
    pub group: Option<Group>,
    /// `None` sets no limit.
    pub objects_max: Option<u32>,
    /// The last object of the page before.
    pub after: Option<ListPosition>,
}

/// The sort key of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    pub created_s: i64,
    pub id: ObjectId,
}

impl ListPosition {
    /// Its form in messages.
    pub fn to_token(self) -> Vec<u8> {
        [&self.created_s.to_be_bytes()[..], &self.id.0].concat()
    }

    fn from_token(token: &[u8]) -> Option<Self> {
        let token: &[u8; TOKEN_BYTES] = token.try_into().ok()?;
        let (created_s, id) = token.split_first_chunk::<8>()?;
        let id = ObjectId(id.try_into().ok()?);
        Some(Self { created_s: i64::from_be_bytes(*created_s), id })
    }
}

/// Decodes a request.
///
/// Errors: `Invalid` for an unknown group, or a token that no page has had.
pub fn list_spec(request: &v1::ListRequest) -> Result<ListSpec> {
    let group = request.group.map(|wanted| group("group", wanted)).transpose()?;
    let bad_token = || InputError::field("page_token", FieldProblem::OutOfRange);
    let after = match &request.page_token[..] {
        [] => None,
        token => Some(ListPosition::from_token(token).ok_or_else(bad_token)?),
    };
    let objects_max = (request.page_size > 0).then_some(request.page_size);
    Ok(ListSpec { group, objects_max, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_in_the_order_of_the_list() {
        let at = |created_s, id| ListPosition { created_s, id: ObjectId([id; 32]) };
        for position in [at(0, 0), at(i64::MAX, 255), at(-5, 7)] {
            assert_eq!(ListPosition::from_token(&position.to_token()), Some(position));
        }
        assert!(at(1, 9) < at(2, 0) && at(2, 0) < at(2, 1));
        for token in [vec![0; TOKEN_BYTES - 1], vec![0; TOKEN_BYTES + 1]] {
            let request = v1::ListRequest { page_token: token.into(), ..Default::default() };
            let refused = InputError::field("page_token", FieldProblem::OutOfRange);
            assert_eq!(list_spec(&request), Err(refused));
        }
    }
}
