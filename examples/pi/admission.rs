//! Asks the server whether it would run a program, before the client computes its inputs.

use std::time::Duration;

use capstan::client::{Client, ProgramRun, Verification};

use super::Outcome;

/// Errors: if the memory or the modelled time of a run is above the server's limits; if the server
/// cannot be reached.
pub async fn check(client: &Client, run: &ProgramRun<'_>) -> Outcome<()> {
    let limits = client.info().await?.limits.ok_or("the server states no limits")?;
    let estimate = client.estimate(run, Verification::None).await?;
    let parts = [estimate.output_bytes, estimate.value_bytes, estimate.scratch_bytes];
    // Stored inputs take memory until the run has ended.
    let bytes = parts.iter().sum::<u64>() + estimate.input_bytes;
    let max = limits.connection_bytes_in_flight;
    if bytes > max {
        let problem = format!(
            "the series takes {} MiB of the server's memory, of which one connection gets {} MiB \
             (connection_bytes_in_flight_max): use fewer digits",
            bytes >> 20,
            max >> 20,
        );
        return Err(problem.into());
    }
    let (time, max) = (estimate.modelled_time, Duration::from_secs(limits.program_time_s));
    if time > max {
        let problem = format!(
            "the series takes about {time:.0?} on {}, and the server allows {max:.0?} \
             (program_time_max_s): use fewer digits or a GPU",
            estimate.device,
        );
        return Err(problem.into());
    }
    Ok(())
}
