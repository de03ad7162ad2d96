//! Every engine against the definition, on inputs that have been bugs in some library. A new engine
//! gets the whole suite by one line at the end of this file; a new case is a function here or a row
//! of a table in `msm.rs` or `ntt.rs`.
#![cfg(feature = "server")]

#[path = "../common/arkworks31.rs"]
mod arkworks31;
mod cancellation;
mod cancelled_jobs;
mod cuda;
#[path = "../common/emulated.rs"]
mod emulated;
mod in_process;
mod msm;
mod ntt;
mod ntt31;
#[path = "../common/repeat.rs"]
mod repeat;
#[path = "../common/sweep.rs"]
mod sweep;
mod sweeps;
#[path = "../common/vec_sink.rs"]
mod vec_sink;

/// Sizes that the suite covers.
#[derive(Clone)]
struct SuiteSizes {
    /// Sizes of MSMs in G1 and G2, around powers of two.
    g1: Vec<usize>,
    g2: Vec<usize>,
    /// One in this many sizes of small MSMs runs.
    small_step: usize,
    /// log2 of the largest NTT.
    lg_ntt: u32,
    /// One in this many pairs of size and distribution runs, and of size and order for NTTs.
    sampling: usize,
}

fn all_sizes() -> SuiteSizes {
    SuiteSizes {
        g1: msm::around_powers(7..=12),
        g2: msm::around_powers(7..=10),
        small_step: 1,
        lg_ntt: 14,
        sampling: 1,
    }
}

/// Whether tests run all sizes: they do in sweeps and on a GPU.
use repeat::has_all_cases;

/// Sizes for the engines on the CPU: at least one for each method of computation.
fn cpu_sizes() -> SuiteSizes {
    if has_all_cases() {
        return all_sizes();
    }
    let mut g1 = msm::around_powers(7..=8);
    g1.push(1 << 12);
    SuiteSizes { g1, g2: vec![127, 128, 129, 513], small_step: 1, lg_ntt: 14, sampling: 3 }
}

macro_rules! test_engine {
    ($name:ident, $engine:expr) => {
        test_engine!($name, $engine, crate::cpu_sizes());
    };
    ($name:ident, $engine:expr, $reach:expr) => {
        mod $name {
            use capstan::curve::{G1Affine, G2Affine};
            #[allow(unused_imports)] // the engine with GPUs uses none of it
            use capstan::engine::cpu::*;

            use crate::{msm, ntt, ntt31};

            #[test]
            fn g1_msms_of_every_small_size_match_arkworks() {
                let reach = $reach;
                msm::small_sizes::<G1Affine>(&$engine, reach.small_step, reach.sampling);
            }

            #[test]
            fn g2_msms_of_every_small_size_match_arkworks() {
                let reach = $reach;
                msm::small_sizes::<G2Affine>(&$engine, reach.small_step, reach.sampling);
            }

            #[test]
            fn g1_msms_around_powers_of_two_match_arkworks() {
                msm::around_powers_of_two::<G1Affine>(&$engine, &$reach.g1);
            }

            #[test]
            fn g2_msms_around_powers_of_two_match_arkworks() {
                msm::around_powers_of_two::<G2Affine>(&$engine, &$reach.g2);
            }

            #[test]
            fn g1_msms_of_every_distribution_match_arkworks() {
                let sizes = [1, 2, 3, 7, 31, 32, 33, 100, 600];
                msm::every_distribution::<G1Affine>(&$engine, &sizes, $reach.sampling);
            }

            #[test]
            fn g2_msms_of_every_distribution_match_arkworks() {
                let sizes = [1, 2, 33, 70];
                msm::every_distribution::<G2Affine>(&$engine, &sizes, $reach.sampling);
            }

            #[test]
            fn msms_in_pieces_and_batches_match_arkworks() {
                msm::pieces_and_batches::<G1Affine>(&$engine);
                msm::pieces_and_batches::<G2Affine>(&$engine);
            }

            #[test]
            fn msm_decodes_and_checks_scalars() {
                msm::encodings_are_checked(&$engine);
            }

            #[test]
            fn ntt_decodes_and_checks_elements() {
                ntt::encodings_are_checked(&$engine);
            }

            #[test]
            fn msm_stops_on_cancellation_and_deadline() {
                msm::stops_on_cancellation_and_deadline(&$engine);
            }

            #[test]
            fn ntt_of_every_size_order_and_coset() {
                ntt::every_size_order_and_coset(&$engine, $reach.lg_ntt, $reach.sampling);
            }

            #[test]
            fn ntt_matches_the_definition() {
                ntt::matches_the_definition(&$engine);
            }

            #[test]
            fn ntts_of_batches_match_arkworks() {
                ntt::batches(&$engine, $reach.sampling);
            }

            #[test]
            fn ntt31_of_every_size_order_and_coset() {
                let reach = $reach;
                let lg_n_max = reach.lg_ntt.min(12);
                ntt31::every_size_order_and_coset(&$engine, lg_n_max, reach.sampling);
            }

            #[test]
            fn ntt31_of_long_rows() {
                ntt31::long_rows(&$engine, $reach.lg_ntt.max(17));
            }

            #[test]
            fn ntt31_matches_the_definition() {
                ntt31::matches_the_definition(&$engine);
            }

            #[test]
            fn ntt31_of_batches_and_back() {
                ntt31::batches_and_round_trips(&$engine);
            }

            #[test]
            fn ntt31_refuses_invalid_plans() {
                ntt31::refuses_invalid_plans(&$engine);
            }

            #[test]
            fn ntt_refuses_invalid_plans() {
                ntt::refuses_invalid_plans(&$engine);
            }
        }
    };
}

test_engine!(cpu, CpuEngine::new(2).unwrap());
test_engine!(cpu_three_threads, CpuEngine::new(3).unwrap());
test_engine!(arkworks, ArkworksEngine::new(2).unwrap());
test_engine!(gpu, *crate::cuda::engine(), crate::cuda::suite_sizes());
