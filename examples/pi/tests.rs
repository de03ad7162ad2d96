use capstan::client::BigUint;

use super::{
    bounds::{A_FIRST, A_STEP, Q_FACTOR, TermLimbs},
    chunks,
    conversion::ConversionProgram,
    known,
    quotient::{Divisor, QuotientProgram},
    report::Report,
    series::SeriesProgram,
    sizes::{DIGITS_MAX, Sizes},
    terms::TermSums,
};

#[test]
fn programs_of_all_sizes_are_valid() {
    let sizes = [1, 1025, 4097, 100_000, 45_000_000, 100_000_000, 300_000_000, DIGITS_MAX];
    for digits in sizes {
        let sizes = Sizes::new(digits);
        assert!(sizes.chunks() * sizes.chunk_digits >= digits);
        let series = SeriesProgram::new(&sizes).unwrap();
        for top_limbs in [u128::MAX, 1 << 96, u128::MAX >> 32, 1 << 64] {
            let divisor = Divisor::new(top_limbs).unwrap();
            QuotientProgram::new(&sizes, &series, &divisor).unwrap();
        }
        ConversionProgram::new(&sizes).unwrap();
    }
}

#[test]
fn two_zero_limbs_above_the_denominator_are_refused() {
    assert!(Divisor::new(u128::MAX >> 64).is_err());
}

#[test]
fn sums_of_terms_equal_their_definition_and_fit_their_bounds() {
    let mut sums = TermSums::default();
    for terms in [0_u64..1, 0..7, 1..2, 40..81, 27_000_000..27_000_031] {
        let (mut p, mut q) = (BigUint::from(1_u32), BigUint::from(1_u32));
        let [mut positive, mut negative] = [BigUint::default(), BigUint::default()];
        for k in terms.clone() {
            let one = u64::from(k == 0);
            p *= (6 * k).saturating_sub(5) * (2 * k).saturating_sub(1) + one;
            p *= (6 * k).saturating_sub(1) + one;
            let factor = BigUint::from(k).pow(3) * Q_FACTOR + one;
            q *= &factor;
            positive *= &factor;
            negative *= &factor;
            let term = &p * (A_FIRST + A_STEP * k);
            match (k - terms.start) % 2 {
                0 => positive += term,
                _ => negative += term,
            }
        }
        let limbs = TermLimbs::of(terms.clone());
        let mut row = vec![0; 4 * (limbs.p + limbs.q + limbs.t) as usize];
        sums.compute(terms.clone());
        sums.write(limbs, &mut row);
        let (of_p, rest) = row.split_at(4 * limbs.p as usize);
        let (of_q, of_t) = rest.split_at(4 * limbs.q as usize);
        for (bytes, expected) in [(of_p, p), (of_q, q), (of_t, positive - negative)] {
            assert_eq!(BigUint::from_bytes_le(bytes), expected, "terms {terms:?}");
        }
    }
}

#[test]
fn fractions_become_digits() {
    // 1/7 and 6/7, rounded down, of 160 bits each.
    let seventh = (BigUint::from(1_u32) << 160_u32) / 7_u32;
    let mut limbs = seventh.to_bytes_le();
    limbs.extend((seventh * 6_u32).to_bytes_le());
    let digits = chunks::digits(&limbs, 2, 24).unwrap();
    assert_eq!(digits, [b"142857".repeat(4), b"857142".repeat(4)].concat());
}

#[test]
fn fractions_close_to_a_carry_are_refused() {
    for limb in [0, u8::MAX] {
        assert!(chunks::digits(&[limb; 20], 1, 24).is_err());
    }
}

#[test]
fn powers_of_five_are_exact() {
    for exponent in [32, 4608] {
        let expected = BigUint::from(5_u32).pow(exponent);
        let bytes = chunks::power_of_five(exponent.into());
        assert_eq!(BigUint::from_bytes_le(&bytes), expected);
        assert!(bytes.len() as u64 * 8 < expected.bits() + 32);
    }
}

/// The first 1000 digits after the point.
const DIGITS: &str = "\
    14159265358979323846264338327950288419716939937510582097494459230781640628620899\
    86280348253421170679821480865132823066470938446095505822317253594081284811174502\
    84102701938521105559644622948954930381964428810975665933446128475648233786783165\
    27120190914564856692346034861045432664821339360726024914127372458700660631558817\
    48815209209628292540917153643678925903600113305305488204665213841469519415116094\
    33057270365759591953092186117381932611793105118548074462379962749567351885752724\
    89122793818301194912983367336244065664308602139494639522473719070217986094370277\
    05392171762931767523846748184676694051320005681271452635608277857713427577896091\
    73637178721468440901224953430146549585371050792279689258923542019956112129021960\
    86403441815981362977477130996051870721134999999837297804995105973173281609631859\
    50244594553469083026425223082533446850352619311881710100031378387528865875332083\
    81420617177669147303598253490428755468731159562863882353787593751957781857780532\
    1712268066130019278766111959092164201989";

#[test]
fn a_changed_digit_is_found() {
    let report = |digits: &str| Report { digits, phases: &[] }.print(true, &mut Vec::new());
    assert!(known::compare(DIGITS).is_some_and(|known| known.is_equal && known.places == 1000));
    report(DIGITS).unwrap();
    // The 50 digits before a known place are compared.
    for index in [950, 975, 999] {
        let mut changed = DIGITS.as_bytes().to_vec();
        changed[index] = if changed[index] == b'7' { b'8' } else { b'7' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(known::compare(&changed).is_some_and(|known| !known.is_equal), "digit {index}");
        assert!(report(&changed).is_err(), "digit {index}");
        assert!(known::compare(&changed[..999]).is_none());
    }
    let moved = format!("3{}", &DIGITS[..999]);
    assert!(known::compare(&moved).is_some_and(|known| !known.is_equal));
}
