//! Which MSMs are sent, and what happens if a call fails.

mod common;

use std::time::Duration;

use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Affine, G2Projective};
use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{BigInt, PrimeField};
use capstan_arkworks::{Counts, OffloadOptions, client::Verification};
use common::{counted, offload_to, only_local, only_offloaded, points, scalars, turn};

const N: usize = 300;

fn bigints(n: usize) -> Vec<BigInt<4>> {
    scalars(n).into_iter().map(PrimeField::into_bigint).collect()
}

/// The sum without `VariableBaseMSM`, which the hook is in.
fn naive_sum<G: CurveGroup<ScalarField = Fr>>(bases: &[G::Affine], scalars: &[Fr]) -> G {
    bases.iter().zip(scalars).map(|(base, scalar)| *base * *scalar).sum()
}

#[test]
fn sums_over_parts_of_pinned_slices_are_computed_on_the_server() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, common::all_sizes());
    let (g1, g2) = (points::<G1Affine>(N), points::<G2Affine>(40));
    let scalars = scalars(N);
    let bigints = bigints(N);
    let _g1 = offload.pin(&g1).unwrap();
    let _g2 = offload.pin(&g2[..]).unwrap();
    for part in [0..N, 1..N, 17..40, N - 1..N] {
        let bases = &g1[part];
        let n = bases.len();
        let (sum, counts) = counted(|| G1Projective::msm_bigint(bases, &bigints[..n]));
        assert_eq!((sum, counts), (naive_sum(bases, &scalars[..n]), only_offloaded(1)));
    }
    // The longer of the two slices is cut.
    let (sum, counts) = counted(|| G1Projective::msm_bigint(&g1, &bigints[..7]));
    assert_eq!((sum, counts), (naive_sum(&g1[..7], &scalars[..7]), only_offloaded(1)));
    let (sum, counts) = counted(|| G2Projective::msm_bigint(&g2[3..], &bigints));
    assert_eq!((sum, counts), (naive_sum(&g2[3..], &scalars), only_offloaded(1)));
    let (sum, counts) = counted(|| G2Projective::msm_unchecked(&g2, &scalars));
    assert_eq!((sum, counts), (naive_sum(&g2, &scalars), only_offloaded(1)));
}

#[test]
fn narrow_scalars_are_sent() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, common::all_sizes());
    let bases = points::<G1Affine>(N);
    let _pinned = offload.pin(&bases).unwrap();
    let values: Vec<u64> = bigints(N - 3).iter().map(|limbs| limbs.0[0]).collect();
    // The type of the scalars, and the mask that fits them into it.
    macro_rules! check {
        ($($msm:ident, $mask:expr, $narrow:expr;)+) => { $(
            let narrow: Vec<_> = values.iter().map(|value| $narrow(value & $mask)).collect();
            let wide: Vec<_> = values.iter().map(|value| Fr::from(value & $mask)).collect();
            let (sum, counts) = counted(|| G1Projective::$msm(&bases, &narrow));
            assert_eq!((sum, counts), (naive_sum(&bases, &wide), only_offloaded(1)));
        )+ };
    }
    check! {
        msm_u1, 1, |value| value == 1;
        msm_u8, 0xff, |value| value as u8;
        msm_u16, 0xffff, |value| value as u16;
        msm_u32, 0xffff_ffff, |value| value as u32;
        msm_u64, u64::MAX, |value| value;
    }
}

#[test]
fn unknown_slices_small_ones_and_other_curves_run_locally() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, OffloadOptions { msm_min: 100, ..common::all_sizes() });
    let (bases, scalars, bigints) = (points::<G1Affine>(N), scalars(N), bigints(N));
    let pinned = offload.pin(&bases[50..250]).unwrap();
    let small = offload.pin(&bases[..99]).unwrap();
    let copied = bases[50..250].to_vec();
    let inside = &bases[60..160];
    let runs_locally: [&[G1Affine]; 5] =
        [&bases[49..249], &bases[51..251], &bases[50..149], &bases[..99], &copied];
    for bases in runs_locally {
        let (sum, counts) = counted(|| G1Projective::msm_bigint(bases, &bigints));
        assert_eq!((sum, counts), (naive_sum(bases, &scalars), only_local(1)));
    }
    let send = || counted(|| G1Projective::msm_bigint(inside, &bigints));
    assert_eq!(send(), (naive_sum(inside, &scalars), only_offloaded(1)));
    drop(small);
    assert_eq!(send(), (naive_sum(inside, &scalars), only_offloaded(1)));
    drop(pinned);
    assert_eq!(send(), (naive_sum(inside, &scalars), only_local(1)));

    let generator = ark_bn254::G1Projective::generator();
    let others = vec![generator.into_affine(); N];
    let (sum, counts) = counted(|| ark_bn254::G1Projective::msm_u8(&others, &[2; N]));
    assert_eq!((sum, counts), (generator * ark_bn254::Fr::from(2 * N as u64), only_local(1)));
    let (sum, counts) = counted(|| G1Projective::msm_bigint(&bases, &[]));
    assert_eq!((sum, counts), (G1Projective::default(), only_local(1)));
}

#[test]
fn the_guard_that_lives_longest_keeps_a_slice_pinned() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, common::all_sizes());
    let (bases, bigints) = (points::<G1Affine>(N), bigints(N));
    let first = offload.pin(&bases).unwrap();
    let second = offload.pin(&bases).unwrap();
    drop(first);
    assert_eq!(counted(|| G1Projective::msm_bigint(&bases, &bigints)).1, only_offloaded(1));
    drop(second);
    assert_eq!(counted(|| G1Projective::msm_bigint(&bases, &bigints)).1, only_local(1));
}

#[test]
fn threads_offload_at_the_same_time() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, common::all_sizes());
    let (bases, scalars, bigints) = (points::<G1Affine>(N), scalars(N), bigints(N));
    let _pinned = offload.pin(&bases).unwrap();
    let (sums, counts) = counted(|| {
        std::thread::scope(|scope| {
            let part = |n| (&bases[n..], &bigints[n..]);
            let sum = |n| scope.spawn(move || G1Projective::msm_bigint(part(n).0, part(n).1));
            let threads: Vec<_> = (0..16).map(sum).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(counts, only_offloaded(16));
    for (n, sum) in sums.into_iter().enumerate() {
        assert_eq!(sum, naive_sum::<G1Projective>(&bases[n..], &scalars[n..]));
    }
}

#[test]
fn sums_run_locally_if_the_server_is_late_or_refuses_the_scalars() {
    let _turn = turn();
    let server = common::server();
    let (bases, scalars, bigints) = (points::<G1Affine>(N), scalars(N), bigints(N));
    let failed = Counts { failed: 1, ..only_local(0) };
    let late =
        offload_to(&server, OffloadOptions { deadline: Duration::ZERO, ..common::all_sizes() });
    let pinned = late.pin(&bases).unwrap();
    let (sum, counts) = counted(|| G1Projective::msm_bigint(&bases, &bigints));
    assert_eq!((sum, counts), (naive_sum(&bases, &scalars), failed));
    drop(pinned);

    let offload = offload_to(&server, common::all_sizes());
    let _pinned = offload.pin(&bases).unwrap();
    let (_, counts) = counted(|| G1Projective::msm_bigint(&bases, &vec![Fr::MODULUS; N]));
    assert_eq!(counts, failed);
}

#[test]
fn sums_are_verified_on_request() {
    let _turn = turn();
    let server = common::server();
    let options = OffloadOptions { verify: Verification::Full, ..common::all_sizes() };
    let offload = offload_to(&server, options);
    let (bases, scalars, bigints) = (points::<G1Affine>(N), scalars(N), bigints(N));
    let _pinned = offload.pin(&bases).unwrap();
    let (sum, counts) = counted(|| G1Projective::msm_bigint(&bases, &bigints));
    // The server in this process verifies by arkworks, whose MSM asks the hook, too.
    let verified = Counts { local: 1, ..only_offloaded(1) };
    assert_eq!((sum, counts), (naive_sum(&bases, &scalars), verified));
}

#[test]
fn points_that_the_server_refuses_are_not_pinned() {
    let _turn = turn();
    let server = common::server();
    let offload = offload_to(&server, common::all_sizes());
    let mut bases = points::<G1Affine>(N);
    bases[9].x = bases[8].x;
    let error = offload.pin(&bases).unwrap_err();
    assert!(error.to_string().contains('9'), "{error}");
    let (_, counts) = counted(|| G1Projective::msm_u1(&bases[..9], &[true; 9]));
    assert_eq!(counts, only_local(1));
}
