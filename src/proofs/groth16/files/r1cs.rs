//! `.r1cs`: a constraint system.

use std::array;

use ark_ff::Zero;
use ark_relations::utils::matrix::Matrix;

use super::{
    error::ProofFileError,
    field::{self, ELEMENT_BYTES, PRIME_BYTES},
    reader::PartReader,
    sections::{ContainerFormat, FileSections, SectionKind, begin_file, begin_section},
};
use crate::{
    curve::Fr,
    formats::FileFormat,
    groth16::{ConstraintMatrices, Groth16Error},
};

const HEADER: SectionKind = SectionKind { number: 1, name: "header" };
const CONSTRAINTS: SectionKind = SectionKind { number: 2, name: "section of constraints" };
const LABELS: SectionKind = SectionKind { number: 3, name: "map from wires to labels" };
const GATES: SectionKind = SectionKind { number: 4, name: "list of custom gates" };
const GATE_USES: SectionKind = SectionKind { number: 5, name: "section of custom gates" };

const FORMAT: ContainerFormat = ContainerFormat {
    format: FileFormat::R1cs,
    magic: "r1cs",
    version: 1,
    // The map from wires to labels, which may be missing, is skipped.
    sections: &[HEADER, CONSTRAINTS, GATES, GATE_USES],
    may_lack: 1,
};

const MATRICES: [&str; 3] = ["a", "b", "c"];
/// The wire's index, and its coefficient.
const TERM_BYTES: usize = 4 + ELEMENT_BYTES;
/// The number of terms.
const ROW_BYTES: usize = 4;
const LABEL_BYTES: usize = 8;
/// The prime, five numbers of four bytes, and one of eight.
const HEADER_BYTES: usize = PRIME_BYTES + 5 * 4 + 8;

/// Wires that a file may have in addition to one for each of its bytes. A wire takes 36 bytes in
/// each constraint that names it. Without a limit, a short file makes a key of gigabytes.
const UNUSED_WIRES_MAX: usize = 1 << 12;

struct R1csHeader {
    wires: u32,
    /// One, the public outputs, and the public inputs.
    public: usize,
    constraints: u32,
}

/// Reads an `.r1cs` file. The public variables are one, the public outputs, and the public inputs,
/// in this order. Terms with the coefficient 0 are dropped, as arkworks does. The map from wires to
/// labels, which serves debuggers, is skipped and may be missing.
///
/// Errors: [`ProofFileError`] as `File`; `PublicVariables` if there are more public variables than
/// wires.
pub fn read_r1cs(file: &[u8]) -> Result<ConstraintMatrices, Groth16Error> {
    let sections = FileSections::read(file, &FORMAT)?;
    let header = R1csHeader::read(sections.get(&HEADER)?)?;
    for gates in [GATES, GATE_USES] {
        check_no_gates(sections.find(&gates))?;
    }
    let max = file.len().saturating_add(UNUSED_WIRES_MAX);
    if header.wires as usize > max {
        return Err(ProofFileError::TooManyWires { wires: header.wires, max }.into());
    }
    let matrices = read_constraints(sections.get(&CONSTRAINTS)?, &header)?;
    ConstraintMatrices::new(matrices, header.public, header.wires as usize)
}

impl R1csHeader {
    fn read(mut header: PartReader<'_>) -> Result<Self, ProofFileError> {
        field::check_prime(&mut header)?;
        let wires = header.u32()?;
        let (outputs, inputs) = (header.u32()?, header.u32()?);
        let _private_inputs = header.u32()?;
        let _labels = header.u64()?;
        let constraints = header.u32()?;
        header.finish()?;
        Ok(Self { wires, public: 1 + outputs as usize + inputs as usize, constraints })
    }
}

/// Both sections begin with the number of gates.
fn check_no_gates(section: Option<PartReader<'_>>) -> Result<(), ProofFileError> {
    let Some(mut section) = section.filter(|section| !section.is_empty()) else { return Ok(()) };
    match section.u32()? {
        0 => Ok(()),
        _ => Err(ProofFileError::CustomGates),
    }
}

fn read_constraints(
    mut section: PartReader<'_>,
    header: &R1csHeader,
) -> Result<[Matrix<Fr>; 3], ProofFileError> {
    section.check_count(header.constraints.into(), 3 * ROW_BYTES)?;
    let constraints = header.constraints as usize;
    let mut matrices: [Matrix<Fr>; 3] = array::from_fn(|_| Vec::with_capacity(constraints));
    for constraint in 0..constraints {
        for (matrix, rows) in MATRICES.into_iter().zip(&mut matrices) {
            let row = read_row(&mut section, header.wires);
            rows.push(row.map_err(|problem| {
                let problem = Box::new(problem);
                ProofFileError::Constraint { constraint, matrix, problem }
            })?);
        }
    }
    section.finish()?;
    Ok(matrices)
}

fn read_row(section: &mut PartReader<'_>, wires: u32) -> Result<Vec<(Fr, usize)>, ProofFileError> {
    let terms = section.u32()?;
    section.check_count(terms.into(), TERM_BYTES)?;
    let mut row = Vec::with_capacity(terms as usize);
    for _ in 0..terms {
        let wire = section.u32()?;
        if wire >= wires {
            return Err(ProofFileError::NoSuchWire { wire, wires });
        }
        let position = section.position();
        let wire = wire as usize;
        let coefficient = field::element(&section.array()?)
            .ok_or(ProofFileError::NotCanonical { wire, position })?;
        if !coefficient.is_zero() {
            row.push((coefficient, wire));
        }
    }
    Ok(row)
}

/// Writes an `.r1cs` file, in which all public variables are public inputs. The labels of wires are
/// their indices.
///
/// Errors: `TooLarge` of [`ProofFileError`] as `File`.
pub fn write_r1cs(matrices: &ConstraintMatrices) -> Result<Vec<u8>, Groth16Error> {
    let wires = count_of("wires", matrices.variables())?;
    let constraints = count_of("constraints", matrices.constraints())?;
    let public_inputs = count_of("wires", matrices.public_variables() - 1)?;
    let constraint_bytes = 3 * ROW_BYTES * matrices.constraints() + TERM_BYTES * matrices.terms();
    let label_bytes = LABEL_BYTES * matrices.variables();
    let mut file = Vec::with_capacity(48 + HEADER_BYTES + constraint_bytes + label_bytes);
    begin_file(&mut file, &FORMAT, 3);
    begin_section(&mut file, &HEADER, HEADER_BYTES);
    field::write_prime(&mut file);
    let (public_outputs, private_inputs) = (0_u32, 0_u32);
    for number in [wires, public_outputs, public_inputs, private_inputs] {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&u64::from(wires).to_le_bytes());
    file.extend_from_slice(&constraints.to_le_bytes());
    begin_section(&mut file, &CONSTRAINTS, constraint_bytes);
    for constraint in 0..matrices.constraints() {
        for row in matrices.constraint(constraint) {
            write_row(&mut file, &row)?;
        }
    }
    begin_section(&mut file, &LABELS, label_bytes);
    (0..u64::from(wires)).for_each(|label| file.extend_from_slice(&label.to_le_bytes()));
    Ok(file)
}

fn write_row(file: &mut Vec<u8>, row: &[(Fr, usize)]) -> Result<(), ProofFileError> {
    file.extend_from_slice(&count_of("terms", row.len())?.to_le_bytes());
    for (coefficient, wire) in row {
        file.extend_from_slice(&count_of("wires", *wire)?.to_le_bytes());
        field::write_element(file, *coefficient);
    }
    Ok(())
}

fn count_of(what: &'static str, count: usize) -> Result<u32, ProofFileError> {
    u32::try_from(count).map_err(|_| ProofFileError::TooLarge { what })
}
