//! What the kernels reach on the first CUDA device: field and point arithmetic, checks, uploads,
//! MSMs with their stages, and transforms, on the device and from host to host. Every figure's
//! results are compared with arkworks, on samples, before it is printed.
//!
//! `only=paper` is what load balance and tables are worth, `only=skew` what distributions of
//! scalars cost, `only=payload` MSMs of scalars that come from the host.
//!
//! `cargo bench --features gpu-bench --bench gpu`; it needs no Rust where it runs, see
//! scripts/gpu-bundle. Arguments: `only=` and some of the parts below, `repeats=9`, `record=FILE`
//! to append JSON lines to, `quick` for small sizes (nothing is recorded: such figures mean
//! nothing), `memory=90` for the percentage of the device's memory (profilers want less),
//! `shared_kib=99` to give blocks no more shared memory than that, as a smaller GPU would: modes
//! are then recorded with the suffix `_99k`.

mod accumulate;
mod check;
mod curve;
mod field;
mod host;
mod msm;
mod ntt;
mod paper;
mod payload;
mod points;
mod pointwise;
mod record;
mod reduce;
mod rig;
mod skew;
mod sort;
mod tables;
mod transfer;

use record::Record;
use rig::Rig;

/// A part of the bench and its name.
type Part = (&'static str, fn(&Rig, &mut Record));

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
    ("pointwise", pointwise::measure),
    ("host", host::measure),
    ("transfer", transfer::measure),
];

fn main() {
    let rig = Rig::open();
    let mut record = Record::new(&rig);
    let only = rig.text("only");
    let known = |name: &str| PARTS.iter().any(|(part, _)| *part == name);
    if !only.as_deref().is_none_or(|only| only.split(',').all(known)) {
        let all: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
        eprintln!("only= takes some of {}", all.join(","));
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
