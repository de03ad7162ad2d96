//! The kinds of steps: one folder each, with its specification and the type of its value, and with
//! one way to compute it per executor. `ARCHITECTURE.md` lists what a new kind needs: a folder and
//! a row of the table here, and what clients use to ask for it.

mod bit_matrix;
mod concat;
mod constant;
mod divide_by_linear;
mod divide_by_vanishing;
mod evaluate;
mod gf2_echelon;
mod gf2_reduce;
#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(feature = "server")]
pub mod host;
mod input;
mod int_mul;
mod int_sum;
mod linear_combination;
mod msm;
mod ntt;
mod pad;
mod pointwise;
mod poly_mul;
mod powers;
mod reshape;
mod shapes;
#[cfg(feature = "server")]
mod single;
mod slice;
mod sparse_product;

pub use pointwise::PointwiseOperation;
pub use poly_mul::PolyReduction;
#[cfg(feature = "server")]
pub use single::{SINGLE_STEP, single_msm, single_ntt};

use serde::{Deserialize, Serialize};

use crate::program::{ExternalOperand, Program, StepInputs, StepKind, StepProblem, ValueType};

/// A program of these operations.
pub type OperationProgram = Program<Operation>;

/// Declares [`Operation`] and finds what a step's kind can do.
macro_rules! operations {
    ($($variant:ident $module:ident::$step:ident,)+) => {
        $(pub use $module::$step;)+

        /// A step of any kind.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Operation { $($variant($step)),+ }

        /// The kinds of steps, for tests that must have an example of each.
        #[cfg(feature = "internals")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum OperationKind { $($variant),+ }

        #[cfg(feature = "internals")]
        impl OperationKind {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name of the steps, which is that of their module.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($module)),+ }
            }
        }

        impl Operation {
            fn kind(&self) -> &dyn StepKind {
                match self { $(Self::$variant(step) => step),+ }
            }

            /// How the host computes the step.
            #[cfg(feature = "server")]
            pub fn on_host(&self) -> &dyn host::HostStep {
                match self { $(Self::$variant(step) => step),+ }
            }

            /// How a GPU computes the step.
            #[cfg(feature = "cuda")]
            pub fn on_gpu(&self) -> &dyn gpu::GpuStep {
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

/// The table of all kinds, as input of the macro `$declare`: of a step, the variant, the module,
/// which is named like its message, and the type.
macro_rules! with_operations {
    ($declare:ident) => {
        $declare! {
            Input input::InputStep,
            Constant constant::ConstantStep,
            Powers powers::PowersStep,
            Ntt ntt::NttStep,
            Pointwise pointwise::PointwiseStep,
            LinearCombination linear_combination::LinearCombinationStep,
            Slice slice::SliceStep,
            Concat concat::ConcatStep,
            Pad pad::PadStep,
            Evaluate evaluate::EvaluateStep,
            DivideByLinear divide_by_linear::DivideByLinearStep,
            DivideByVanishing divide_by_vanishing::DivideByVanishingStep,
            Msm msm::MsmStep,
            SparseProduct sparse_product::SparseProductStep,
            PolyMul poly_mul::PolyMulStep,
            Gf2Reduce gf2_reduce::Gf2ReduceStep,
            Gf2Echelon gf2_echelon::Gf2EchelonStep,
            IntMul int_mul::IntMulStep,
            IntSum int_sum::IntSumStep,
            Reshape reshape::ReshapeStep,
        }
    };
}
pub(crate) use with_operations;

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
