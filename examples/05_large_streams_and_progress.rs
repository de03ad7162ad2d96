//! Lesson 5: large inputs are sent in chunks over all of the client's connections and processed
//! while they arrive; a callback reports progress.
//!
//! `cargo run --release --example 05_large_streams_and_progress`

mod common;

use std::sync::Arc;

use ark_ec::VariableBaseMSM;
use capstan::client::{
    Client, G1Affine, G1Projective, MsmOptions, NttOptions, Progress, Result, ScalarEncoding,
    ScalarInput, UploadKey,
};

const N: usize = 1 << 16;
const BATCH: u32 = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::builder(&server.target).connections(4).connect().await?;
    let points = common::points::<G1Affine>(N);
    let bases = client.put_bases(&points).await?;

    // 8 MiB of scalars. `&scalars` is copied chunk by chunk as it is sent; a `Vec<Fr>` passed by
    // value is not copied, and wiped after the last chunk.
    let scalars = common::scalars(N * BATCH as usize);
    let options = MsmOptions { batch: BATCH, progress: Some(bar("msm")), ..MsmOptions::default() };
    let msm = client.msm_with(&bases, &scalars, options).await?;
    println!("upload {:?} of {:?}", msm.timing.upload, msm.timing.total);

    // A vector for several jobs is uploaded once and then referred to by its id.
    let vector =
        client.put_vector_as(UploadKey::random()?, &scalars[..N], Some(bar("vector"))).await?;
    assert_eq!(client.msm(&bases, vector.id).await?, msm.points[0]);
    client.release_vector(vector.id).await?;

    // Narrow scalars are sent and processed without widening.
    let bytes = common::bytes(N);
    let narrow = ScalarInput::Bytes { encoding: ScalarEncoding::Unsigned(1), bytes: &bytes };
    assert_eq!(client.msm(&bases, narrow).await?, G1Projective::msm_u8(&points, &bytes));

    // A large transform is uploaded and downloaded over all connections.
    let mut values = scalars.clone();
    let options = NttOptions { progress: Some(bar("ntt")), ..NttOptions::forward() };
    let report = client.ntt(&mut values, options).await?;
    println!("upload {:?}, download {:?}", report.timing.upload, report.timing.download);
    Ok(())
}

/// Prints progress after each quarter.
fn bar(what: &'static str) -> Progress {
    Arc::new(move |done, total| {
        let (quarter, chunk) = (total / 4, 256 << 10);
        if done == total || done % quarter.max(1) < chunk && done >= quarter {
            println!("{what}: {done} of {total} bytes");
        }
    })
}
