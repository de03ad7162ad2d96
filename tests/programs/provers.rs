//! Programs of provers, against arkworks.

use ark_bls12_381::Bls12_381;
use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM, pairing::Pairing};
use ark_ff::{FftField, Field};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    curve::{Fr, G1Affine, G1Projective, G2Projective, Group, points::MsmSums},
    ops::{
        DivideByLinearStep, DivideByVanishingStep, EvaluateStep, LinearCombinationStep, MsmStep,
        NttStep, PointwiseOperation, PointwiseStep, SliceStep,
    },
    program::ValueId,
};

use crate::rig::{Call, OutputValue, bases, constants, natural, random, random_rows};

/// Multiples of the generator by powers of `tau`.
fn powers_of_tau(tau: Fr, count: u64) -> Vec<G1Affine> {
    let points = (0..count).map(|exponent| G1Projective::generator() * tau.pow([exponent]));
    G1Projective::normalize_batch(&points.collect::<Vec<_>>())
}

fn msm(input: ValueId) -> MsmStep {
    MsmStep { input, group: Group::G1, object_id: [1; 32], offset: 0 }
}

/// Opens a random combination of polynomials at a point, and verifies the proof by pairings.
#[test]
fn a_kzg_opening_verifies() {
    const N: usize = 64;
    let (tau, point, challenge) = (random(1), random(2), random(3));
    let setup = powers_of_tau(tau, N as u64);
    let mut call = Call { bases: vec![bases(setup.clone()); 2], ..Call::default() };
    let inputs: Vec<_> = (0..3).map(|seed| call.input(&random_rows(1, N, 10 + seed))).collect();
    let factors = (0..3).map(|exponent| challenge.pow([exponent])).collect::<Vec<_>>();
    let combined = call.push(LinearCombinationStep { inputs, factors: constants(&factors) });
    let commitment = call.push(msm(combined));
    let value = call.push(EvaluateStep { input: combined, point: point.into() });
    let quotient = call.push(DivideByLinearStep { input: combined, point });
    let proof = call.push(msm(quotient));
    call.outputs = vec![commitment, value, proof];
    let outputs = call.outputs();
    let [
        OutputValue::Points(MsmSums::G1(commitment)),
        OutputValue::Rows(value),
        OutputValue::Points(MsmSums::G1(proof)),
    ] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    let left = commitment[0] - G1Projective::generator() * value[0][0];
    let right = G2Projective::generator() * (tau - point);
    let generator = G2Projective::generator();
    assert_eq!(Bls12_381::pairing(left, generator), Bls12_381::pairing(proof[0], right));
    let wrong = commitment[0] - G1Projective::generator() * (value[0][0] + Fr::ONE);
    assert_ne!(Bls12_381::pairing(wrong, generator), Bls12_381::pairing(proof[0], right));
}

/// The quotient h of Groth16 from the evaluations of a, b and c, as ark-groth16's
/// `LibsnarkReduction` computes it, and the MSM over it.
#[test]
fn the_quotient_of_groth16_is_that_of_arkworks() {
    const LG_N: u32 = 7;
    const N: usize = 1 << LG_N;
    let (a, b) = (random_rows(1, N, 20), random_rows(1, N, 21));
    let c = vec![a[0].iter().zip(&b[0]).map(|(a, b)| *a * b).collect()];
    let query = powers_of_tau(random(4), N as u64 - 1);
    let (generator, coset) = (Fr::GENERATOR, Some(Fr::GENERATOR));

    let mut call = Call { bases: vec![bases(query.clone())], ..Call::default() };
    let evaluations = [&a, &b, &c].map(|rows| call.input(rows));
    let on_coset = evaluations.map(|input| {
        let input = call.push(NttStep { input, plan: natural(LG_N, true, None) });
        call.push(NttStep { input, plan: natural(LG_N, false, coset) })
    });
    let operation = PointwiseOperation::MultiplySubtract;
    let input = call.push(PointwiseStep { operation, inputs: on_coset.to_vec() });
    let step = DivideByVanishingStep { input, lg_n: LG_N, coset_generator: generator };
    let input = call.push(step);
    let h = call.push(NttStep { input, plan: natural(LG_N, true, coset) });
    let input = call.push(SliceStep { input: h, offset: 0, length: N as u64 - 1 });
    let sum = call.push(msm(input));
    call.outputs = vec![h, sum];

    let domain = Radix2EvaluationDomain::<Fr>::new(N).expect("a domain");
    let coset = domain.get_coset(generator).expect("a coset");
    let [a, b, c] = [&a, &b, &c].map(|rows| coset.fft(&domain.ifft(&rows[0])));
    let divisor = domain.evaluate_vanishing_polynomial(generator);
    let quotient = a.iter().zip(&b).zip(&c).map(|((a, b), c)| (*a * b - c) / divisor);
    let expected = coset.ifft(&quotient.collect::<Vec<_>>());
    assert_eq!(expected[N - 1], Fr::default(), "the degree of h is at most n - 2");
    let sum = G1Projective::msm(&query, &expected[..N - 1]).expect("equal lengths");
    let expected = [OutputValue::Rows(vec![expected]), OutputValue::Points(MsmSums::G1(vec![sum]))];
    assert_eq!(call.outputs(), expected);
}
