//! `.wtns`: the value of each wire.

use ark_ff::Zero;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    error::ProofFileError,
    field::{self, ELEMENT_BYTES, PRIME_BYTES},
    sections::{ContainerFormat, FileSections, SectionKind, begin_file, begin_section},
};
use crate::{curve::Fr, formats::FileFormat};

const HEADER: SectionKind = SectionKind { number: 1, name: "header" };
const VALUES: SectionKind = SectionKind { number: 2, name: "section of values" };

const FORMAT: ContainerFormat = ContainerFormat {
    format: FileFormat::Wtns,
    magic: "wtns",
    version: 2,
    sections: &[HEADER, VALUES],
    may_lack: 0,
};

/// The prime, and the number of values.
const HEADER_BYTES: usize = PRIME_BYTES + 4;

/// Reads a `.wtns` file: one, the public outputs and inputs, and the other wires. The file's bytes
/// are as secret as the values: the caller wipes them. `tests/data/wtns_verdicts.json` has example
/// files, each with the verdict that every reader must give.
///
/// Errors: [`ProofFileError`].
pub fn read_wtns(file: &[u8]) -> Result<Zeroizing<Vec<Fr>>, ProofFileError> {
    let sections = FileSections::read(file, &FORMAT)?;
    let mut header = sections.get(&HEADER)?;
    field::check_prime(&mut header)?;
    let count = header.u32()?;
    header.finish()?;
    let mut section = sections.get(&VALUES)?;
    let begin = section.position();
    let bytes = section.take(u64::from(count) * ELEMENT_BYTES as u64)?;
    section.finish()?;
    let (encoded, _) = bytes.as_chunks::<ELEMENT_BYTES>();
    // Decoded in place: a vector that grows would leave copies of secrets behind.
    let mut values = Zeroizing::new(vec![Fr::zero(); encoded.len()]);
    let pairs = values.par_iter_mut().zip(encoded).enumerate();
    let invalid = pairs.find_map_first(|(wire, (value, bytes))| match field::element(bytes) {
        Some(element) => {
            *value = element;
            None
        }
        None => Some(wire),
    });
    match invalid {
        None => Ok(values),
        Some(wire) => {
            let position = begin + wire * ELEMENT_BYTES;
            Err(ProofFileError::NotCanonical { wire, position })
        }
    }
}

/// Writes a `.wtns` file.
///
/// Errors: `TooLarge`.
pub fn write_wtns(values: &[Fr]) -> Result<Zeroizing<Vec<u8>>, ProofFileError> {
    let too_large = |_| ProofFileError::TooLarge { what: "wires" };
    let count = u32::try_from(values.len()).map_err(too_large)?;
    let bytes = ELEMENT_BYTES * values.len();
    let headers = 12 + 12 + HEADER_BYTES + 12;
    let mut file = Zeroizing::new(Vec::with_capacity(headers + bytes));
    begin_file(&mut file, &FORMAT, 2);
    begin_section(&mut file, &HEADER, HEADER_BYTES);
    field::write_prime(&mut file);
    file.extend_from_slice(&count.to_le_bytes());
    begin_section(&mut file, &VALUES, bytes);
    values.iter().for_each(|value| field::write_element(&mut file, *value));
    Ok(file)
}
