//! Lesson 8: the server checks results before it returns them.
//!
//! `cargo run --release --example 08_verify`

mod common;

use capstan::client::{Client, G1Affine, MsmOptions, NttOptions, Result, Verification};

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let scalars = common::scalars(1 << 12);

    // Full: arkworks computes the result again on separate threads. Twice the work; worthwhile if
    // the engine is a device that may fail silently.
    let bases = client.put_bases(&common::points::<G1Affine>(1 << 12)).await?;
    let options = MsmOptions { verify: Verification::Full, ..MsmOptions::default() };
    let msm = client.msm_with(&bases, &scalars, options).await?;
    assert_eq!(msm.execution.verified, Verification::Full);
    println!("msm: {:?}, verification {:?}", msm.timing.total, msm.timing.verify);

    // Probabilistic, for MSMs: one more MSM over a secret random combination of all scalar vectors
    // must agree with the sums. For a batch of k it costs 1/k more.
    let options =
        MsmOptions { batch: 4, verify: Verification::Probabilistic, ..MsmOptions::default() };
    let batch = client.msm_with(&bases, &common::scalars(4 << 12), options).await?;
    assert_eq!(batch.execution.verified, Verification::Probabilistic);
    println!("4 msms: {:?}, verification {:?}", batch.timing.total, batch.timing.verify);

    // Probabilistic, for NTTs: input and output must agree as polynomials at a secret random point.
    // Cheap; a wrong result passes with a probability below 2^-222.
    let mut values = scalars.clone();
    let options = NttOptions { verify: Verification::Probabilistic, ..NttOptions::forward() };
    let report = client.ntt(&mut values, options).await?;
    assert_eq!(report.execution.verified, Verification::Probabilistic);
    println!("ntt: {:?}, verification {:?}", report.timing.total, report.timing.verify);

    // A result that fails its check is never returned: the call fails with code DATA_LOSS.
    Ok(())
}
