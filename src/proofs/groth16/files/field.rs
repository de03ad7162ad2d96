//! The prime and the elements of iden3's formats: little-endian, canonical.

use ark_ff::{BigInt, BigInteger, PrimeField};

use super::{error::ProofFileError, reader::PartReader};
use crate::curve::Fr;

/// Bytes of an element.
pub const ELEMENT_BYTES: usize = 32;
/// Bytes of the prime after its length.
pub const PRIME_BYTES: usize = 4 + ELEMENT_BYTES;

/// The order of BN254, circom's default.
const BN254: &str = "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";
/// Longer primes are not printed.
const PRINTED_MAX: usize = 64;

/// Reads the length of a prime, and the prime.
///
/// Errors: `Prime` if it is not the modulus of the scalar field.
pub fn check_prime(header: &mut PartReader<'_>) -> Result<(), ProofFileError> {
    let length = header.u32()?;
    let prime = header.take(length.into())?;
    let expected = Fr::MODULUS.to_bytes_le();
    if prime == expected {
        return Ok(());
    }
    let hex = big_endian_hex(prime);
    let got = match prime.len() {
        PRINTED_MAX.. => format!("a number of {length} bytes"),
        _ if hex == BN254 => "that of BN254's scalar field, circom's default".to_owned(),
        _ => format!("0x{hex}"),
    };
    Err(ProofFileError::Prime { got, expected: big_endian_hex(&expected) })
}

fn big_endian_hex(little_endian: &[u8]) -> String {
    hex::encode(little_endian.iter().rev().copied().collect::<Vec<_>>())
}

/// Appends the length of the prime, and the prime.
pub fn write_prime(file: &mut Vec<u8>) {
    file.extend_from_slice(&(ELEMENT_BYTES as u32).to_le_bytes());
    file.extend_from_slice(&Fr::MODULUS.to_bytes_le());
}

/// The element, or `None` if the number is not below the prime.
pub fn element(bytes: &[u8; ELEMENT_BYTES]) -> Option<Fr> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut limbs = [0; 4];
    for (limb, word) in limbs.iter_mut().zip(words) {
        *limb = u64::from_le_bytes(*word);
    }
    Fr::from_bigint(BigInt::new(limbs))
}

pub fn write_element(file: &mut Vec<u8>, element: Fr) {
    for limb in element.into_bigint().0 {
        file.extend_from_slice(&limb.to_le_bytes());
    }
}
