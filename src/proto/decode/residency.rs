//! Requests to warm, pin or evict bases.

use capstan_math::error::{FieldProblem, InputError, Result};

use super::{ObjectId, decode_enum, object_id};
use crate::v1;

/// Maximum number of devices in one request.
const DEVICES_MAX: usize = 64;

/// What to do with bases on devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidencyAction {
    Warm,
    Pin,
    Unpin,
    Evict,
}

impl TryFrom<v1::ResidencyAction> for ResidencyAction {
    type Error = FieldProblem;

    fn try_from(action: v1::ResidencyAction) -> Result<Self, FieldProblem> {
        match action {
            v1::ResidencyAction::Unspecified => Err(FieldProblem::Unspecified),
            v1::ResidencyAction::Warm => Ok(Self::Warm),
            v1::ResidencyAction::Pin => Ok(Self::Pin),
            v1::ResidencyAction::Unpin => Ok(Self::Unpin),
            v1::ResidencyAction::Evict => Ok(Self::Evict),
        }
    }
}

impl ResidencyAction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Evict => "evict",
        }
    }
}

/// A change that a request specifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResidencySpec {
    pub id: ObjectId,
    pub action: ResidencyAction,
    /// Each once; empty means all that serve.
    pub devices: Vec<u32>,
}

/// Decodes a request.
///
/// Errors: `Invalid` for the first wrong field; `NotFound` if the id is malformed.
pub fn residency_spec(request: v1::SetResidencyRequest) -> Result<ResidencySpec> {
    let v1::SetResidencyRequest { object_id: id, action, devices } = request;
    let action = decode_enum::<v1::ResidencyAction, _>("action", action)?;
    if devices.len() > DEVICES_MAX {
        let problem = FieldProblem::too_long(DEVICES_MAX, devices.len());
        return Err(InputError::field("devices", problem));
    }
    let is_repeated = |at: &usize| devices[..*at].contains(&devices[*at]);
    if let Some(at) = (0..devices.len()).find(is_repeated) {
        return Err(InputError::element("devices", at as u64, FieldProblem::Repeated));
    }
    Ok(ResidencySpec { id: object_id(&id)?, action, devices })
}
