//! Where each MSM is computed.

use std::{any::Any, sync::OnceLock};

use ark_ec::scalar_mul::variable_base::offload::{MsmCall, set_hook};
use capstan::client::{CurvePoint, G1Projective, G2Projective, blocking::BlockingClient};

use crate::{
    counts::{count_failed, count_local, count_offloaded},
    limbs::scalar_input,
    offload::{Offload, OffloadOptions},
    pins::{FoundBases, G1_PINS, G2_PINS, PinTable},
};

/// Why the hook could not be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The process has a hook that is not this crate's.
    #[error("another crate has set ark-ec's hook for MSMs, which cannot be replaced")]
    HookTaken,
}

/// Lets `client`'s server compute MSMs of this process, over bases that [`Offload::pin`] names.
/// It can be called again, for other servers.
///
/// Errors: `HookTaken`.
pub fn install(client: BlockingClient) -> Result<Offload, InstallError> {
    install_with(client, OffloadOptions::default())
}

/// Like [`install`], with options.
pub fn install_with(
    client: BlockingClient,
    options: OffloadOptions,
) -> Result<Offload, InstallError> {
    static INSTALLED: OnceLock<Result<(), InstallError>> = OnceLock::new();
    (*INSTALLED.get_or_init(|| set_hook(compute).map_err(|_taken| InstallError::HookTaken)))?;
    Ok(Offload::new(client, options))
}

/// Stores the sum of `call` in `sum` if a server computes it.
fn compute(call: &MsmCall<'_>, sum: &mut dyn Any) {
    // The type of the sum tells that of the bases. Other curves match neither.
    if let Some(sum) = sum.downcast_mut::<Option<G1Projective>>() {
        *sum = offloaded(&G1_PINS, call);
    } else if let Some(sum) = sum.downcast_mut::<Option<G2Projective>>() {
        *sum = offloaded(&G2_PINS, call);
    } else {
        count_local();
    }
}

/// The sum, if the bases are pinned and their server answers.
fn offloaded<A: CurvePoint>(table: &PinTable<A>, call: &MsmCall<'_>) -> Option<A::Group> {
    let found = table.find(call.bases_address(), call.len());
    let found = found.filter(|found| found.server.takes(call.len()));
    let (Some(FoundBases { handle, server }), Some(scalars)) = (found, scalar_input(call)) else {
        count_local();
        return None;
    };
    match server.msm(&handle, scalars) {
        Ok(sum) => {
            count_offloaded();
            Some(sum)
        }
        Err(error) => {
            count_failed();
            server.pause_after(&error);
            None
        }
    }
}
