//! The modelled time of work on the host's threads. `benches/experiments/cpu-engine.md` says on
//! which machine and sizes the costs were measured.

use std::time::Duration;

use super::{msm_plan, ntt, ntt31, pool::msm_piece_len};
use crate::{
    curve::Group,
    engines::{EliminationWork, EngineWork, VectorWork},
    field::FieldId,
};

/// Thread time of a butterfly of a transform.
const BUTTERFLY_NS: f64 = 43.0;
/// Thread time of a butterfly of a transform over a field of a prime below 2^31.
const BUTTERFLY31_NS: f64 = 3.0;
const PRODUCT_NS: f64 = 26.0;
/// Thread time to read or write a byte of a vector. Products and memory accesses overlap.
const BYTE_NS: f64 = 0.1;
/// Thread time of adding a word of a pivot, or of a sum of pivots, to a row over GF(2)
/// (`benches/experiments/gf2.md`).
const BIT_WORD_NS: f64 = 0.25;
/// Time to find which pivots a row needs in one word of columns. One thread does it for all rows.
const BIT_SCAN_NS: f64 = 10.0;

/// `addition_ns` is the thread time of adding a point of the MSM's group to a bucket.
pub(super) fn modelled_time(
    work: &EngineWork,
    threads: usize,
    addition_ns: impl Fn(Group) -> f64,
) -> Duration {
    let whole = threads.max(1) as f64;
    let ns = match *work {
        EngineWork::Msm { n: 0, .. } => 0.0,
        EngineWork::Msm { group, n, vectors } => {
            let pieces = n.div_ceil(msm_piece_len(group) as u64);
            let piece = n.div_ceil(pieces) as usize;
            let additions = msm_plan::modelled_additions(group, piece, threads.max(1));
            f64::from(vectors) * pieces as f64 * additions * addition_ns(group)
        }
        EngineWork::Ntt { field, lg_n, rows } => {
            let butterflies = f64::from(lg_n) / 2.0 * 2f64.powi(lg_n as i32) * f64::from(rows);
            let (butterfly_ns, is_row_per_thread) = match field {
                FieldId::Bls12381Fr => (BUTTERFLY_NS, ntt::is_row_per_thread(lg_n)),
                // There are none over GF(2) and of limbs.
                FieldId::Prime31(_) | FieldId::Gf2 | FieldId::Integers => {
                    (BUTTERFLY31_NS, ntt31::is_row_per_thread(lg_n))
                }
            };
            butterflies * butterfly_ns
                / if is_row_per_thread { whole.min(rows.into()) } else { whole }
        }
        EngineWork::Vectors(VectorWork { products, bytes, .. }) => {
            (products as f64 * PRODUCT_NS).max(bytes as f64 * BYTE_NS) / whole
        }
        EngineWork::Elimination(EliminationWork { rows, pivots, words }) => {
            // Words of columns in which no row leads cost nothing but the search.
            let steps = words.min(rows.saturating_add(pivots)) as f64;
            let rows = rows as f64;
            let words = words as f64;
            // A step adds eight sums of pivots to each row, in half of the words on average.
            let additions = rows * steps * 8.0 * words / 2.0;
            rows * words * BIT_SCAN_NS + additions * BIT_WORD_NS / whole
        }
        // One product converts an element to Montgomery form, or back.
        EngineWork::Transfer { bytes } => (bytes / 32) as f64 * PRODUCT_NS / whole,
    };
    Duration::from_nanos(ns as u64)
}
