//! Transforms over fields of a prime below 2^31 by arkworks, which shares no code with the crate's.

use ark_ff::{Fp64, MontBackend, MontConfig, PrimeField};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{curve::NttPlan, field::Prime31};

macro_rules! configs {
    ($($prime:ident: $modulus:literal, $generator:literal;)+) => {
        $(
            #[derive(MontConfig)]
            #[modulus = $modulus]
            #[generator = $generator]
            pub struct $prime;
        )+

        /// The transform of a row of values, by arkworks with its own root of unity.
        pub fn by_arkworks(prime: Prime31, plan: &NttPlan<u32>, row: &[u32]) -> Vec<u32> {
            match prime {
                $(Prime31::$prime => transform::<Fp64<MontBackend<$prime, 1>>>(plan, row)),+
            }
        }
    };
}

configs! {
    P7340033: "7340033", "3";
    P104857601: "104857601", "3";
    P469762049: "469762049", "3";
    P998244353: "998244353", "3";
    P1811939329: "1811939329", "13";
    BabyBear: "2013265921", "31";
    KoalaBear: "2130706433", "3";
}

fn transform<F: PrimeField>(plan: &NttPlan<u32>, row: &[u32]) -> Vec<u32> {
    let row: Vec<_> = row.iter().map(|value| F::from(*value)).collect();
    let domain = Radix2EvaluationDomain::<F>::new(1 << plan.lg_n).expect("a subgroup");
    let domain = domain.get_coset(F::from(plan.coset.unwrap_or(1))).expect("not zero");
    let input = if plan.input_reversed { reversed(&row) } else { row };
    let output = if plan.inverse { domain.ifft(&input) } else { domain.fft(&input) };
    let output = if plan.output_reversed { reversed(&output) } else { output };
    output.iter().map(|element| element.into_bigint().as_ref()[0] as u32).collect()
}

fn reversed<T: Copy>(row: &[T]) -> Vec<T> {
    let lg_n = row.len().trailing_zeros();
    let at = |i: usize| (0..lg_n).fold(0, |j, bit| j | (i >> bit & 1) << (lg_n - 1 - bit));
    (0..row.len()).map(|i| row[at(i)]).collect()
}
