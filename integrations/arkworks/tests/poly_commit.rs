//! Unmodified ark-poly-commit with a pinned committer key.

mod common;

use ark_bls12_381::{Bls12_381, Fr, G1Affine};
use ark_crypto_primitives::sponge::{
    CryptographicSponge,
    poseidon::{PoseidonConfig, PoseidonSponge, find_poseidon_ark_and_mds},
};
use ark_poly::{DenseUVPolynomial, univariate::DensePolynomial};
use ark_poly_commit::{LabeledPolynomial, PolynomialCommitment, marlin_pc::MarlinKZG10};
use ark_std::{UniformRand, rand::SeedableRng, rand::rngs::StdRng};
use capstan_arkworks::Counts;
use common::{counted, offload_to, only_local, turn};

type Scheme = MarlinKZG10<Bls12_381, DensePolynomial<Fr>>;
type Commitments = Vec<
    ark_poly_commit::LabeledCommitment<
        <Scheme as PolynomialCommitment<Fr, DensePolynomial<Fr>>>::Commitment,
    >,
>;
type Proof = ark_poly_commit::kzg10::Proof<Bls12_381>;

const DEGREE: usize = 700;
const BOUND: usize = 600;

struct Setting {
    ck: ark_poly_commit::marlin_pc::CommitterKey<Bls12_381>,
    vk: ark_poly_commit::marlin_pc::VerifierKey<Bls12_381>,
    polynomials: Vec<LabeledPolynomial<Fr, DensePolynomial<Fr>>>,
    point: Fr,
}

fn sponge() -> PoseidonSponge<Fr> {
    let (ark, mds) = find_poseidon_ark_and_mds::<Fr>(255, 2, 8, 31, 0);
    PoseidonSponge::new(&PoseidonConfig::new(8, 31, 17, mds, ark, 2, 1))
}

/// A plain polynomial, one that is hidden, and one with a bound on its degree and zeros below.
fn setting() -> Setting {
    let mut rng = StdRng::seed_from_u64(18);
    let params = Scheme::setup(DEGREE, None, &mut rng).unwrap();
    let (ck, vk) = Scheme::trim(&params, DEGREE, 1, Some(&[BOUND])).unwrap();
    let mut shifted = DensePolynomial::rand(BOUND, &mut rng);
    shifted.coeffs[..40].fill(Fr::from(0));
    let polynomials = vec![
        LabeledPolynomial::new("plain".into(), DensePolynomial::rand(DEGREE, &mut rng), None, None),
        LabeledPolynomial::new(
            "hidden".into(),
            DensePolynomial::rand(500, &mut rng),
            None,
            Some(1),
        ),
        LabeledPolynomial::new("bounded".into(), shifted, Some(BOUND), None),
    ];
    Setting { ck, vk, polynomials, point: Fr::rand(&mut rng) }
}

impl Setting {
    /// The same commitments and proof each time.
    fn commit_and_open(&self) -> (Commitments, Proof) {
        let mut rng = StdRng::seed_from_u64(4);
        let (commitments, states) =
            Scheme::commit(&self.ck, &self.polynomials, Some(&mut rng)).unwrap();
        let proof = Scheme::open(
            &self.ck,
            &self.polynomials,
            &commitments,
            &self.point,
            &mut sponge(),
            &states,
            Some(&mut rng),
        )
        .unwrap();
        (commitments, proof)
    }

    fn accepts(&self, commitments: &Commitments, proof: &Proof) -> bool {
        let values = self.polynomials.iter().map(|p| p.evaluate(&self.point));
        let mut rng = StdRng::seed_from_u64(5);
        let (point, sponge) = (&self.point, &mut sponge());
        Scheme::check(&self.vk, commitments, point, values, proof, sponge, Some(&mut rng)).unwrap()
    }
}

fn points_of(commitments: &Commitments) -> Vec<(G1Affine, Option<G1Affine>)> {
    let pair = |c: &_| -> (G1Affine, Option<G1Affine>) {
        let c: &ark_poly_commit::LabeledCommitment<_> = c;
        let c: &ark_poly_commit::marlin_pc::Commitment<Bls12_381> = c.commitment();
        (c.comm.0, c.shifted_comm.as_ref().map(|shifted| shifted.0))
    };
    commitments.iter().map(pair).collect()
}

#[test]
fn commitments_and_openings_over_a_pinned_key_equal_local_ones() {
    let _turn = turn();
    let server = common::server();
    let setting = setting();
    let offload = offload_to(&server, common::all_sizes());

    let ((commitments, proof), counts) = counted(|| setting.commit_and_open());
    // Each commitment and each opening is an MSM over powers and one over powers for hiding. The
    // bounded polynomial has two commitments, and the proof of it another opening.
    assert_eq!(counts, only_local(12));
    assert!(setting.accepts(&commitments, &proof));

    let powers = setting.ck.powers();
    let _powers = offload.pin(&powers.powers_of_g).unwrap();
    let shifted = setting.ck.shifted_powers.as_ref().unwrap();
    let _shifted = offload.pin(shifted).unwrap();
    let ((offloaded, offloaded_proof), counts) = counted(|| setting.commit_and_open());
    assert_eq!(counts, Counts { offloaded: 6, local: 6, failed: 0 });
    assert_eq!(points_of(&offloaded), points_of(&commitments));
    assert_eq!(offloaded_proof, proof);
    assert!(setting.accepts(&offloaded, &offloaded_proof));
}
