//! CPU engines: [`CpuEngine`] serves, [`ArkworksEngine`] checks.
//!
//! Long steps on the host stop at a cancellation: every loop over a row checks the job's control
//! between tasks. What cannot be interrupted gets small pieces: arkworks' MSMs and transforms, and
//! the decoding of points. blst's tiles are the exception, since smaller ones cost a tenth. Of long
//! transforms, the outer stages are ours: DIF for the engine and DIT for the oracle, so that an
//! error in one is not in the other.
//!
//! MSM tiles run on our own pool, not in blst's hidden one, so that the `threads` setting holds and
//! cancellation takes effect between tiles.

mod arkworks;
mod blst;
mod long_ntt;
mod model;
mod msm;
mod msm_plan;
mod msm_run;
mod ntt;
mod ntt31;
mod pool;
mod row_passes;

use std::time::Duration;

use self::{long_ntt::LongNtt, msm_run::CpuMsmRun, pool::EnginePool};
use super::{
    DeviceInfo, EngineModel, EngineWork, ExecutedBy, JobControl, MsmNttEngine, MsmRun, NttPlan,
    NttRows,
};
use crate::{
    curve::{Decimation, Fr, Group, points::Bases},
    error::Result,
    field::{Element31, Field31, FieldId},
};

/// MSM by blst's inner loop and NTT by arkworks, both on its own pool. The loop takes 15 to 34 %
/// less thread time than arkworks' MSM (`benches/experiments/cpu-engine.md`).
pub struct CpuEngine(EnginePool);

/// MSM and NTT by arkworks on its own pool, to check other engines against.
pub struct ArkworksEngine(EnginePool);

impl CpuEngine {
    /// The threads, for other engines' work on the host.
    pub(super) fn threads(&self) -> &std::sync::Arc<rayon::ThreadPool> {
        &self.0.threads
    }
}

/// Implements an engine on a pool, with the MSM in a module that uses a library.
macro_rules! pool_engine {
    (
        $engine:ty,
        $name:literal,
        $thread_name:literal,
        $msm:ident,
        $library:literal,
        $is_oracle:literal,
        $long_ntt:expr,
        $decimation31:expr
    ) => {
        impl $engine {
            /// An engine of `threads` threads; 0 means one per core.
            ///
            /// Errors: `Internal` if the threads cannot be created.
            pub fn new(threads: usize) -> Result<Self> {
                Ok(Self(EnginePool::new($name, $thread_name, threads, $long_ntt)?))
            }
        }

        impl EngineModel for $engine {
            fn description(&self) -> DeviceInfo {
                self.0.description()
            }

            fn msm_piece_len(&self, group: Group, n: usize) -> usize {
                n.min(pool::msm_piece_len(group))
            }

            fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
                let threads = self.0.threads.current_num_threads();
                $msm::scratch_bytes(group, self.msm_piece_len(group, n), threads)
            }

            fn ntt_scratch_bytes(&self, field: FieldId, lg_n: u32) -> u64 {
                self.0.ntt_scratch_bytes(field, lg_n)
            }

            fn is_oracle(&self) -> bool {
                $is_oracle
            }

            fn modelled_time(&self, work: &EngineWork) -> Duration {
                let threads = self.0.threads.current_num_threads();
                model::modelled_time(work, threads, $msm::addition_ns)
            }
        }

        impl MsmNttEngine for $engine {
            fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
                Ok(match bases {
                    Bases::G1(all) => CpuMsmRun::start(&self.0, $library, $msm::sum, all, batch),
                    Bases::G2(all) => CpuMsmRun::start(&self.0, $library, $msm::sum, all, batch),
                })
            }

            fn ntt(
                &self,
                plan: &NttPlan,
                rows: &NttRows<'_>,
                control: &JobControl,
            ) -> Result<ExecutedBy> {
                self.0.ntt(plan, rows, control)
            }

            fn ntt_in_place(
                &self,
                plan: &NttPlan,
                rows: &mut [Vec<Fr>],
                control: &JobControl,
            ) -> Result<ExecutedBy> {
                self.0.ntt_in_place(plan, rows, control)
            }

            fn ntt31(
                &self,
                field: Field31,
                plan: &NttPlan<Element31>,
                rows: &mut [Vec<Element31>],
                control: &JobControl,
            ) -> Result<ExecutedBy> {
                self.0.ntt31(field, plan, rows, $decimation31(plan.decimation()), control)
            }
        }
    };
}

pool_engine!(
    CpuEngine,
    "cpu",
    "capstan-cpu",
    msm,
    "blst",
    false,
    LongNtt::transform_dif,
    std::convert::identity
);
// An error in the stages of one engine is not in those of the other.
pool_engine!(
    ArkworksEngine,
    "arkworks",
    "capstan-check",
    arkworks,
    "arkworks",
    true,
    LongNtt::transform_dit,
    Decimation::other
);

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{engines::CancellationGate, error::Error};

    /// arkworks' transform of a row cannot be interrupted.
    #[test]
    fn a_long_row_is_transformed_in_parts_that_can_be_cancelled() {
        let lg_n = long_ntt::LG_PART + 1;
        let (inverse, coset, input_reversed, output_reversed) = Default::default();
        let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
        // The check before the row, and the first one within it.
        let left = AtomicUsize::new(2);
        let next = |left: usize| left.checked_sub(1);
        let gate: CancellationGate =
            Arc::new(move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok());
        let control = JobControl::default().behind(&gate);
        let mut rows = [vec![Fr::from(1_u64); 1 << lg_n]];
        let stopped = CpuEngine::new(2).unwrap().ntt_in_place(&plan, &mut rows, &control);
        assert_eq!(stopped.err(), Some(Error::Cancelled));
    }
}
