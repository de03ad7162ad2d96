//! The messages of steps: one file per kind, which reads and writes its message.

mod concat;
mod constant;
mod divide_by_linear;
mod divide_by_vanishing;
mod evaluate;
mod gf2_echelon;
mod gf2_reduce;
mod input;
mod int_mul;
mod int_sum;
mod linear_combination;
mod msm;
mod named;
mod ntt;
mod pad;
mod pointwise;
mod poly_mul;
mod powers;
mod prefix_product;
mod reshape;
mod slice;
mod sparse_product;

use capstan_math::{
    error::Result,
    operation::{self, Operation},
    program::StepProblem,
};

use crate::v1::{self, step::Operation as Message};

/// A kind of step, as the contract has it.
trait StepMessage: Sized {
    type Message;

    /// Errors: for the first field that is wrong, whatever the step reads.
    fn decode(message: Self::Message) -> Result<Self, StepProblem>;

    fn encode(&self) -> Self::Message;
}

/// Finds the message of each kind, which has its name.
macro_rules! messages {
    ($($variant:ident $name:ident $step:ident,)+) => {
        /// Errors: `Step` for the first field that is wrong.
        pub fn decode(index: usize, message: Message) -> Result<Operation> {
            match message {
                $(Message::$variant(message) => {
                    let step = operation::$step::decode(message).map(Operation::from);
                    step.map_err(|problem| problem.of_step(index, stringify!($name)))
                })+
            }
        }

        fn encode(step: &Operation) -> Message {
            match step { $(Operation::$variant(step) => Message::$variant(step.encode())),+ }
        }
    };
}

operation::with_operations!(messages);

/// The message of a program of these steps.
pub fn message(steps: &[Operation]) -> v1::Program {
    let message = |step| v1::Step { operation: Some(encode(step)) };
    v1::Program { steps: steps.iter().map(message).collect() }
}
