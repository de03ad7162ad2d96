//! Products of two polynomials in one call, over Fr and BabyBear, in memory that is shared with the
//! daemon, and over BabyBear in the client's memory, too.

use std::time::Instant;

use ark_ff::UniformRand;
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};
use capstan::client::{
    Client, Fr, PolyMulOptions, PolyReduction, Prime31, ProgramBuilder, ProgramRun, SharedVector,
};

use crate::{
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

/// The least number of calls before those that count: during the first ones, the client opens the
/// shared memory through which its payloads travel.
const WARM_UP_MIN: usize = 100;

/// Times calls one right after the other, since processors and the GPU take longer after a pause,
/// and checks the products of the first one and of another one after the last.
async fn time<P>(
    runs: ProofRuns,
    mut product: P,
    call: impl AsyncFn(P) -> P,
    clear: impl Fn(&mut P),
    check: impl Fn(&P),
) -> Samples {
    let (warm_up, mut times) = (runs.warm_up.max(WARM_UP_MIN), Samples::default());
    for run in 0..warm_up + runs.counted {
        let begun = Instant::now();
        product = call(product).await;
        if run >= warm_up {
            times.0.push(begun.elapsed());
        }
        if run == 0 {
            check(&product);
            clear(&mut product);
        }
    }
    clear(&mut product);
    product = call(product).await;
    check(&product);
    times
}

/// Measures products of polynomials of 2^`lg_n` coefficients each.
pub async fn measure(client: &Client, lg_n: u32, runs: ProofRuns, record: &ProofRecord) {
    let (mut random, n) = (StdRng::seed_from_u64(5), 1 << lg_n);
    let mut program = ProgramBuilder::new();
    let [a, b] = [(); 2].map(|()| program.input(n as u64).expect("an input"));
    let product = program.poly_mul(a, b, PolyReduction::None).expect("a step");
    let program = program.build().expect("a program");
    let alloc = async |length| client.alloc_vector(length).await.expect("memory");
    let [mut left, mut right] = [alloc(n).await, alloc(n).await];
    let mut fill = |vector: &mut SharedVector| {
        let coefficients: Vec<_> = (0..n).map(|_| Fr::rand(&mut random)).collect();
        vector.copy_from_slice(&coefficients);
        coefficients
    };
    let [f, g] = [fill(&mut left), fill(&mut right)];
    let point = Fr::rand(&mut random);
    let expected = value(&f, point) * value(&g, point);
    println!("2^{lg_n} coefficients: product of two polynomials");
    let call = async |out| {
        let given = ProgramRun::new(&program).input(a, &left).input(b, &right);
        let done = client.run(given.write_to(product, out)).await;
        done.expect("a product").take_vector(product).expect("the product")
    };
    let clear = |out: &mut SharedVector| out.copy_from_slice(&vec![Fr::from(0); out.len()]);
    let check = |out: &SharedVector| {
        assert!(value(&out.to_vec(), point) == expected, "a wrong product");
    };
    let times = time(runs, alloc(2 * n - 1).await, call, clear, check).await;
    let mode = record.on_devices("call_region".to_owned());
    record.add_us("poly_mul", &mode, lg_n, 1, &times);
}

/// Number of points at which a product over BabyBear is compared: a wrong one passes with
/// probability below 2^-100.
const POINTS31: usize = 8;

/// Measures products of polynomials over BabyBear of 2^`lg_n` coefficients each: in the client's
/// memory, and in memory that is shared with the daemon.
pub async fn measure31(client: &Client, lg_n: u32, runs: ProofRuns, record: &ProofRecord) {
    let (mut random, field) = (StdRng::seed_from_u64(4), Prime31::BabyBear);
    let n = 1_usize << lg_n;
    let mut draw = |count: usize| -> Vec<u32> {
        (0..count).map(|_| random.gen_range(0..field.modulus())).collect()
    };
    let [a, b] = [(); 2].map(|()| draw(n));
    let points = draw(POINTS31);
    let expected = points.iter().map(|point| {
        value31(&a, *point, field) * value31(&b, *point, field) % u64::from(field.modulus())
    });
    let expected: Vec<_> = expected.collect();
    let check = |product: &[u32]| {
        let values = points.iter().map(|point| value31(product, *point, field));
        assert!(values.eq(expected.iter().copied()), "a wrong product");
    };
    println!("2^{lg_n} coefficients: product of two polynomials over BabyBear");
    let call = async |_| {
        let done = client.poly_mul31(field, &a, &b, PolyMulOptions::default()).await;
        done.expect("a product").coefficients
    };
    let times = time(runs, Vec::new(), call, Vec::clear, |product| check(product)).await;
    let mode = record.on_devices("call_unix_babybear".to_owned());
    record.add_us("poly_mul", &mode, lg_n, 1, &times);

    let mut program = ProgramBuilder::new();
    let [left, right] = [(); 2].map(|()| program.input_over(field, 1, n as u64).expect("an input"));
    let product = program.poly_mul(left, right, PolyReduction::None).expect("a step");
    let program = program.build().expect("a program");
    let alloc = async |length| client.alloc_vector31(length).await.expect("memory");
    let [mut shared_a, mut shared_b] = [alloc(n).await, alloc(n).await];
    shared_a.copy_from_slice(&a);
    shared_b.copy_from_slice(&b);
    let call = async |out| {
        let given = ProgramRun::new(&program).input(left, &shared_a).input(right, &shared_b);
        let done = client.run(given.write_to(product, out)).await;
        done.expect("a product").take_vector31(product).expect("the product")
    };
    let out = alloc(2 * n - 1).await;
    let clear = |out: &mut SharedVector<u32>| out.copy_from_slice(&vec![0; out.len()]);
    let times = time(runs, out, call, clear, |product| check(&product.to_vec())).await;
    let mode = record.on_devices("call_region_babybear".to_owned());
    record.add_us("poly_mul", &mode, lg_n, 1, &times);
}

fn value31(coefficients: &[u32], x: u32, field: Prime31) -> u64 {
    let [x, modulus] = [x, field.modulus()].map(u64::from);
    coefficients.iter().rev().fold(0, |sum, next| (sum * x + u64::from(*next)) % modulus)
}

fn value(coefficients: &[Fr], x: Fr) -> Fr {
    coefficients.iter().rev().fold(Fr::from(0_u64), |sum, coefficient| sum * x + coefficient)
}
