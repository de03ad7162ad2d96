use bytes::Bytes;
use capstan_math::{
    curve::NttPlan,
    operation::NttStep,
    program::{StepProblem, ValueId},
};

use super::StepMessage;
use crate::{
    parts::{canonical, coset, direction, is_inverse, is_reversed, order},
    v1,
};

impl StepMessage for NttStep {
    type Message = v1::NttStep;

    fn decode(message: v1::NttStep) -> Result<Self, StepProblem> {
        let v1::NttStep { lg_n, direction, coset_generator, input_order, output_order, .. } =
            message;
        let named = |field| move |problem| StepProblem::field(field, problem);
        let plan = NttPlan {
            lg_n,
            inverse: is_inverse(direction).map_err(named("direction"))?,
            coset: coset(&coset_generator).map_err(named("coset_generator"))?,
            input_reversed: is_reversed(input_order).map_err(named("input_order"))?,
            output_reversed: is_reversed(output_order).map_err(named("output_order"))?,
        };
        Ok(Self { input: ValueId(message.input), plan })
    }

    fn encode(&self) -> v1::NttStep {
        let NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = self.plan;
        v1::NttStep {
            input: self.input.0,
            lg_n,
            direction: direction(inverse).into(),
            coset_generator: coset.map_or_else(Bytes::new, |generator| canonical(&[generator])),
            input_order: order(input_reversed).into(),
            output_order: order(output_reversed).into(),
        }
    }
}
