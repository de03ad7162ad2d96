//! The CPU engine against arkworks and blst, all with all cores and the same inputs. `cargo bench
//! --bench engine [FILTER]`; the filter `msm_g1/16` selects one size. On a machine that is not
//! idle, use `cargo bench --bench engine -- interleaved [FILTER]`, which prints ratios.

use std::{
    cell::LazyCell,
    env, fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use ark_ec::{CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{PrimeField, UniformRand};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use blst::{MultiPoint, blst_fp, blst_p1_affine};
use capstan::{
    curve::{
        Fr, G1Affine, G1Projective,
        points::{CurvePoint, PointSlice},
        scalars::{ScalarEncoding, encode_fr},
    },
    engine::{EncodedScalars, JobControl, MsmNttEngine, NttPlan, cpu::CpuEngine},
};
use criterion::Criterion;

const LG_N: [u32; 6] = [10, 12, 14, 16, 18, 20];

/// `n` distinct points.
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

/// A name, and a closure that runs the job once.
type Contender = (&'static str, Box<dyn FnMut()>);

/// A job and the implementations that are compared.
struct Comparison {
    name: String,
    contenders: Vec<Contender>,
}

fn msm(engine: &Arc<CpuEngine>, all: &[G1Affine], lg_n: u32) -> Comparison {
    let all: Arc<Vec<_>> = Arc::new(all[..1 << lg_n].to_vec());
    let values = elements(all.len());
    let integers: Vec<_> = values.iter().map(|value| value.into_bigint()).collect();
    let for_blst: Vec<_> = all.iter().map(to_blst).collect();
    let mut scalars = vec![0; 32 * values.len()];
    encode_fr(ScalarEncoding::Canonical, &values, &mut scalars);
    let scalars = Arc::new(scalars);
    let bases = G1Affine::into_bases(PointSlice::new(all.clone()));
    let (engine, same_scalars) = (engine.clone(), scalars.clone());
    let capstan = move || {
        let mut run = engine.msm(bases.clone(), 1).expect("a valid job");
        let given = scalars.as_slice();
        let given = EncodedScalars::new(ScalarEncoding::Canonical, scalars.len() / 32, &given);
        run.absorb(0, 0, &given, &JobControl::default()).expect("not cancelled");
        black_box(run.finish().expect("all scalars are absorbed"));
    };
    let blst = move || {
        black_box(for_blst.mult(&same_scalars, 255));
    };
    let arkworks = move || {
        let _sum = black_box(G1Projective::msm_bigint(&all, &integers));
    };
    Comparison {
        name: format!("msm_g1/{lg_n}"),
        contenders: vec![
            ("capstan", Box::new(capstan)),
            ("blst", Box::new(blst)),
            ("arkworks", Box::new(arkworks)),
        ],
    }
}

fn ntt(engine: &Arc<CpuEngine>, lg_n: u32) -> Comparison {
    let plan = NttPlan {
        lg_n,
        inverse: false,
        coset: None,
        input_reversed: false,
        output_reversed: false,
    };
    let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).expect("a size of Fr");
    let mut row = elements(1 << lg_n);
    let mut rows = [row.clone()];
    let engine = engine.clone();
    let capstan = move || {
        engine.ntt_in_place(&plan, &mut rows, &JobControl::default()).expect("a valid job");
    };
    let arkworks = move || domain.fft_in_place(&mut row);
    Comparison {
        name: format!("ntt/{lg_n}"),
        contenders: vec![("capstan", Box::new(capstan)), ("arkworks", Box::new(arkworks))],
    }
}

/// The jobs whose names contain `filter`, made lazily.
fn contests(filter: &str) -> impl Iterator<Item = Comparison> {
    let engine = Arc::new(CpuEngine::new(0).expect("threads"));
    let all = LazyCell::new(|| points(1 << LG_N[LG_N.len() - 1]));
    let jobs = ["msm_g1", "ntt"].into_iter().flat_map(|job| LG_N.map(|lg_n| (job, lg_n)));
    let jobs = jobs.filter(move |(job, lg_n)| format!("{job}/{lg_n}").contains(filter));
    jobs.map(move |(job, lg_n)| match job {
        "ntt" => ntt(&engine, lg_n),
        _ => msm(&engine, &all, lg_n),
    })
}

/// CPU time of all threads of this process so far, in milliseconds with a resolution of 10.
fn thread_ms() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    // User and system time are fields 14 and 15. The name, field 2, ends with the last parenthesis.
    let fields = stat.rsplit(')').next().expect("a name").split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    ticks as f64 * 10.0
}

/// Measures on a shared machine: the contenders take turns, so that load of other programs affects
/// all of them. Prints wall time and CPU time of each.
fn interleaved(filter: &str) {
    println!("| job | contender | median ms | min ms | thread ms | capstan / it: median, thread |");
    println!("|---|---|---|---|---|---|");
    for Comparison { name, mut contenders } in contests(filter) {
        let mut wall = vec![Vec::new(); contenders.len()];
        let mut threads = vec![0.0; contenders.len()];
        let start = Instant::now();
        while wall[0].len() < 5 || start.elapsed() < Duration::from_secs(3) {
            for (i, (_, run)) in contenders.iter_mut().enumerate() {
                // Repeat jobs that are shorter than the resolution of CPU time.
                let (start, start_threads) = (Instant::now(), thread_ms());
                let mut last = start;
                while start.elapsed() < Duration::from_millis(100) {
                    run();
                    wall[i].push(last.elapsed().as_secs_f64() * 1e3);
                    last = Instant::now();
                }
                threads[i] += thread_ms() - start_threads;
            }
        }
        let (mut medians, mut costs) = (Vec::new(), Vec::new());
        for (i, (contender, _)) in contenders.iter().enumerate() {
            wall[i].sort_by(f64::total_cmp);
            medians.push(wall[i][wall[i].len() / 2]);
            costs.push(threads[i] / wall[i].len() as f64);
            let ratios = [medians[0] / medians[i], costs[0] / costs[i]];
            println!(
                "| {name} | {contender} | {:.3} | {:.3} | {:.3} | {:.2}, {:.2} |",
                medians[i], wall[i][0], costs[i], ratios[0], ratios[1],
            );
        }
    }
}

fn main() {
    let mut arguments = env::args().skip_while(|argument| argument != "interleaved").skip(1);
    if env::args().any(|argument| argument == "interleaved") {
        let filter = arguments.find(|argument| !argument.starts_with('-'));
        return interleaved(&filter.unwrap_or_default());
    }
    // The largest sizes take seconds per run, and ten samples are criterion's minimum.
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    for contest in contests("") {
        let mut group = criterion.benchmark_group(contest.name);
        for (contender, mut run) in contest.contenders {
            group.bench_function(contender, |bencher| bencher.iter(&mut run));
        }
        group.finish();
    }
    criterion.final_summary();
}
