//! Comparisons of results with arkworks, which recomputes them.

use ark_bls12_381::Bls12_381;
use ark_ec::{AffineRepr, VariableBaseMSM, pairing::Pairing};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use rayon::prelude::*;

use crate::{
    client::{CurvePoint, Fr, G1Affine, G1Projective, G2Affine, G2Projective},
    curve::reverse_bits,
    exit::{Exit, Result, fail},
    formats::PointSet,
};

/// Inputs and results of all jobs. Rows of scalars are stored one after another.
pub struct DemoResults {
    /// G1 Lagrange points in bit-reversed order.
    pub lagrange: PointSet,
    pub monomial: PointSet,
    /// G2 monomial points, fewer than in G1.
    pub g2: PointSet,
    /// The input: evaluations in bit-reversed order.
    pub blobs: Vec<Fr>,
    /// Inverse NTTs of the blobs, in natural order.
    pub coefficients: Vec<Fr>,
    /// NTTs of the coefficients, in bit-reversed order.
    pub evaluations: Vec<Fr>,
    /// Sums of blobs and Lagrange points.
    pub by_evaluations: Vec<G1Projective>,
    /// Sums of coefficients and monomial points.
    pub by_coefficients: Vec<G1Projective>,
    /// The sum of the first coefficients and G1 monomial points, one per G2 point.
    pub low_degree_in_g1: Vec<G1Projective>,
    /// The sum of the same coefficients and the G2 points.
    pub low_degree_in_g2: Vec<G2Projective>,
}

/// A comparison that found no difference.
#[derive(Debug, PartialEq, Eq)]
pub struct PassedCheck {
    pub results: &'static str,
    pub expected: &'static str,
    pub count: usize,
}

/// Results of one kind, in the order of their inputs.
struct NamedResults<T> {
    name: &'static str,
    values: Vec<T>,
}

fn named<T>(name: &'static str, values: Vec<T>) -> NamedResults<T> {
    NamedResults { name, values }
}

/// Errors: `Exit::Failed` with the index of the first difference.
pub fn all(results: &DemoResults) -> Result<Vec<PassedCheck>> {
    let lagrange = decode::<G1Affine>(&results.lagrange);
    let monomial = decode::<G1Affine>(&results.monomial);
    let g2 = decode::<G2Affine>(&results.g2);
    let n = lagrange.len();
    let low = g2.len();
    let DemoResults { blobs, coefficients, low_degree_in_g1, low_degree_in_g2, .. } = results;
    let by_evaluations = &named("commitments to evaluations", results.by_evaluations.clone());
    let by_coefficients = &named("commitments to coefficients", results.by_coefficients.clone());
    let evaluations = &named("evaluations of coefficients", rows(&results.evaluations, n));
    let blob_coefficients = &named("coefficients of blobs", rows(coefficients, n));
    let in_g1 = &named("commitments in G1", low_degree_in_g1.clone());
    let in_g2 = &named("commitments in G2", low_degree_in_g2.clone());
    let pair_with_g2 = |sum| Bls12_381::pairing(sum, G2Affine::generator());
    let pair_with_g1 = |sum| Bls12_381::pairing(G1Affine::generator(), sum);
    let g1_pairings = low_degree_in_g1.iter().map(pair_with_g2).collect();
    let g2_pairings = low_degree_in_g2.iter().map(pair_with_g1).collect();
    Ok(vec![
        compare(by_evaluations, &arkworks_msms(&lagrange, blobs))?,
        compare(blob_coefficients, &named("arkworks' inverse NTTs", interpolate(blobs, n)))?,
        compare(by_coefficients, &arkworks_msms(&monomial, coefficients))?,
        compare(evaluations, &named("arkworks' NTTs", evaluate(coefficients, n)))?,
        compare(in_g1, &arkworks_msms(&monomial[..low], &coefficients[..low]))?,
        compare(in_g2, &arkworks_msms(&g2, &coefficients[..low]))?,
        // Comparisons of independent results.
        compare(evaluations, &named("the blobs", rows(blobs, n)))?,
        compare(by_evaluations, by_coefficients)?,
        compare(
            &named("pairings of commitments in G1", g1_pairings),
            &named("pairings of commitments in G2", g2_pairings),
        )?,
    ])
}

fn compare<A: PartialEq<B>, B>(
    results: &NamedResults<A>,
    expected: &NamedResults<B>,
) -> Result<PassedCheck> {
    let (count, expected_count) = (results.values.len(), expected.values.len());
    let mut pairs = results.values.iter().zip(&expected.values);
    let different = pairs.position(|(result, expected)| result != expected);
    let missing = (count != expected_count).then_some(count.min(expected_count));
    match different.or(missing) {
        None => Ok(PassedCheck { results: results.name, expected: expected.name, count }),
        Some(index) => {
            let (results, expected) = (results.name, expected.name);
            fail(Exit::Failed, format!("{results} differ from {expected}, first at index {index}"))
        }
    }
}

/// The points of a list. The server has checked them.
fn decode<A: CurvePoint>(points: &PointSet) -> Vec<A> {
    let width = points.encoding.point_bytes(points.group);
    let decode = |point| A::deserialize_compressed_unchecked(point);
    let decoded: Result<_, _> = points.data.par_chunks(width).map(decode).collect();
    decoded.expect("the server accepted the points")
}

fn rows(elements: &[Fr], n: usize) -> Vec<&[Fr]> {
    elements.chunks(n).collect()
}

/// The sum for each row of scalars.
fn arkworks_msms<A: CurvePoint>(bases: &[A], scalars: &[Fr]) -> NamedResults<A::Group> {
    let rows = scalars.chunks(bases.len());
    named("arkworks' MSMs", rows.map(|row| A::Group::msm_unchecked(bases, row)).collect())
}

/// arkworks' coefficients of each row of evaluations in bit-reversed order.
fn interpolate(evaluations: &[Fr], n: usize) -> Vec<Vec<Fr>> {
    let domain = domain(n);
    evaluations.chunks(n).map(|row| domain.ifft(&bit_reverse(row))).collect()
}

/// arkworks' evaluations, in bit-reversed order, of each row of coefficients.
fn evaluate(coefficients: &[Fr], n: usize) -> Vec<Vec<Fr>> {
    let domain = domain(n);
    coefficients.chunks(n).map(|row| bit_reverse(&domain.fft(row))).collect()
}

fn domain(n: usize) -> Radix2EvaluationDomain<Fr> {
    Radix2EvaluationDomain::new(n).expect("n is a power of two")
}

fn bit_reverse(row: &[Fr]) -> Vec<Fr> {
    (0..row.len()).map(|index| row[reverse_bits(index, row.len().ilog2())]).collect()
}

#[cfg(test)]
mod tests {
    use ark_ec::CurveGroup;
    use ark_ff::Field;
    use bytes::Bytes;

    use super::*;
    use crate::{
        client::PointEncoding,
        curve::{Group, points::encode},
        random::random,
    };

    const N: usize = 4;
    const LOW: usize = 2;

    fn list<A: CurvePoint>(group: Group, scalars: &[Fr]) -> PointSet {
        let points: Vec<A> =
            scalars.iter().map(|scalar| (A::generator() * scalar).into_affine()).collect();
        let encoding = PointEncoding::Compressed;
        PointSet { list: None, group, encoding, data: Bytes::from(encode(encoding, &points)) }
    }

    /// A setup of 4 points with a known secret, two blobs, and the correct results.
    fn results() -> DemoResults {
        let tau = random("tau", 1)[0];
        let powers: Vec<_> = (0..N as u64).map(|power| tau.pow([power])).collect();
        let lagrange = bit_reverse(&domain(N).evaluate_all_lagrange_coefficients(tau));
        let blobs = random("blobs", 2 * N);
        let coefficients = interpolate(&blobs, N).concat();
        let at_tau: Vec<Fr> = coefficients
            .chunks(N)
            .map(|row| row.iter().zip(&powers).map(|(a, power)| a * power).sum())
            .collect();
        let commitments: Vec<_> =
            at_tau.iter().map(|value| G1Affine::generator() * value).collect();
        let low: Fr = coefficients[..LOW].iter().zip(&powers).map(|(a, power)| a * power).sum();
        DemoResults {
            lagrange: list::<G1Affine>(Group::G1, &lagrange),
            monomial: list::<G1Affine>(Group::G1, &powers),
            g2: list::<G2Affine>(Group::G2, &powers[..LOW]),
            evaluations: blobs.clone(),
            blobs,
            coefficients,
            by_evaluations: commitments.clone(),
            by_coefficients: commitments,
            low_degree_in_g1: vec![G1Affine::generator() * low],
            low_degree_in_g2: vec![G2Affine::generator() * low],
        }
    }

    #[test]
    fn accepts_correct_results() {
        let passed = all(&results()).unwrap();
        assert_eq!(passed.len(), 9);
        assert_eq!(passed.iter().map(|check| check.count).sum::<usize>(), 15);
    }

    #[test]
    fn reports_the_index_of_each_wrong_result() {
        type Change = fn(&mut DemoResults);
        let changes: [(Change, &str); 7] = [
            (|all| all.by_evaluations[1] += G1Affine::generator(), "to evaluations differ, 1"),
            (|all| all.by_coefficients[0] += G1Affine::generator(), "to coefficients differ, 0"),
            (|all| all.coefficients[N] += Fr::ONE, "coefficients of blobs differ, 1"),
            (|all| all.evaluations[0] += Fr::ONE, "evaluations of coefficients differ, 0"),
            (|all| all.low_degree_in_g1[0] += G1Affine::generator(), "in G1 differ, 0"),
            (|all| all.low_degree_in_g2[0] += G2Affine::generator(), "in G2 differ, 0"),
            (|all| all.by_evaluations.truncate(1), "to evaluations differ, 1"),
        ];
        for (change, expected) in changes {
            let mut results = results();
            change(&mut results);
            let failure = all(&results).unwrap_err();
            assert_eq!(failure.exit, Exit::Failed);
            let (words, index) = expected.split_once(", ").unwrap();
            let message = failure.message;
            assert!(message.contains(words), "{expected}: {message}");
            assert!(message.ends_with(&format!("first at index {index}")), "{expected}: {message}");
        }
    }

    #[test]
    fn refuses_a_setup_with_two_secrets() {
        let mut results = results();
        let other = random("other", LOW);
        results.g2 = list::<G2Affine>(Group::G2, &other);
        let low: Fr = results.coefficients.iter().zip(&other).map(|(a, b)| a * b).sum();
        results.low_degree_in_g2 = vec![G2Affine::generator() * low];
        let message = all(&results).unwrap_err().message;
        assert!(message.starts_with("pairings of commitments in G1 differ"), "{message}");
    }
}
