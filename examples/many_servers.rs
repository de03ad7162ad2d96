//! A client of many servers: jobs are spread over them, and move if one is lost.
//!
//! `cargo run --release --example many_servers`

mod common;

use capstan::client::{Client, Fleet, G1Affine, MsmOptions, PutOptions, Result};

#[tokio::main]
async fn main() -> Result<()> {
    // Usually daemons on other hosts. `Client::builder(name).resolve()` returns one builder for
    // each address of a DNS name.
    let mut servers = vec![common::server(), common::server(), common::server()];
    let targets: Vec<_> = servers.iter().map(|server| server.target.clone()).collect();
    let builders = targets.iter().map(Client::builder);
    let fleet = Fleet::builder(builders).replicas(2).connect().await?;

    // A hash of the bases chooses their server. The fleet holds the points, too.
    let points: Vec<G1Affine> = common::points(1 << 10);
    let scalars = common::scalars(1 << 10);
    let bases = fleet.put_bases(points.clone()).await?;
    let sum = fleet.msm(&bases, &scalars).await?;

    // Cut over three servers, which compute at the same time; the client adds their sums, exactly.
    let cut = fleet.put_bases_with(PutOptions::default(), points, 3).await?;
    assert_eq!(fleet.msm(&cut, &scalars).await?, sum);

    // A batch is divided among the replicas.
    let both = [&scalars[..], &scalars].concat();
    let options = MsmOptions { batch: 2, ..MsmOptions::default() };
    assert_eq!(fleet.msm_with(&bases, &both, options).await?.points, [sum, sum]);

    // A lost server costs time, but no result: its bases are put on another one.
    servers.remove(0).stop();
    assert_eq!(fleet.msm(&bases, &scalars).await?, sum);
    assert_eq!(fleet.msm(&cut, &scalars).await?, sum);

    // Everything else that a client can do, on the server of a key. The work is repeated on another
    // server if that one is lost.
    let version = fleet.call("any key", |client| async move { Ok(client.info().await?.version) });
    println!("{} servers with version {}: {sum}", fleet.servers().len(), version.await?);
    Ok(())
}
