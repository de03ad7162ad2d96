//! The example that computes pi, on a daemon with a GPU.

#![allow(dead_code)] // the example's report and its sizes for many digits

#[path = "../../examples/pi/admission.rs"]
mod admission;
#[path = "../../examples/pi/bounds.rs"]
mod bounds;
#[path = "../../examples/pi/chunks.rs"]
mod chunks;
#[path = "../../examples/pi/computation.rs"]
mod computation;
#[path = "../../examples/pi/conversion.rs"]
mod conversion;
#[path = "../../examples/pi/known.rs"]
mod known;
#[path = "../../examples/pi/last_level.rs"]
mod last_level;
#[path = "../../examples/pi/leaves.rs"]
mod leaves;
#[path = "../../examples/pi/newton.rs"]
mod newton;
#[path = "../../examples/pi/quotient.rs"]
mod quotient;
#[path = "../../examples/pi/report.rs"]
mod report;
#[path = "../../examples/pi/series.rs"]
mod series;
#[path = "../../examples/pi/sizes.rs"]
mod sizes;
#[path = "../../examples/pi/terms.rs"]
mod terms;

use std::error::Error;

use capstan::client::{BigUint, Client};
use tokio::runtime::Runtime;

use self::computation::Computation;
use crate::shared;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// More than one chunk of the conversion has, and enough that no phase runs on the CPU.
const DIGITS: u64 = 20_000;

/// The digits after the point, by Machin's formula and divisions by small integers.
fn by_machin(digits: u64) -> String {
    const GUARD_DIGITS: u64 = 10;
    let one = BigUint::from(10_u32).pow((digits + GUARD_DIGITS) as u32);
    // The arctangent of 1 / x.
    let arctangent = |x: u32| {
        let mut power = &one / x;
        let [mut positive, mut negative] = [power.clone(), BigUint::default()];
        for k in 1.. {
            power /= x * x;
            let term = &power / (2 * k + 1_u32);
            if term == BigUint::default() {
                break;
            }
            match k % 2 {
                0 => positive += term,
                _ => negative += term,
            }
        }
        positive - negative
    };
    let pi = arctangent(5) * 16_u32 - arctangent(239) * 4_u32;
    let text = pi.to_string();
    text[1..=digits as usize].to_owned()
}

#[test]
fn digits_of_pi_are_computed_on_the_gpu() {
    let (digits, phases) = Runtime::new().unwrap().block_on(async {
        let client = Client::builder(&shared::daemon().target).connect().await.unwrap();
        let mut computation = Computation::new(client, DIGITS).unwrap();
        let digits = computation.run().await.unwrap();
        (digits, computation.phases)
    });
    let digits = &digits[..DIGITS as usize];
    assert!(digits == by_machin(DIGITS), "wrong digits");
    assert!(known::compare(digits).unwrap().is_equal);
    let engines = phases.iter().filter_map(|phase| phase.on_server.as_ref());
    let engines: Vec<_> = engines.map(|work| work.engine.as_str()).collect();
    assert_eq!(engines, ["cuda"; 3], "series, division and conversion");
}
