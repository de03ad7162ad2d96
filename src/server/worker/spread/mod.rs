//! One call on several GPUs at the same time: a large MSM by ranges of its points, a program by the
//! rows of its values or by its outputs. Each part is the run of a worker.
//!
//! Vectors do not move from one GPU to another: for a peer copy, one worker would map the memory of
//! another one's GPU. If that worker ends, what the driver does with such memory is undefined, so
//! one GPU's fault could become another's. So each part of a divided call reads only inputs of the
//! call, which its worker copies from the server's memory, and steps of which one reads what the
//! other makes run on the same GPU.
//!
//! A large MSM is divided by points, not by rows: by the model of an H200, rows would save at most
//! 8 % of the time on two GPUs, and each GPU would need all of the bases.

mod msm;
mod outputs;
mod parallel;
mod parts;
mod rows;
mod run;
mod target;

use std::sync::Arc;

pub use target::SpreadTarget;

use crate::{
    error::EngineResult as Result,
    exec::{ProgramPlan, RunCall, RunInProgress},
};

/// A run on as many GPUs as the policy allows; `None` if that is one. `alone` is the plan on one.
pub fn divide(
    target: &SpreadTarget<'_>,
    call: &Arc<RunCall>,
    alone: &ProgramPlan,
) -> Result<Option<Box<dyn RunInProgress>>> {
    let gpus_max = target.pool.live().len() as u64;
    // Planning the parts takes longer than this.
    if gpus_max < 2 || !target.are_idle(2, alone) {
        return Ok(None);
    }
    if let Some(run) = msm::divide(target, call, alone, gpus_max)? {
        return Ok(Some(Box::new(run)));
    }
    if let Some(run) = rows::divide(target, call, alone, gpus_max)? {
        return Ok(Some(Box::new(run)));
    }
    Ok(outputs::divide(target, call, alone, gpus_max)?.map(|run| Box::new(run) as _))
}
