//! What steps are: the parameters of each kind, and the type of its value. `ARCHITECTURE.md` lists
//! what a new kind needs.

mod arithmetic;
mod bits;
mod integers;
mod objects;
mod poly_mul;
mod polynomials;
mod rows;
mod shapes;
mod sources;

pub use self::{
    arithmetic::*, bits::*, integers::*, objects::*, poly_mul::*, polynomials::*, rows::*,
    sources::*,
};

use serde::{Deserialize, Serialize};

use crate::program::{ExternalOperand, Program, StepInputs, StepKind, StepProblem, ValueType};

/// A program of these operations.
pub type OperationProgram = Program<Operation>;

/// Declares [`Operation`] and finds what a step's kind can do.
macro_rules! operations {
    ($($variant:ident $name:ident $step:ident,)+) => {
        /// A step of any kind, as workers get it and as files of programs are read.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum Operation { $($variant($step)),+ }

        /// The kinds of steps, for tests that must have an example of each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum OperationKind { $($variant),+ }

        impl OperationKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name of the steps, which is that of their messages.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name)),+ }
            }
        }

        impl Operation {
            fn kind(&self) -> &dyn StepKind {
                match self { $(Self::$variant(step) => step),+ }
            }
        }

        $(impl From<$step> for Operation {
            fn from(step: $step) -> Self {
                Self::$variant(step)
            }
        })+
    };
}

/// The table of all kinds, as input of the macro `$declare`: the variant of [`Operation`], the name
/// of the message, and the type of the step.
///
/// [`Operation`]: crate::operation::Operation
#[macro_export]
macro_rules! with_operations {
    ($declare:ident) => {
        $declare! {
            Input input InputStep,
            Constant constant ConstantStep,
            Powers powers PowersStep,
            Ntt ntt NttStep,
            Pointwise pointwise PointwiseStep,
            LinearCombination linear_combination LinearCombinationStep,
            Slice slice SliceStep,
            Concat concat ConcatStep,
            Pad pad PadStep,
            Evaluate evaluate EvaluateStep,
            DivideByLinear divide_by_linear DivideByLinearStep,
            DivideByVanishing divide_by_vanishing DivideByVanishingStep,
            Msm msm MsmStep,
            SparseProduct sparse_product SparseProductStep,
            PolyMul poly_mul PolyMulStep,
            Gf2Reduce gf2_reduce Gf2ReduceStep,
            Gf2Echelon gf2_echelon Gf2EchelonStep,
            IntMul int_mul IntMulStep,
            IntSum int_sum IntSumStep,
            Reshape reshape ReshapeStep,
            PrefixProduct prefix_product PrefixProductStep,
        }
    };
}
pub use with_operations;

with_operations!(operations);

impl StepKind for Operation {
    fn name(&self) -> &'static str {
        self.kind().name()
    }

    fn inputs(&self) -> StepInputs<'_> {
        self.kind().inputs()
    }

    fn infer(&self, inputs: &[ValueType]) -> Result<ValueType, StepProblem> {
        self.kind().infer(inputs)
    }

    fn can_overwrite(&self, position: usize) -> bool {
        self.kind().can_overwrite(position)
    }

    fn is_row_by_row(&self) -> bool {
        self.kind().is_row_by_row()
    }

    fn reads_any_encoding(&self) -> bool {
        self.kind().reads_any_encoding()
    }

    fn operand(&self) -> Option<ExternalOperand> {
        self.kind().operand()
    }
}
