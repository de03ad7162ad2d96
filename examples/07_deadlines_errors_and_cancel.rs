//! Lesson 7: errors report the cause and what to do; dropping a call cancels it.
//!
//! `cargo run --release --example 07_deadlines_errors_and_cancel`

mod common;

use std::time::Duration;

use capstan::client::{
    BasesId, Client, ClientError, Code, G1Affine, MsmOptions, Reason, Result, ScalarEncoding,
    ScalarInput,
};

const N: usize = 1 << 16;

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let points = common::points::<G1Affine>(N);
    let scalars = common::scalars(N);
    let bases = client.put_bases(&points).await?;

    // The client detects a wrong length itself and sends nothing.
    let error = client.msm(&bases, &scalars[1..]).await.unwrap_err();
    assert!(matches!(error, ClientError::InvalidInput { field: "scalars", .. }));
    println!("{error}");

    // A value that is not below r: the error has its field and index.
    let mut bytes = vec![0; 32 * N];
    bytes[32 * 7..][..32].fill(0xff);
    let input = ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes: &bytes };
    let error = client.msm(&bases, input).await.unwrap_err();
    assert_eq!((error.code(), error.index()), (Code::InvalidArgument, Some(7)));
    assert_eq!(error.reason(), Some(Reason::NotCanonical));
    println!("{error}");

    // Bases that the server does not have.
    let error = client.bases::<G1Affine>(BasesId([0; 32])).await.unwrap_err();
    assert!(error.is_not_found());
    println!("{error}");

    // The server enforces the call's deadline, too: it refuses a call at once if it expects it to
    // take longer, and ends one that does. The deadline includes the client's retries.
    let options = MsmOptions { deadline: Some(Duration::from_millis(1)), ..MsmOptions::default() };
    let error = client.msm_with(&bases, &scalars, options).await.unwrap_err();
    let is_refused = error.reason() == Some(Reason::DeadlineTooEarly);
    assert!(is_refused || error.code() == Code::DeadlineExceeded);
    println!("{error}");

    // Dropping the future cancels the call on both sides.
    let call = client.msm(&bases, &scalars);
    assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());

    // The server is unaffected.
    let sum = client.msm(&bases, &scalars).await?;
    println!("a call that completes: {sum}");
    Ok(())
}
