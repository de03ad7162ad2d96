//! Lesson 2: put bases once, then multiply scalars with them as often as you like.
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

    // The points travel as they lie in memory, are checked once (on the curve, in the subgroup),
    // and are known by a handle from now on.
    let bases = client.put_bases(&points).await?;

    // The sum of scalars[i] * points[i], an arkworks point. The scalars are not converted either.
    let sum = client.msm(&bases, &scalars[..N]).await?;
    assert_eq!(sum, G1Projective::msm_unchecked(&points, &scalars[..N]));
    println!("{N} terms over {}", bases.id());

    // Several scalar vectors over the same bases go in one call. Every answer says how long each
    // phase took and who did it.
    let options = MsmOptions { batch: 2, ..MsmOptions::default() };
    let two = client.msm_with(&bases, &scalars, options).await?;
    assert_eq!(two.points[0], sum);
    println!("a batch of two on {}: {:?}", two.execution.device, two.timing);

    // A range of the bases: for a polynomial of lower degree, say.
    let low = bases.slice(0, 100).expect("there are more than 100");
    let sum = client.msm(&low, &scalars[..100]).await?;
    assert_eq!(sum, G1Projective::msm_unchecked(&points[..100], &scalars[..100]));

    // Few points, used once, may travel with the call. G2 works alike.
    let few = common::points::<G2Affine>(3);
    let sum = client.msm_inline(&few, &scalars[..3]).await?;
    println!("three terms in G2: {}", sum);
    Ok(())
}
