//! Lesson 2: put bases once, then use them in any number of MSMs.
//!
//! `cargo run --release --example 02_msm`

mod common;

use ark_ec::VariableBaseMSM;
use capstan::client::{Client, G1Affine, G1Projective, G2Affine, MsmOptions, Result};

const N: usize = 1 << 12;

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let points = common::points::<G1Affine>(N);
    let scalars = common::scalars(2 * N);

    // The points are sent without conversion and checked once (on the curve, in the subgroup).
    // From now on a handle refers to them.
    let bases = client.put_bases(&points).await?;

    // The sum of scalars[i] * points[i], an arkworks point. The scalars are not converted, either.
    let sum = client.msm(&bases, &scalars[..N]).await?;
    assert_eq!(sum, G1Projective::msm_unchecked(&points, &scalars[..N]));
    println!("{N} terms over {}", bases.id());

    // Several scalar vectors over the same bases go into one call. Every response reports the time
    // of each phase, the engine and the device.
    let options = MsmOptions { batch: 2, ..MsmOptions::default() };
    let two = client.msm_with(&bases, &scalars, options).await?;
    assert_eq!(two.points[0], sum);
    println!("a batch of two on {}: {:?}", two.execution.device, two.timing);

    // A range of the bases, for example for a polynomial of lower degree.
    let low = bases.slice(0, 100).expect("there are at least 100 bases");
    let sum = client.msm(&low, &scalars[..100]).await?;
    assert_eq!(sum, G1Projective::msm_unchecked(&points[..100], &scalars[..100]));

    // A few points that are used once can be sent with the call. G2 works the same way.
    let few = common::points::<G2Affine>(3);
    let sum = client.msm_inline(&few, &scalars[..3]).await?;
    println!("three terms in G2: {}", sum);
    Ok(())
}
