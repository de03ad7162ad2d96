//! `capstan::msm::Windows`, every one that can be made.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field};
use capstan::msm::{BITS_MAX, BITS_MIN, Windows};

use crate::scalars::{edges, rng, uniform};

/// All that can be made.
fn all() -> Vec<Windows> {
    let mut found = Vec::new();
    for bits in BITS_MIN..=BITS_MAX {
        for sets in 1..=64 {
            found.extend((1..=64).find_map(|tables| Windows::new(bits, sets, tables)));
        }
    }
    found
}

/// Where digits change: all of a scalar's digits at the greatest value that carries nothing, and at
/// the least that carries.
fn carries(windows: &Windows) -> Vec<Fr> {
    let at = |j| Fr::from(2).pow([u64::from(windows.offset(j))]);
    let half = |j| at(j) * Fr::from(1_u64 << (windows.width(j) - 1));
    let below: Fr = (0..windows.count() - 1).map(half).sum();
    let top = windows.count() - 1;
    let mut all = vec![below, below + Fr::ONE, below - Fr::ONE, below + at(top)];
    all.extend((0..windows.count()).flat_map(|j| [half(j), half(j) + at(j), half(j) - Fr::ONE]));
    all.extend((0..windows.count()).map(at));
    all.extend(all.clone().into_iter().map(|scalar| -scalar));
    all
}

#[test]
fn digits_add_up_to_their_scalar() {
    let mut rng = rng();
    let mut scalars = edges();
    scalars.extend((0..50).map(|_| uniform(&mut rng)));
    for windows in all() {
        let powers: Vec<Fr> = (0..windows.count())
            .map(|j| {
                let (table, set) = (j / windows.sets(), j % windows.sets());
                let doublings = windows.table_offset(table) + windows.shift(set);
                Fr::from(2).pow([u64::from(doublings)])
            })
            .collect();
        for scalar in scalars.iter().copied().chain(carries(&windows)) {
            let mut sum = Fr::ZERO;
            for (j, digit) in windows.digits(scalar) {
                assert!(digit != 0 && digit.unsigned_abs() <= windows.buckets(), "{windows:?}");
                sum += powers[j as usize] * Fr::from(digit);
            }
            assert_eq!(sum, scalar, "{windows:?}");
        }
    }
}

#[test]
fn windows_cover_scalars_evenly() {
    for windows in all() {
        let count = windows.count();
        assert_eq!((windows.offset(0), windows.offset(count)), (0, 255));
        assert_eq!(windows.tables(), count.div_ceil(windows.sets()));
        assert!(count * (windows.bits() - 1) < 255, "{windows:?}: so many need not be so wide");
        for j in 0..count {
            assert_eq!(windows.offset(j + 1), windows.offset(j) + windows.width(j));
            assert!([windows.bits(), windows.bits() - 1].contains(&windows.width(j)));
            let (table, set) = (j / windows.sets(), j % windows.sets());
            assert_eq!(windows.offset(j), windows.table_offset(table) + windows.shift(set));
        }
        let members = (0..windows.sets()).map(|set| windows.in_sets(set, 1)).sum::<u32>();
        assert_eq!((members, windows.in_sets(0, windows.sets())), (count, count));
    }
}

#[test]
fn windows_that_do_not_cover_are_refused() {
    assert_eq!(Windows::new(BITS_MIN - 1, 1, 128), None);
    assert_eq!(Windows::new(BITS_MAX + 1, 1, 64), None);
    assert_eq!(Windows::new(16, 0, 16), None);
    assert_eq!(Windows::new(16, 1, 15), None);
    assert_eq!(Windows::new(16, 17, 1), None);
    let windows = Windows::new(23, 5, 9).unwrap();
    // 12 windows of 22 bits would be 264: nine of them are narrower.
    assert_eq!((windows.bits(), windows.count(), windows.tables()), (22, 12, 3));
}
