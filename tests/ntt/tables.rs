//! Twiddle tables: in two levels if memory is short, bounded, and shared.

use ark_bls12_381::Fr;
use ark_ff::Field;
use capstan::{curve::NttPlan, ntt::NttPass};

use crate::rig::{each_seed, every_transform};

/// Tables of inner twiddles take 0.4 MB per direction, those between passes of 2^12 0.25 MB.
const TIGHT_TABLE_BYTES: u64 = 900 << 10;

fn on_coset(lg_n: u32, number: u64) -> NttPlan {
    let coset = Some(Fr::from(5_u64).pow([number + 1]));
    NttPlan { lg_n, inverse: false, coset, input_reversed: false, output_reversed: true }
}

#[test]
fn two_level_tables_match_arkworks() {
    // One table's share of this is too small for any whole table of inter-pass twiddles.
    each_seed(64 << 10, |rig, seed| {
        for (i, transform) in every_transform(11).enumerate() {
            for rows in [1, 1 << 12] {
                let plan = rig.transforms.plan(&transform, rows).unwrap();
                rig.check(&plan, 1 + (i + seed) % 2, false);
            }
        }
        for (i, transform) in every_transform(13).enumerate() {
            if (i + seed) % 4 == 0 {
                let plan = rig.transforms.plan(&transform, 1 << 12).unwrap();
                rig.check(&plan, 1, false);
            }
        }
    });
}

#[test]
fn fused_passes_need_a_whole_table() {
    each_seed(64 << 10, |rig, _| {
        let fused = NttPass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 1, fused: true };
        let rows = NttPass { lg_r: 6, lg_c: 2, lg_e: 2, multiples: 0, fused: false };
        assert!(rig.transforms.plan_with_passes(&on_coset(12, 0), vec![fused, rows]).is_err());
    });
}

#[test]
fn tables_stay_within_their_limit() {
    each_seed(TIGHT_TABLE_BYTES, |rig, _| {
        rig.transforms.evict_tables();
        let unused = rig.gpu.arena().free_bytes();
        let first = on_coset(12, 0);
        let plan = rig.transforms.plan(&first, 1).unwrap();
        rig.check(&plan, 1, false);
        let free = rig.gpu.arena().free_bytes();
        // The same plan again makes no new tables.
        let again = rig.transforms.plan(&first, 1).unwrap();
        assert_eq!(rig.gpu.arena().free_bytes(), free);
        rig.check(&again, 1, false);
        drop(again);
        for number in 1..12 {
            drop(rig.transforms.plan(&on_coset(12, number), 1).unwrap());
        }
        // A plan keeps its tables alive after their eviction from the cache.
        rig.check(&plan, 1, false);
        let free = rig.gpu.arena().free_bytes();
        drop(plan);
        assert!(rig.gpu.arena().free_bytes() > free);
        for number in 12..24 {
            drop(rig.transforms.plan(&on_coset(12, number), 1).unwrap());
            let cached = unused - rig.gpu.arena().free_bytes();
            assert!(0 < cached && cached <= TIGHT_TABLE_BYTES, "{cached}");
        }
    });
}

#[test]
fn dif_and_dit_share_tables() {
    each_seed(64 << 20, |rig, _| {
        let dif = NttPlan { coset: None, ..on_coset(12, 0) };
        let dit = NttPlan { input_reversed: true, output_reversed: false, ..dif };
        drop(rig.transforms.plan(&dif, 1).unwrap());
        let free = rig.gpu.arena().free_bytes();
        drop(rig.transforms.plan(&dit, 1).unwrap());
        assert_eq!(rig.gpu.arena().free_bytes(), free);
    });
}
