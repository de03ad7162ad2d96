//! One transform over 31-bit primes with several ways to multiply, side by side: see
//! `benches/experiments/ntt31_reductions.md`. Every result is compared with the served transform's,
//! which is checked at a random point. The kernels are those for many words, also for one row.

mod passes;
mod reduction;

use capstan::{
    field::{Field31, Prime31, VectorElements},
    ntt::table_bytes_max,
    ntt31::Ntt31Device,
};

use crate::{
    ntt31::{Ntt31Bench, Ntt31Rows},
    record::{Record, TimeFigure},
    rig::BenchRig,
};
use passes::{Cut, MeasuredPasses};
use reduction::Reduction;

/// All reductions suit the first prime. Ranges are tightest for the largest one.
const PRIMES: [Prime31; 4] =
    [Prime31::P469762049, Prime31::P1811939329, Prime31::BabyBear, Prime31::KoalaBear];
/// log2 of a row.
const SIZES: [u32; 2] = [20, 24];
const QUICK: [u32; 1] = [20];
/// log2 of the words of a batch.
const LG_BATCH: u32 = 26;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let transforms = Ntt31Device::load(&rig.gpu, table_bytes_max(rig.gpu.arena().bytes()))
        .unwrap_or_else(|reason| panic!("{reason}"));
    for lg_n in rig.sizes(&SIZES, &QUICK) {
        for rows in rig.size(vec![1, 1 << (LG_BATCH - lg_n)], vec![1]) {
            for prime in PRIMES {
                let shape = Ntt31Rows { field: Field31::new(prime), lg_n, rows };
                measure_shape(rig, record, shape, &Ntt31Bench::new(rig, &transforms, shape));
            }
        }
    }
}

fn measure_shape(rig: &BenchRig, record: &mut Record, shape: Ntt31Rows, bench: &Ntt31Bench<'_>) {
    let Ntt31Rows { field, lg_n, rows } = shape;
    let (name, expected) = (field.id().name(), bench.checked_result(&bench.plan()));
    for reduction in Reduction::ALL.into_iter().filter(|r| r.suits(field.modulus())) {
        let passes = MeasuredPasses::new(rig, field, reduction, Cut::of(lg_n));
        let run = || passes.run(rig, bench.words());
        let mode = reduction.name();
        assert!(bench.result_of(run) == expected, "{mode} differs over {name}, 2^{lg_n}");
        let (times, batch) = (bench.times_of(run), rows as usize);
        let how = format!("over {name}");
        record
            .record_us(name, &TimeFigure { op: "ntt31_reduction", mode, lg_n, batch, times, how });
    }
}
