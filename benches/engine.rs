//! The CPU engine against arkworks and blst called directly, all with all cores, on the same
//! numbers. `cargo bench --bench engine`; a filter such as `msm_g1/16` takes one size.

use std::{hint::black_box, sync::Arc, time::Duration};

use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{PrimeField, UniformRand};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use blst::{MultiPoint, blst_fp, blst_p1_affine};
use capstan::{
    curve::{
        Fr, G1Affine, G1Projective,
        points::{CurvePoint, PointSlice},
        scalars::Scalars,
    },
    engine::{Control, Engine, NttPlan, cpu::CpuEngine},
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const LG_N: [u32; 6] = [10, 12, 14, 16, 18, 20];

/// Distinct points with nothing in common but the walk that made them.
fn points(n: usize) -> Vec<G1Affine> {
    let (mut a, mut b) = (G1Projective::generator(), G1Projective::generator());
    let walk: Vec<_> = (0..n)
        .map(|_| {
            a += b;
            b += a;
            a
        })
        .collect();
    G1Projective::normalize_batch(&walk)
}

fn to_blst(point: &G1Affine) -> blst_p1_affine {
    blst_p1_affine { x: blst_fp { l: point.x.0.0 }, y: blst_fp { l: point.y.0.0 } }
}

fn elements(n: usize) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    (0..n).map(|_| Fr::rand(&mut rng)).collect()
}

fn msm(criterion: &mut Criterion) {
    let engine = CpuEngine::new(0).expect("threads");
    let all = points(1 << LG_N[LG_N.len() - 1]);
    for lg_n in LG_N {
        let n = 1 << lg_n;
        let values = elements(n);
        let scalars = Scalars::from_fr(&values);
        let integers: Vec<_> = values.iter().map(|value| value.into_bigint()).collect();
        let for_blst: Vec<_> = all[..n].iter().map(to_blst).collect();
        let bases = G1Affine::bases(PointSlice::new(Arc::new(all[..n].to_vec())));
        let mut group = criterion.benchmark_group(format!("msm_g1/{lg_n}"));
        group.bench_function("capstan", |bencher| {
            bencher.iter(|| {
                let mut run = engine.msm(bases.clone(), 1).expect("a valid job");
                run.absorb(0, 0, &scalars, &Control::default()).expect("nobody cancels");
                run.finish().expect("all is there")
            });
        });
        group.bench_function("blst", |bencher| {
            bencher.iter(|| for_blst.mult(black_box(scalars.magnitudes()), 255));
        });
        group.bench_function("arkworks", |bencher| {
            bencher.iter(|| G1Projective::msm_bigint(&all[..n], black_box(&integers)));
        });
        group.finish();
    }
}

fn ntt(criterion: &mut Criterion) {
    let engine = CpuEngine::new(0).expect("threads");
    for lg_n in LG_N {
        let plan = NttPlan {
            lg_n,
            inverse: false,
            coset: None,
            input_reversed: false,
            output_reversed: false,
        };
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).expect("a size of Fr");
        let row = elements(1 << lg_n);
        let mut group = criterion.benchmark_group(format!("ntt/{lg_n}"));
        group.bench_function("capstan", |bencher| {
            let run = |rows: &mut [Vec<Fr>; 1]| engine.ntt(&plan, rows, &Control::default());
            bencher.iter_batched_ref(|| [row.clone()], run, BatchSize::PerIteration);
        });
        group.bench_function("arkworks", |bencher| {
            let run = |row: &mut Vec<Fr>| domain.fft_in_place(row);
            bencher.iter_batched_ref(|| row.clone(), run, BatchSize::PerIteration);
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    // Short: the largest sizes take seconds a run, and ten samples are the least there can be.
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    targets = msm, ntt
}
criterion_main!(benches);
