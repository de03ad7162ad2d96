//! NTTs over fields of a prime below 2^31 against their definition, and at larger sizes against
//! arkworks.

use capstan::{
    curve::NttPlan,
    engine::{JobControl, MsmNttEngine},
    error::{EngineError, FieldProblem},
    field::{Element31, Field31, Prime31},
};

use crate::arkworks31::by_arkworks;

/// Every direction and order.
fn plans(lg_n: u32, coset: Option<u32>) -> impl Iterator<Item = NttPlan<u32>> {
    (0..8).map(move |bits| NttPlan {
        lg_n,
        inverse: bits & 1 != 0,
        coset,
        input_reversed: bits & 2 != 0,
        output_reversed: bits & 4 != 0,
    })
}

/// Values that begin with the largest ones.
fn row(prime: Prime31, lg_n: u32, seed: u64) -> Vec<u32> {
    let p = prime.modulus();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |i: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if i < 3 { p - 1 - i as u32 } else { (state >> 33) as u32 % p }
    };
    (0..1_usize << lg_n).map(&mut random).collect()
}

fn transform(
    engine: &dyn MsmNttEngine,
    prime: Prime31,
    plan: &NttPlan<u32>,
    rows: &[Vec<u32>],
) -> Result<Vec<Vec<u32>>, EngineError> {
    let field = Field31::new(prime);
    let plan = plan.with_coset(plan.coset.map(|generator| field.element(generator)));
    let elements = |row: &Vec<u32>| row.iter().map(|value| field.element(*value)).collect();
    let mut rows: Vec<Vec<Element31>> = rows.iter().map(elements).collect();
    engine.ntt31(field, &plan, &mut rows, &JobControl::default())?;
    let values = |row: &Vec<Element31>| row.iter().map(|value| field.value(*value)).collect();
    Ok(rows.iter().map(values).collect())
}

fn agrees(engine: &dyn MsmNttEngine, prime: Prime31, plan: &NttPlan<u32>, row: &[u32]) {
    let transformed = transform(engine, prime, plan, &[row.to_vec()]).unwrap();
    assert!(transformed[0] == by_arkworks(prime, plan, row), "{prime} {plan:?}");
}

/// Every size, each with one in `every` orders. All of these occur.
pub fn every_size_order_and_coset(engine: &dyn MsmNttEngine, lg_n_max: u32, every: usize) {
    for (number, prime) in Prime31::ALL.iter().enumerate() {
        let cosets = [None, Some(1), Some(prime.generator()), Some(prime.modulus() - 1)];
        for lg_n in 0..=lg_n_max {
            let input = row(*prime, lg_n, lg_n.into());
            let plans: Vec<_> = plans(lg_n, cosets[lg_n as usize % cosets.len()]).collect();
            let every = every.min(plans.len());
            for plan in plans.iter().skip((number + lg_n as usize) % every).step_by(every) {
                agrees(engine, *prime, plan, &input);
            }
        }
        let zeros = vec![0; 64];
        let largest = vec![prime.modulus() - 1; 64];
        for plan in cosets.into_iter().flat_map(|coset| plans(6, coset)) {
            agrees(engine, *prime, &plan, &zeros);
            agrees(engine, *prime, &plan, &largest);
        }
    }
}

/// Rows whose outer stages all threads share.
pub fn long_rows(engine: &dyn MsmNttEngine, lg_n: u32) {
    for prime in Prime31::ALL {
        let lg_n = lg_n.min(prime.two_adicity());
        let input = row(*prime, lg_n, 7);
        for plan in
            plans(lg_n, Some(prime.generator())).filter(|plan| plan.inverse != plan.input_reversed)
        {
            agrees(engine, *prime, &plan, &input);
        }
    }
}

pub fn matches_the_definition(engine: &dyn MsmNttEngine) {
    for prime in Prime31::ALL {
        let p = u64::from(prime.modulus());
        let power = |base: u64, exponent: u64| (0..exponent).fold(1, |power, _| power * base % p);
        let (lg_n, n, shift) = (5, 32, u64::from(prime.generator()));
        // g^((p-1)/n), by squaring.
        let (mut root, mut square, mut exponent) = (1, shift, (p - 1) >> lg_n);
        while exponent > 0 {
            root = if exponent & 1 == 1 { root * square % p } else { root };
            (square, exponent) = (square * square % p, exponent >> 1);
        }
        let input = row(*prime, lg_n, 3);
        let value = |j: u64| {
            let point = shift * power(root, j) % p;
            let terms =
                input.iter().enumerate().map(|(i, x)| u64::from(*x) * power(point, i as u64) % p);
            (terms.sum::<u64>() % p) as u32
        };
        let plan = plans(lg_n, Some(prime.generator())).next().unwrap();
        let transformed = transform(engine, *prime, &plan, std::slice::from_ref(&input)).unwrap();
        assert_eq!(transformed[0], (0..n).map(value).collect::<Vec<_>>(), "{prime}");
    }
}

pub fn batches_and_round_trips(engine: &dyn MsmNttEngine) {
    for prime in Prime31::ALL {
        let rows: Vec<_> = (0..5).map(|seed| row(*prime, 9, seed)).collect();
        let forward = NttPlan { output_reversed: true, ..plans(9, Some(5)).next().unwrap() };
        let back =
            NttPlan { inverse: true, input_reversed: true, output_reversed: false, ..forward };
        let transformed = transform(engine, *prime, &forward, &rows).unwrap();
        for (row, transformed) in rows.iter().zip(&transformed) {
            assert!(*transformed == by_arkworks(*prime, &forward, row), "{prime}");
        }
        assert_eq!(transform(engine, *prime, &back, &transformed).unwrap(), rows, "{prime}");
    }
}

pub fn refuses_invalid_plans(engine: &dyn MsmNttEngine) {
    for prime in Prime31::ALL {
        let max = prime.two_adicity();
        let plan = plans(max + 1, None).next().unwrap();
        let too_large = EngineError::field("lg_n", FieldProblem::TooLarge { max: max.into() });
        assert_eq!(transform(engine, *prime, &plan, &[]).err(), Some(too_large), "{prime}");
        let plan = plans(3, None).next().unwrap();
        let wrong = transform(engine, *prime, &plan, &[vec![1; 8], vec![1; 4]]);
        assert!(matches!(wrong, Err(EngineError::Internal(_))), "{prime}");
    }
}
