//! Compares Capstan with c-kzg: commits to Ethereum blobs on a server, and again with c-kzg.
//!
//! `cargo run --release --example kzg`
//!
//! The example starts a server in this process and imports the points of the KZG ceremony. It fails
//! on the first difference. `capstan demo` shows the rest of the work on blobs.

mod common;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use ark_ec::CurveGroup;
use ark_ff::{BigInteger, PrimeField};
use capstan::{
    client::{Client, Fr, G1Affine, MsmOptions, PutOptions},
    curve::points,
    formats::{
        PointSet,
        kzg::{self, SetupList},
    },
};

/// Ethereum's file: 4096 points of G1 in two bases, 65 of G2.
const SETUP: &str = include_str!("../tests/data/trusted_setup_4096.json");
const BLOBS: usize = 16;
const BLOB_LENGTH: usize = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let [monomial, mut lagrange, g2] =
        kzg::parse_json(SETUP.as_bytes())?.try_into().map_err(|_| "a list is missing")?;
    same_as_ekzg(&monomial, &g2)?;
    println!("setup:       equal to ekzg-trusted-setup");
    // EIP-4844 stores a blob's evaluations in bit-reversed order; the file is in natural order.
    lagrange.bit_reverse()?;

    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let info = client.info().await?;
    println!("server:      capstand {}, engine {}", info.version, info.engine);
    let options = PutOptions::default();
    let bases =
        client.put_encoded(lagrange.group, lagrange.encoding, &lagrange.data, options).await?;
    let bases = client.bases::<G1Affine>(bases.id).await?;

    let blobs = common::scalars(BLOBS * BLOB_LENGTH);
    let start = Instant::now();
    let options = MsmOptions { batch: BLOBS as u32, ..MsmOptions::default() };
    let sums = client.msm_with(&bases, &blobs, options).await?;
    println!("capstan:     {BLOBS} commitments in {}", text(start.elapsed()));
    let commitments: Vec<_> = sums.points.iter().map(|sum| sum.into_affine()).collect();
    same_as_c_kzg(&blobs, &commitments)?;
    println!("comparison:  all commitments are equal");
    server.stop();
    Ok(())
}

/// The crate `ekzg-trusted-setup` has the same points, read by another library.
fn same_as_ekzg(monomial: &PointSet, g2: &PointSet) -> Outcome<()> {
    let theirs = ekzg_trusted_setup::TrustedSetup::default();
    let g1_bytes: Vec<u8> =
        theirs.g1_monomial.iter().flat_map(|point| point.to_compressed()).collect();
    let g2_bytes: Vec<u8> =
        theirs.g2_monomial.iter().flat_map(|point| point.to_compressed()).collect();
    if monomial.list != Some(SetupList::G1Monomial)
        || monomial.data != g1_bytes
        || g2.data != g2_bytes
    {
        return Err("the setup differs from ekzg-trusted-setup's".into());
    }
    Ok(())
}

fn same_as_c_kzg(blobs: &[Fr], commitments: &[G1Affine]) -> Outcome<()> {
    let settings = c_kzg::ethereum_kzg_settings(0);
    let start = Instant::now();
    let theirs: Vec<_> = blobs
        .chunks(BLOB_LENGTH)
        .map(|blob| {
            let bytes: Vec<u8> =
                blob.iter().flat_map(|value| value.into_bigint().to_bytes_be()).collect();
            settings.blob_to_kzg_commitment(&c_kzg::Blob::from_bytes(&bytes)?)
        })
        .collect::<Result<_, _>>()?;
    println!("c-kzg:       {BLOBS} commitments in {}", text(start.elapsed()));
    let ours = points::encode(points::PointEncoding::Compressed, commitments);
    let mut pairs = theirs.iter().zip(ours.chunks(48));
    if let Some(index) = pairs.position(|(theirs, ours)| theirs.to_bytes().as_slice() != ours) {
        return Err(format!("the commitment to blob {index} differs from c-kzg's").into());
    }
    if theirs.len() != commitments.len() {
        return Err("c-kzg returned another number of commitments".into());
    }
    Ok(())
}

fn text(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
