//! Keys and proofs in arkworks' serialization.

use ark_bls12_381::Bls12_381;
use ark_ec::AffineRepr;
use ark_groth16::{Proof, ProvingKey, VerifyingKey};
use ark_serialize::{Compress, Validate};
use rayon::prelude::*;

use super::{error::ProofFileError, reader::PartReader};
use crate::{
    formats::FileFormat,
    groth16::weak_key::{check_proving_key, check_verifying_key},
};

type Result<T> = std::result::Result<T, ProofFileError>;

/// Reads points. Their first byte tells whether they are compressed.
struct PointReader<'a> {
    bytes: PartReader<'a>,
    compress: Compress,
}

/// The set bit of the first byte of a compressed point.
const COMPRESSED: u8 = 0x80;

/// Reads a proving key. All points must be well-formed encodings. Those that stay in the client are
/// checked to be in the subgroup; [`Groth16Key::register`](crate::groth16::Groth16Key::register)
/// sends the others to the server, which checks them.
///
/// Errors: `Truncated`, `TrailingBytes`, `OtherFormat`; `InvalidPoint`; `WeakKey`.
pub fn read_proving_key(file: &[u8]) -> Result<ProvingKey<Bls12_381>> {
    let key = read_file(file, FileFormat::ArkProvingKey, "the proving key", |reader| {
        Ok(ProvingKey {
            vk: reader.verifying_key()?,
            beta_g1: reader.point("beta_g1")?,
            delta_g1: reader.point("delta_g1")?,
            a_query: reader.points("a_query", Validate::No)?,
            b_g1_query: reader.points("b_g1_query", Validate::No)?,
            b_g2_query: reader.points("b_g2_query", Validate::No)?,
            h_query: reader.points("h_query", Validate::No)?,
            l_query: reader.points("l_query", Validate::No)?,
        })
    })?;
    check_proving_key(&key)?;
    Ok(key)
}

/// Reads a verifying key and checks all of its points, and that none of them allows anyone to forge
/// proofs.
///
/// Errors: `Truncated`, `TrailingBytes`, `OtherFormat`; `InvalidPoint`; `WeakKey`.
pub fn read_verifying_key(file: &[u8]) -> Result<VerifyingKey<Bls12_381>> {
    let expected = FileFormat::ArkVerifyingKey;
    let part = "the verifying key";
    let key = read_file(file, expected, part, PointReader::verifying_key)?;
    check_verifying_key(&key)?;
    Ok(key)
}

/// Reads a proof and checks its points.
///
/// Errors: `Truncated`, `TrailingBytes`, `OtherFormat`; `InvalidPoint`.
pub fn read_proof(file: &[u8]) -> Result<Proof<Bls12_381>> {
    read_file(file, FileFormat::ArkProof, "the proof", |reader| {
        Ok(Proof { a: reader.point("a")?, b: reader.point("b")?, c: reader.point("c")? })
    })
}

/// Reads all of a file. If it has another format, the error says so.
fn read_file<'a, T>(
    file: &'a [u8],
    expected: FileFormat,
    part: &'static str,
    read: impl FnOnce(&mut PointReader<'a>) -> Result<T>,
) -> Result<T> {
    let mut reader = PointReader::new(part, file);
    let read = read(&mut reader).and_then(|value| reader.bytes.finish().map(|()| value));
    read.map_err(|error| error.explained_by_format(file, expected))
}

impl<'a> PointReader<'a> {
    fn new(part: &'static str, file: &'a [u8]) -> Self {
        let bytes = PartReader::new(part, file);
        let is_compressed = bytes.peek().is_some_and(|first| first & COMPRESSED != 0);
        Self { bytes, compress: if is_compressed { Compress::Yes } else { Compress::No } }
    }

    fn verifying_key(&mut self) -> Result<VerifyingKey<Bls12_381>> {
        Ok(VerifyingKey {
            alpha_g1: self.point("alpha_g1")?,
            beta_g2: self.point("beta_g2")?,
            gamma_g2: self.point("gamma_g2")?,
            delta_g2: self.point("delta_g2")?,
            gamma_abc_g1: self.points("gamma_abc_g1", Validate::Yes)?,
        })
    }

    fn point<A: AffineRepr>(&mut self, part: &'static str) -> Result<A> {
        Ok(self.decode(part, 1, Validate::Yes)?[0])
    }

    /// Points after their number.
    fn points<A: AffineRepr>(&mut self, part: &'static str, validate: Validate) -> Result<Vec<A>> {
        let count = self.bytes.u64()?;
        self.decode(part, count, validate)
    }

    fn decode<A: AffineRepr>(
        &mut self,
        part: &'static str,
        count: u64,
        validate: Validate,
    ) -> Result<Vec<A>> {
        let begin = self.bytes.position();
        let compress = self.compress;
        let width = A::zero().serialized_size(compress);
        self.bytes.check_count(count, width)?;
        let encoded = self.bytes.take(count * width as u64)?;
        let decode = |(index, encoded): (usize, &[u8])| {
            let position = begin + index * width;
            A::deserialize_with_mode(encoded, compress, validate)
                .map_err(|_| ProofFileError::InvalidPoint { part, index, position })
        };
        encoded.par_chunks(width).enumerate().map(decode).collect()
    }
}
