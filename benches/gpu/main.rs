//! Performance of the kernels on the first CUDA device: field and point arithmetic, checks,
//! uploads, MSMs and their stages, and transforms, on the device and from host to host. Samples of
//! the results are compared with arkworks before a figure is printed.
//!
//! `only=gf2` measures eliminations over GF(2), and checks them on the host, which takes a minute.
//! `only=paper` measures the gain of load balancing and tables, `only=skew` the cost of skewed
//! distributions of scalars, `only=payload` MSMs over scalars from the host.
//!
//! Run it by `cargo bench --features gpu-bench --bench gpu`, or on a host without Rust by
//! scripts/gpu-bundle. Arguments: `only=` and some of the parts below; `repeats=9`; `record=FILE`,
//! to append JSON lines to a file; `quick`, to try the bench at small sizes without recording;
//! `memory=90`, the percentage of the device's memory to use (profilers need less);
//! `shared_kib=99`, to limit the shared memory of a block as on a smaller GPU, which adds the
//! suffix `_99k` to recorded modes.

mod accumulate;
mod check;
mod curve;
#[path = "../../tests/msm/digits.rs"]
mod digits;
mod field;
mod gf2;
mod host;
mod int_mul;
mod msm;
mod ntt;
mod ntt31;
mod ntt31_reductions;
mod paper;
mod payload;
mod points;
mod pointwise;
mod poly_mul;
mod pool;
mod product31;
mod record;
mod reduce;
mod rig;
mod skew;
mod sort;
mod tables;
mod transfer;

use record::Record;
use rig::BenchRig;

/// Name and function of a part of the bench.
type Part = (&'static str, fn(&BenchRig, &mut Record));

const PARTS: &[Part] = &[
    ("field", field::measure),
    ("curve", curve::measure),
    ("check", check::measure),
    ("sort", sort::measure),
    ("accumulate", accumulate::measure),
    ("reduce", reduce::measure),
    ("tables", tables::measure),
    ("msm", msm::measure),
    ("skew", skew::measure),
    ("paper", paper::measure),
    ("payload", payload::measure),
    ("ntt", ntt::measure),
    ("ntt31", ntt31::measure),
    ("ntt31_reductions", ntt31_reductions::measure),
    ("pointwise", pointwise::measure),
    ("poly_mul", poly_mul::measure),
    ("product31", product31::measure),
    ("int_mul", int_mul::measure),
    ("gf2", gf2::measure),
    ("host", host::measure),
    ("transfer", transfer::measure),
];

fn main() {
    let rig = BenchRig::open();
    let mut record = Record::new(&rig);
    let only = rig.argument("only");
    let known = |name: &str| PARTS.iter().any(|(part, _)| *part == name);
    if !only.as_deref().is_none_or(|only| only.split(',').all(known)) {
        let all: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
        eprintln!("only= must list some of {}", all.join(","));
        std::process::exit(64);
    }
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only.split(',').any(|o| o == name));
    for &(name, measure) in PARTS {
        if wanted(name) {
            println!("\n{name}");
            measure(&rig, &mut record);
        }
    }
}
