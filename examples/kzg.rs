//! The main job: commits to Ethereum blobs with the points of the KZG ceremony, on a server.
//!
//! `cargo run --release --example kzg`
//!
//! It starts a server in this process, imports the ceremony's points, commits to each blob twice,
//! by its evaluations and by its coefficients, which an NTT gives, and checks every commitment
//! against c-kzg and arkworks. It ends with an error on the first difference.

mod common;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use ark_bls12_381::Bls12_381;
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM, pairing::Pairing};
use ark_ff::{BigInteger, PrimeField};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        BasesHandle, BasesId, Client, Fr, G1Affine, G1Projective, G2Affine, MsmOptions, NttOptions,
        Order, PutOptions, Timing,
    },
    curve::points,
    formats::{
        PointSet,
        kzg::{self, Set},
        reverse_bits,
    },
};
use futures_util::future::try_join_all;

/// Ethereum's own file: 4096 points of G1 in two bases, 65 of G2.
const SETUP: &str = include_str!("../tests/data/trusted_setup_4096.json");
const BLOBS: usize = 16;
const BLOB_LENGTH: usize = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let info = client.info().await?;
    println!("capstand {} at {}, engine {}\n", info.version, server.target, info.engine);

    let [monomial, mut lagrange, g2] =
        kzg::parse_json(SETUP.as_bytes())?.try_into().map_err(|_| "a list is missing")?;
    same_as_ekzg(&monomial, &g2)?;
    // A blob's evaluations stand in bit-reversed order, the file's points do not.
    lagrange.bit_reverse()?;
    let lagrange_bases = import::<G1Affine>(&client, &lagrange, "lagrange, blob order").await?;
    let monomial_bases = import::<G1Affine>(&client, &monomial, "monomial").await?;
    let g2_bases = import::<G2Affine>(&client, &g2, "monomial").await?;

    let blobs: Vec<Vec<Fr>> =
        common::scalars(BLOBS * BLOB_LENGTH).chunks(BLOB_LENGTH).map(<[Fr]>::to_vec).collect();
    println!("\n{:28}{}", format!("{BLOBS} blobs of {BLOB_LENGTH}"), Row::HEAD);
    let by_evaluations = commit(&client, "evaluations: 16 MSMs", &lagrange_bases, &blobs).await?;
    let coefficients = interpolate(&client, &blobs).await?;
    let by_coefficients =
        commit(&client, "coefficients: 16 MSMs", &monomial_bases, &coefficients).await?;
    same("commitments to evaluations and to coefficients", &by_evaluations, &by_coefficients)?;
    // A polynomial short enough for the points of G2.
    let short = [coefficients[0][..g2.count()].to_vec()];
    let few = monomial_bases.slice(0, g2.count() as u64).ok_or("too few points")?;
    let in_g1 = commit(&client, "65 coefficients in G1", &few, &short).await?[0];
    let in_g2 = commit(&client, "the same in G2", &g2_bases, &short).await?[0];

    println!(
        "(means of each job; upload of small jobs: all that the server does not account for)\n"
    );
    let start = Instant::now();
    same_as_c_kzg(&blobs, &by_evaluations)?;
    same_as_arkworks(&blobs, &coefficients, &by_evaluations, [&lagrange, &monomial])?;
    let (left, right) = (G2Affine::generator(), G1Affine::generator());
    if Bls12_381::pairing(in_g1, left) != Bls12_381::pairing(right, in_g2) {
        return Err("the commitments in G1 and G2 are not to the same polynomial".into());
    }
    println!("pairing:  the commitments in G1 and G2 are to the same polynomial");
    println!("\nall is well; checking took {}", text(start.elapsed()));
    server.stop();
    Ok(())
}

/// Sends points as the file has them; the server checks every one.
async fn import<A: points::CurvePoint>(
    client: &Client,
    set: &PointSet,
    what: &str,
) -> Outcome<BasesHandle<A>> {
    let start = Instant::now();
    let options = PutOptions { label: what.to_owned(), ..PutOptions::default() };
    let info = client.put_encoded(set.group, set.encoding, &set.data, options).await?;
    let (count, group, id) = (info.count, info.group, short_id(info.id));
    let took = text(start.elapsed());
    println!("{count:5} points of {group}, {what:20} id {id}  checked and stored in {took:>9}");
    Ok(client.bases(info.id).await?)
}

/// One MSM a row, all at a time.
async fn commit<A: points::CurvePoint>(
    client: &Client,
    what: &str,
    bases: &BasesHandle<A>,
    rows: &[Vec<Fr>],
) -> Outcome<Vec<A>> {
    let start = Instant::now();
    let jobs = rows.iter().map(|row| client.msm_with(bases, row, MsmOptions::default()));
    let sums = try_join_all(jobs).await?;
    Row::of(sums.iter().map(|sum| &sum.timing), start.elapsed()).print(what);
    Ok(sums.iter().map(|sum| sum.points[0].into_affine()).collect())
}

/// Evaluations in a blob's order to coefficients in natural order: one inverse NTT of many rows.
async fn interpolate(client: &Client, blobs: &[Vec<Fr>]) -> Outcome<Vec<Vec<Fr>>> {
    let start = Instant::now();
    let mut rows = blobs.concat();
    let options = NttOptions {
        input_order: Order::BitReversed,
        batch: blobs.len() as u32,
        ..NttOptions::inverse()
    };
    let report = client.ntt(&mut rows, options).await?;
    Row::of([&report.timing], start.elapsed()).print("to coefficients: 1 NTT");
    Ok(rows.chunks(BLOB_LENGTH).map(<[Fr]>::to_vec).collect())
}

/// What jobs took: each phase is a mean, `wall` is for all of them.
struct Row {
    phases: [Duration; 4],
    wall: Duration,
}

impl Row {
    const HEAD: &str = "   upload     queue   compute  download  all jobs";

    fn of<'a>(timings: impl IntoIterator<Item = &'a Timing>, wall: Duration) -> Self {
        let mut phases = [Duration::ZERO; 4];
        let mut jobs = 0;
        for timing in timings {
            let these = [timing.upload, timing.queue, timing.compute, timing.download];
            phases.iter_mut().zip(these).for_each(|(sum, time)| *sum += time);
            jobs += 1;
        }
        Self { phases: phases.map(|sum| sum / jobs.max(1)), wall }
    }

    fn print(&self, what: &str) {
        let [upload, queue, compute, download] = self.phases.map(text);
        let wall = text(self.wall);
        println!("{what:28}{upload:>9} {queue:>9} {compute:>9} {download:>9} {wall:>9}");
    }
}

/// The crate `ekzg-trusted-setup` carries the same points, read by another library.
fn same_as_ekzg(monomial: &PointSet, g2: &PointSet) -> Outcome<()> {
    let theirs = ekzg_trusted_setup::TrustedSetup::default();
    let g1_bytes: Vec<u8> =
        theirs.g1_monomial.iter().flat_map(|point| point.to_compressed()).collect();
    let g2_bytes: Vec<u8> =
        theirs.g2_monomial.iter().flat_map(|point| point.to_compressed()).collect();
    if monomial.set != Some(Set::G1Monomial) || monomial.data != g1_bytes || g2.data != g2_bytes {
        return Err("the setup is not ekzg-trusted-setup's".into());
    }
    Ok(())
}

fn same_as_c_kzg(blobs: &[Vec<Fr>], commitments: &[G1Affine]) -> Outcome<()> {
    let settings = c_kzg::ethereum_kzg_settings(0);
    let ours = points::encode(points::PointEncoding::Compressed, commitments);
    for (index, (blob, ours)) in blobs.iter().zip(ours.chunks(48)).enumerate() {
        let bytes: Vec<u8> =
            blob.iter().flat_map(|value| value.into_bigint().to_bytes_be()).collect();
        let theirs = settings.blob_to_kzg_commitment(&c_kzg::Blob::from_bytes(&bytes)?)?;
        if theirs.to_bytes().as_slice() != ours {
            return Err(format!("the commitment to blob {index} is not c-kzg's").into());
        }
    }
    println!("c-kzg:    all {} commitments are the same", commitments.len());
    Ok(())
}

fn same_as_arkworks(
    blobs: &[Vec<Fr>],
    coefficients: &[Vec<Fr>],
    commitments: &[G1Affine],
    [lagrange, monomial]: [&PointSet; 2],
) -> Outcome<()> {
    let decode = |set: &PointSet| points::decode::<G1Affine>(set.encoding, &set.data);
    let (lagrange, monomial) = (decode(lagrange)?, decode(monomial)?);
    let domain = Radix2EvaluationDomain::<Fr>::new(BLOB_LENGTH).ok_or("no such domain")?;
    for (blob, row) in blobs.iter().zip(coefficients) {
        let natural: Vec<_> =
            (0..BLOB_LENGTH).map(|index| blob[reverse_bits(index, BLOB_LENGTH.ilog2())]).collect();
        if domain.ifft(&natural) != *row {
            return Err("the coefficients are not arkworks'".into());
        }
    }
    let sums = |points: &[G1Affine], rows: &[Vec<Fr>]| -> Vec<_> {
        rows.iter().map(|row| G1Projective::msm_unchecked(points, row).into_affine()).collect()
    };
    same("commitments by arkworks over evaluations", commitments, &sums(&lagrange, blobs))?;
    let by_coefficients = sums(&monomial, coefficients);
    same("commitments by arkworks over coefficients", commitments, &by_coefficients)?;
    println!("arkworks: all {} commitments and coefficients are the same", commitments.len());
    Ok(())
}

fn same(what: &str, ours: &[G1Affine], theirs: &[G1Affine]) -> Outcome<()> {
    if ours == theirs && ours.len() == BLOBS {
        Ok(())
    } else {
        Err(format!("{what} differ").into())
    }
}

fn short_id(id: BasesId) -> String {
    id.to_string()[..12].to_owned()
}

fn text(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
