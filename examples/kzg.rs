//! Compares Capstan with c-kzg on Ethereum blobs: commitments, proofs (EIP-4844), and cells with
//! their proofs (EIP-7594).
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

use ark_bls12_381::Bls12_381;
use ark_ec::{AffineRepr, CurveGroup, pairing::Pairing};
use ark_ff::{BigInteger, FftField, Field, PrimeField};
use c_kzg::Blob;
use capstan::{
    client::{Client, Fr, G1Affine, G2Affine, MsmOptions, NttOptions, Order, PutOptions},
    curve::points,
    formats::{
        PointSet,
        kzg::{self, SetupList},
    },
    kzg::{KzgKey, KzgProver},
};

/// Ethereum's file: 4096 points of G1 in two bases, 65 of G2.
const SETUP: &str = include_str!("../tests/data/trusted_setup_4096.json");
const BLOBS: usize = 16;
const BLOB_LENGTH: usize = 4096;
/// The elements of a blob's extension, and of one of its cells.
const EXTENDED_LENGTH: usize = 8192;
const CELL_LENGTH: usize = 64;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let [monomial, mut lagrange, g2] =
        kzg::parse_json(SETUP.as_bytes())?.try_into().map_err(|_| "a list is missing")?;
    if monomial.list != Some(SetupList::G1Monomial) {
        return Err("the first list is not that of powers in G1".into());
    }
    same_powers(&monomial, &g2)?;
    println!("setup:       the powers in G1 and G2 are those of one number");
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

    let key =
        KzgKey::register(&client, &points::decode(monomial.encoding, &monomial.data)?).await?;
    let blob = &blobs[..BLOB_LENGTH];
    let coefficients = coefficients(&client, blob).await?;
    let prover = KzgProver::new(&client, &key);
    same_proof(&prover, blob, &coefficients, commitments[0]).await?;
    println!("comparison:  the blob's proof is equal");
    same_cells(&client, &prover, blob, &coefficients).await?;
    println!("comparison:  all cells and their proofs are equal");
    server.stop();
    Ok(())
}

/// Checks that both lists begin with the generator, and that each next point is tau times the one
/// before it, with the same tau: pairings of sums with random factors show it for all points. The
/// comparisons with c-kzg, which has its own copy of the setup, show which tau it is.
fn same_powers(g1: &PointSet, g2: &PointSet) -> Outcome<()> {
    let g1: Vec<G1Affine> = points::decode(g1.encoding, &g1.data)?;
    let g2: Vec<G2Affine> = points::decode(g2.encoding, &g2.data)?;
    let factors = common::scalars(g1.len());
    let [low, high] = [&g1[..g1.len() - 1], &g1[1..]].map(|powers| sum(powers, &factors));
    let [low_g2, high_g2] = [&g2[..g2.len() - 1], &g2[1..]].map(|powers| sum(powers, &factors));
    let is_setup = (g1[0], g2[0]) == (G1Affine::generator(), G2Affine::generator())
        && Bls12_381::pairing(high, g2[0]) == Bls12_381::pairing(low, g2[1])
        && Bls12_381::pairing(g1[0], high_g2) == Bls12_381::pairing(g1[1], low_g2);
    if is_setup { Ok(()) } else { Err("the lists are not powers of one number".into()) }
}

fn sum<A: AffineRepr<ScalarField = Fr>>(points: &[A], factors: &[Fr]) -> A {
    points.iter().zip(factors).map(|(point, factor)| *point * factor).sum::<A::Group>().into()
}

fn same_as_c_kzg(blobs: &[Fr], commitments: &[G1Affine]) -> Outcome<()> {
    let settings = c_kzg::ethereum_kzg_settings(0);
    let start = Instant::now();
    let theirs: Vec<_> = blobs
        .chunks(BLOB_LENGTH)
        .map(|blob| settings.blob_to_kzg_commitment(&Blob::from_bytes(&big_endian(blob))?))
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

/// The coefficients of a blob's polynomial. A blob has its evaluations, in bit-reversed order.
async fn coefficients(client: &Client, blob: &[Fr]) -> Outcome<Vec<Fr>> {
    let mut values = blob.to_vec();
    let options = NttOptions { input_order: Order::BitReversed, ..NttOptions::inverse() };
    client.ntt(&mut values, options).await?;
    Ok(values)
}

/// Opens a blob at the point that EIP-4844 hashes from it.
async fn same_proof(
    prover: &KzgProver<'_, Client>,
    blob: &[Fr],
    coefficients: &Vec<Fr>,
    commitment: G1Affine,
) -> Outcome<()> {
    let blob = big_endian(blob);
    let commitment = compressed(commitment);
    let mut hashed = b"FSBLOBVERIFY_V1_".to_vec();
    hashed.extend((BLOB_LENGTH as u128).to_be_bytes());
    hashed.extend(blob.iter().chain(&commitment));
    let challenge = ring::digest::digest(&ring::digest::SHA256, &hashed);
    let challenge = Fr::from_be_bytes_mod_order(challenge.as_ref());

    let ours = prover.open(coefficients, challenge).await?;
    let commitment = c_kzg::Bytes48::from_bytes(&commitment)?;
    let settings = c_kzg::ethereum_kzg_settings(0);
    let theirs = settings.compute_blob_kzg_proof(&Blob::from_bytes(&blob)?, &commitment)?;
    match compressed(ours.proof) == theirs.to_bytes().as_slice() {
        true => Ok(()),
        false => Err("the proof of the blob differs from c-kzg's".into()),
    }
}

/// Extends a blob to twice its length, and opens each cell of the extension at its 64 points. Each
/// proof is a call; c-kzg computes all proofs of a blob together, which takes less time (FK20).
async fn same_cells(
    client: &Client,
    prover: &KzgProver<'_, Client>,
    blob: &[Fr],
    coefficients: &[Fr],
) -> Outcome<()> {
    let mut extended = coefficients.to_vec();
    extended.resize(EXTENDED_LENGTH, Fr::from(0));
    let options = NttOptions { output_order: Order::BitReversed, ..NttOptions::default() };
    client.ntt(&mut extended, options).await?;

    let root = Fr::get_root_of_unity(EXTENDED_LENGTH as u64).ok_or("no root of unity")?;
    let shift = usize::BITS - EXTENDED_LENGTH.ilog2();
    let point = |index: usize| root.pow([(index.reverse_bits() >> shift) as u64]);
    let kept = client.put_vector(coefficients).await?;
    let start = Instant::now();
    let settings = c_kzg::ethereum_kzg_settings(0);
    let blob = Blob::from_bytes(&big_endian(blob))?;
    let (cells, proofs) = settings.compute_cells_and_kzg_proofs(&blob)?;
    println!("c-kzg:       {} proofs of cells in {}", proofs.len(), text(start.elapsed()));
    let start = Instant::now();
    for (cell, theirs) in cells.iter().zip(proofs.iter()).enumerate() {
        let range = cell * CELL_LENGTH..(cell + 1) * CELL_LENGTH;
        let points: Vec<_> = range.clone().map(point).collect();
        let proof = prover.open_batch([&kept], &points, Fr::from(1)).await?;
        let is_equal = big_endian(&extended[range]) == theirs.0.to_bytes()
            && compressed(proof) == theirs.1.to_bytes().as_slice();
        if !is_equal {
            return Err(format!("cell {cell} or its proof differs from c-kzg's").into());
        }
    }
    println!("capstan:     {} proofs of cells in {}", proofs.len(), text(start.elapsed()));
    Ok(client.release_vector(kept.id).await?)
}

fn big_endian(elements: &[Fr]) -> Vec<u8> {
    elements.iter().flat_map(|value| value.into_bigint().to_bytes_be()).collect()
}

fn compressed(point: G1Affine) -> Vec<u8> {
    points::encode(points::PointEncoding::Compressed, &[point])
}

fn text(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
