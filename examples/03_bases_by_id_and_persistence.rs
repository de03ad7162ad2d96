//! Lesson 3: bases are named by their content and can survive a restart of the server.
//!
//! `cargo run --release --example 03_bases_by_id_and_persistence`

mod common;

use std::error::Error;

use capstan::{
    client::{Client, G1Affine, Group, PointEncoding, PutOptions},
    server::ServerSettings,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let settings = || ServerSettings {
        data_dir: Some(directory.path().to_owned()),
        ..ServerSettings::default()
    };
    let points = common::points::<G1Affine>(1000);

    let server = common::serve(settings());
    let client = Client::connect(&server.target).await?;
    let options = PutOptions { label: "lesson".into(), persist: true, ..PutOptions::default() };
    let bases = client.put_bases_with(options, &points).await?;
    let id = bases.id();
    println!("put {id}: {} points, {} bytes", bases.info().count, bases.info().bytes);

    // The same points have the same id in every encoding: nothing is stored twice.
    let bytes = client.get_encoded(id, PointEncoding::Compressed, ..).await?;
    let again = client
        .put_encoded(Group::G1, PointEncoding::Compressed, &bytes, PutOptions::default())
        .await?;
    assert_eq!(again.id, id);

    // Stop the server and start another one with the same directory.
    drop(client);
    server.stop();
    let server = common::serve(settings());
    let client = Client::connect(&server.target).await?;

    // An id can be written as text: 64 hex digits.
    let bases = client.bases::<G1Affine>(id.to_string().parse()?).await?;
    println!("found {:?} again", bases.info().label);
    assert_eq!(client.get_bases::<G1Affine>(id, 10..20).await?, points[10..20]);

    client.release(id).await?;
    assert!(client.list(None).await?.is_empty());
    Ok(())
}
