//! `capstan::msm::Recoding`: digits add up to their scalars for all windows that can be made.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field};
use capstan::msm::{BITS_MAX, BITS_MIN, FixedWindows, Recoding, SlidingWindows};

use crate::{
    digits::{SignedDigit, all_radices, bucket, digits},
    scalars::{edges, of_digits, rng, uniform},
};

/// All fixed windows.
fn all() -> Vec<FixedWindows> {
    let mut found = Vec::new();
    for bits in BITS_MIN..=BITS_MAX {
        for sets in 1..=64 {
            found.extend((1..=64).find_map(|tables| FixedWindows::new(bits, sets, tables)));
        }
    }
    found
}

fn width(windows: &FixedWindows, j: u32) -> u32 {
    windows.offset(j + 1) - windows.offset(j)
}

/// Scalars whose digits are at the greatest value without a carry or at the least one with a carry.
fn carries(windows: &FixedWindows) -> Vec<Fr> {
    let at = |j| Fr::from(2).pow([u64::from(windows.offset(j))]);
    let half = |j| at(j) * Fr::from(1_u64 << (width(windows, j) - 1));
    let below: Fr = (0..windows.count - 1).map(half).sum();
    let top = windows.count - 1;
    let mut all = vec![below, below + Fr::ONE, below - Fr::ONE, below + at(top)];
    all.extend((0..windows.count).flat_map(|j| [half(j), half(j) + at(j), half(j) - Fr::ONE]));
    all.extend((0..windows.count).map(at));
    all.extend(all.clone().into_iter().map(|scalar| -scalar));
    all
}

/// Returns the digits, after checking that they add up to the scalar.
fn check(windows: &Recoding, scalar: Fr, powers: &[Fr]) -> Vec<SignedDigit> {
    let digits = digits(windows, scalar);
    let mut sum = Fr::ZERO;
    for &SignedDigit { table, set, value } in &digits {
        assert!(value != 0 && bucket(windows, value) < windows.buckets(), "{windows:?}");
        assert!(table < windows.tables() && set < windows.sets(), "{windows:?}");
        let doublings = windows.table_offset(table) + windows.set_shift(set);
        let times = powers[doublings as usize] * Fr::from(windows.factor()).pow([table.into()]);
        sum += times * Fr::from(value);
    }
    assert_eq!(sum, scalar, "{windows:?}");
    assert!(digits.len() <= windows.digits_max(0, windows.sets()) as usize, "{windows:?}");
    digits
}

fn powers() -> Vec<Fr> {
    (0..255).map(|i| Fr::from(2).pow([i])).collect()
}

#[test]
fn digits_add_up_to_their_scalar() {
    let mut rng = rng();
    let (mut scalars, powers) = (edges(), powers());
    scalars.extend((0..50).map(|_| uniform(&mut rng)));
    for fixed in all() {
        let windows = Recoding::Fixed(fixed);
        for scalar in scalars.iter().copied().chain(carries(&fixed)) {
            for SignedDigit { value, .. } in check(&windows, scalar, &powers) {
                assert!(value.unsigned_abs() <= 1 << (fixed.bits - 1), "{fixed:?}");
            }
        }
    }
}

#[test]
fn digits_of_a_radix_add_up_to_their_scalar() {
    let (mut rng, powers) = (rng(), powers());
    let counts: Vec<u32> = all_radices().map(|radix| radix.count).collect();
    assert_eq!(counts, [26, 12, 11]);
    for radix in all_radices() {
        let windows = Recoding::Radix(radix);
        assert_eq!((windows.tables(), windows.sets()), (radix.count, 1));
        assert_eq!(windows.buckets(), radix.radix() / 2);
        let mut scalars = edges();
        scalars.extend(of_digits(&radix, &mut rng, 2000));
        scalars.extend((0..200).map(|_| uniform(&mut rng)));
        for scalar in scalars {
            check(&windows, scalar, &powers);
        }
        // One digit less would not cover 255 bits.
        let bits = f64::from(radix.radix()).log2() * f64::from(radix.count - 1);
        assert!(bits < 254.8, "{windows:?}");
    }
}

/// Sliding digits are odd, do not overlap, and are as few as a scalar can have.
#[test]
fn sliding_digits_add_up_to_their_scalar() {
    let mut rng = rng();
    let (mut scalars, powers) = (edges(), powers());
    scalars.extend((0..2000).map(|_| uniform(&mut rng)));
    // Runs of ones, which carry to their end, from and to many bits.
    let runs = (0..254).step_by(7).flat_map(|low| (low + 1..254).map(move |end| (low, end)));
    scalars.extend(runs.map(|(low, end)| powers[end] - powers[low]));
    for bits in BITS_MIN..=BITS_MAX {
        let windows = Recoding::sliding(bits).unwrap();
        let mut used = [false; SlidingWindows::TABLES as usize];
        for &scalar in &scalars {
            let digits = check(&windows, scalar, &powers);
            for &SignedDigit { table, value, .. } in &digits {
                assert!(value % 2 != 0 && value.unsigned_abs() < 2 * windows.buckets());
                used[table as usize] = true;
            }
            let apart = digits.windows(2).map(|pair| pair[1].table - pair[0].table);
            let short = apart.clone().rev().skip(1).filter(|&apart| apart < bits).count();
            assert_eq!(short, 0, "{windows:?}: only the last gap may be shorter");
        }
        assert!(used[0] && used[253], "{windows:?}");
    }
    let uniform: Vec<Fr> = (0..2000).map(|_| uniform(&mut rng)).collect();
    for bits in 8..=BITS_MAX {
        let windows = Recoding::sliding(bits).unwrap();
        let all = uniform.iter().map(|scalar| digits(&windows, *scalar));
        let mut filled = vec![0; windows.buckets() as usize];
        all.flatten().for_each(|digit| filled[bucket(&windows, digit.value) as usize] += 1);
        let mean = f64::from(filled.iter().sum::<u32>()) / 2000.0;
        assert!((mean / windows.digits_mean() - 1.0).abs() < 0.02, "{bits}: {mean} digits");
        let fullest = filled.iter().max().unwrap();
        let even = 2000.0 * mean / f64::from(windows.buckets());
        assert!(f64::from(*fullest) < 3.0 * even + 40.0, "{bits}: {fullest}");
    }
}

#[test]
fn windows_cover_scalars_evenly() {
    for windows in all() {
        let count = windows.count;
        assert_eq!((windows.offset(0), windows.offset(count)), (0, 255));
        assert_eq!(windows.tables(), count.div_ceil(windows.sets));
        assert!(count * (windows.bits - 1) < 255, "{windows:?}: windows are wider than needed");
        for j in 0..count {
            assert!([windows.bits, windows.bits - 1].contains(&width(&windows, j)));
            let (table, set) = (j / windows.sets, j % windows.sets);
            assert_eq!(windows.offset(j), windows.table_offset(table) + windows.shift(set));
        }
        let members = (0..windows.sets).map(|set| windows.windows_in_sets(set, 1)).sum::<u32>();
        assert_eq!((members, windows.windows_in_sets(0, windows.sets)), (count, count));
    }
}

#[test]
fn windows_that_do_not_cover_scalars_are_refused() {
    assert_eq!(FixedWindows::new(BITS_MIN - 1, 1, 128), None);
    assert_eq!(FixedWindows::new(BITS_MAX + 1, 1, 64), None);
    assert_eq!(FixedWindows::new(16, 0, 16), None);
    assert_eq!(FixedWindows::new(16, 1, 15), None);
    assert_eq!(FixedWindows::new(16, 17, 1), None);
    assert_eq!(
        (SlidingWindows::new(BITS_MIN - 1), SlidingWindows::new(BITS_MAX + 1)),
        (None, None)
    );
    let windows = FixedWindows::new(23, 5, 9).unwrap();
    // 12 windows of 22 bits would cover 264 bits, so nine of them are narrower.
    assert_eq!((windows.bits, windows.count, windows.tables()), (22, 12, 3));
}
