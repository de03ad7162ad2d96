//! Conversion from and to messages.

use std::time::Duration;

use ark_ff::PrimeField;
use bytemuck::Zeroable;
use capstan_math::{
    curve::{Fr, scalars::ScalarEncoding},
    field::Prime31,
    program::Verification,
    runner::{self, Execution, Stage, Timing, ValueElements},
    sparse::SparseShape,
};
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::{
    error::{ClientError, Result},
    types::{BasesId, BasesInfo, MatrixId, UploadKey, VectorInfo},
};
use crate::objects::matrix_handle::MatrixInfo;
use crate::wire::v1;

pub(crate) fn scalar_encoding(encoding: ScalarEncoding) -> Result<i32> {
    let wire = v1::ScalarEncoding::try_from(encoding);
    wire.map(i32::from).map_err(|problem| ClientError::input("encoding", problem))
}

pub(crate) fn element_count(field: &'static str, bytes: u64, width: usize) -> Result<u64> {
    let width = width as u64;
    if width == 0 || !bytes.is_multiple_of(width) {
        let whole = bytes.checked_div(width).unwrap_or(0) * width;
        return Err(ClientError::length(field, whole, bytes));
    }
    Ok(bytes / width)
}

/// Zeros for `count` groups of `width` elements that a call receives.
///
/// Errors: `InvalidInput` if there is no memory for them.
pub(crate) fn zeros<T: Zeroable + Zeroize>(
    field: &'static str,
    count: u64,
    width: usize,
) -> Result<Zeroizing<Vec<T>>> {
    let zeros = runner::zeros(count.saturating_mul(width as u64));
    zeros.map_err(|problem| ClientError::input(field, problem))
}

/// Like [`zeros`], for elements of Fr.
pub(crate) fn fr_zeros(field: &'static str, count: u64) -> Result<Zeroizing<Vec<Fr>>> {
    runner::fr_zeros(count).map_err(|problem| ClientError::input(field, problem))
}

/// The server's phases and what the client measured. Without an `upload` time, the upload takes the
/// part of `total` that the server's phases do not explain.
pub(crate) fn timing(
    server: Option<v1::Timing>,
    upload: Option<Duration>,
    download: Duration,
    total: Duration,
) -> Timing {
    let server = server.unwrap_or_default();
    let phases =
        [server.receive_us, server.queue_us, server.compute_us, server.verify_us, server.send_us];
    let phases @ [receive, queue, compute, verify, send] = phases.map(Duration::from_micros);
    let upload = upload.unwrap_or(total.saturating_sub(phases.iter().sum()));
    Timing { receive, queue, compute, verify, send, upload, download, total }
}

/// Checks that all values are below r.
pub(crate) fn check_canonical(values: &mut [Fr]) -> Result<()> {
    check_each(values, |value| value.0 < Fr::MODULUS)
}

/// Checks that all values are below the prime.
pub(crate) fn check_words(words: &mut [u32], field: Prime31) -> Result<()> {
    check_each(words, |word| *word < field.modulus())
}

/// Wipes elements of which any is not canonical: arithmetic on it would be silently wrong.
fn check_each<E: Copy + Default + Send + Sync>(
    elements: &mut [E],
    is_canonical: impl Fn(&E) -> bool + Send + Sync,
) -> Result<()> {
    if elements.par_iter().all(is_canonical) {
        return Ok(());
    }
    elements.fill(E::default());
    Err(ClientError::invalid_response("an element is not canonical"))
}

/// Errors: `InvalidResponse` if an element is not below the modulus.
pub(crate) fn check_elements(elements: &mut ValueElements) -> Result<()> {
    match elements {
        ValueElements::Fr(elements) => check_canonical(elements),
        ValueElements::Words(prime, words) => check_words(words, *prime),
        // Every word is canonical.
        ValueElements::Bits(_) | ValueElements::Limbs(_) => Ok(()),
    }
}

pub(crate) fn verification(claimed: v1::Verify) -> Verification {
    Verification::try_from(claimed).unwrap_or(Verification::None)
}

/// Errors: `InvalidResponse` if the server reports less verification than `requested`.
pub(crate) fn execution(
    execution: Option<v1::Execution>,
    requested: Verification,
) -> Result<Execution> {
    let execution = execution.unwrap_or_default();
    let verified = verification(execution.verified());
    let is_enough = match requested {
        Verification::None => true,
        Verification::Probabilistic => verified != Verification::None,
        Verification::Full => verified == Verification::Full,
    };
    if !is_enough {
        let problem =
            format!("requested {requested:?} verification, but the result claims {verified:?}");
        return Err(ClientError::invalid_response(problem));
    }
    let v1::Execution { engine, device, stages, .. } = execution;
    let stage = |v1::Stage { name, time_us }| {
        let duration = Duration::from_micros(time_us);
        Stage { name, duration }
    };
    Ok(Execution { engine, device, verified, stages: stages.into_iter().map(stage).collect() })
}

/// `unknown_devices` are those of the response.
pub(crate) fn bases(bases: v1::Bases, unknown_devices: &[u32]) -> Result<BasesInfo> {
    Ok(BasesInfo {
        id: BasesId(valid(bases.object_id.as_ref().try_into(), "the id is not 32 bytes long")?),
        group: valid(bases.group().try_into(), "the bases have no group")?,
        count: bases.count,
        bytes: bases.bytes,
        infinities: bases.infinities,
        persisted: bases.persisted,
        label: bases.label,
        created_s: bases.created_s,
        residency: bases.residency,
        unknown_devices: unknown_devices.to_vec(),
    })
}

pub(crate) fn object_bases(
    object: Option<v1::Object>,
    unknown_devices: &[u32],
) -> Result<BasesInfo> {
    match object.and_then(|object| object.kind) {
        Some(v1::object::Kind::Bases(found)) => bases(found, unknown_devices),
        _ => Err(ClientError::invalid_response("the object is not bases")),
    }
}

pub(crate) fn matrix(matrix: v1::Matrix) -> Result<MatrixInfo> {
    let number = |number: u64| valid(u32::try_from(number), "the shape of a matrix is too large");
    let shape = SparseShape {
        rows: number(matrix.rows)?,
        columns: number(matrix.columns)?,
        terms: number(matrix.terms)?,
        coefficients: number(matrix.coefficients)?,
    };
    Ok(MatrixInfo {
        id: MatrixId(valid(matrix.object_id.as_ref().try_into(), "the id is not 32 bytes long")?),
        shape,
        bytes: matrix.bytes,
        persisted: matrix.persisted,
        label: matrix.label,
        created_s: matrix.created_s,
    })
}

pub(crate) fn object_matrix(object: Option<v1::Object>) -> Result<MatrixInfo> {
    match object.and_then(|object| object.kind) {
        Some(v1::object::Kind::Matrix(found)) => matrix(found),
        _ => Err(ClientError::invalid_response("the object is not a matrix")),
    }
}

pub(crate) fn object_vector(object: Option<v1::Object>) -> Result<VectorInfo> {
    let Some(v1::object::Kind::Vector(vector)) = object.and_then(|object| object.kind) else {
        return Err(ClientError::invalid_response("the object is not a vector"));
    };
    Ok(VectorInfo {
        id: UploadKey(valid(vector.upload_id.as_ref().try_into(), "the id is not 16 bytes long")?),
        encoding: valid(vector.encoding().try_into(), "the vector has no encoding")?,
        count: vector.count,
    })
}

/// Errors: `InvalidResponse` if the id that the server answered is not that of the content.
pub(crate) fn require_id(answered: &[u8; 32], expected: &[u8; 32]) -> Result<()> {
    let problem = || ClientError::invalid_response("the server answered with another id");
    (answered == expected).then_some(()).ok_or_else(problem)
}

fn valid<T, E>(converted: Result<T, E>, problem: &str) -> Result<T> {
    converted.map_err(|_| ClientError::invalid_response(problem))
}

#[cfg(test)]
mod tests {
    use ark_ff::Zero;

    use super::*;

    #[test]
    fn refuses_results_that_no_memory_can_hold() {
        assert_eq!(**zeros::<u8>("lg_n", 2, 3).unwrap(), [0; 6]);
        assert_eq!(**fr_zeros("lg_n", 2).unwrap(), [Fr::zero(); 2]);
        let bytes = |count: u64| count.saturating_mul(32);
        for count in [1 << 50, 1 << 62, u64::MAX] {
            let expected =
                format!("lg_n: there is no memory for the result of {} bytes", bytes(count));
            assert_eq!(zeros::<u8>("lg_n", count, 32).unwrap_err().to_string(), expected);
            assert_eq!(fr_zeros("lg_n", count).unwrap_err().to_string(), expected);
        }
    }
}
