use bytes::Bytes;
use capstan_math::{
    curve::Group,
    operation::MsmStep,
    program::{StepProblem, ValueId},
};

use super::{StepMessage, named};
use crate::{enums::specified, v1};

impl StepMessage for MsmStep {
    type Message = v1::MsmStep;

    fn decode(message: v1::MsmStep) -> Result<Self, StepProblem> {
        let v1::MsmStep { input, group, object_id, offset } = message;
        let group = specified(group).and_then(|group: v1::Group| Group::try_from(group));
        let group = group.map_err(|problem| StepProblem::field("group", problem))?;
        let object_id = named::object_id(&object_id)?;
        Ok(Self { input: ValueId(input), group, object_id, offset })
    }

    fn encode(&self) -> v1::MsmStep {
        let &Self { input, group, ref object_id, offset } = self;
        let object_id = Bytes::copy_from_slice(object_id);
        v1::MsmStep { input: input.0, group: v1::Group::from(group).into(), object_id, offset }
    }
}
