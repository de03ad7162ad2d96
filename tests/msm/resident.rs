//! The choice of tables for resident bases.

use capstan::{
    curve::Group,
    device::{ALIGN, DeviceLimits},
    msm::{BaseMemory, Recoding, ResidentPlan, TableStage},
};

const G1: u64 = 96;

fn memory(all: u64) -> BaseMemory {
    BaseMemory { total: all, free: all, table_scratch: 0 }
}

fn resident(n: u32, uses: u64) -> ResidentPlan {
    ResidentPlan { group: Group::G1, n, uses, limits: DeviceLimits::H200 }
}

#[test]
fn bases_get_tables_on_the_second_and_eighth_use() {
    let (ample, n) = (memory(126 << 30), 1 << 20);
    assert_eq!(resident(n, 1).better(None, ample), None);
    let fixed = resident(n, 2).better(None, ample).unwrap();
    assert!(!fixed.is_sliding() && fixed.tables() > 1, "{fixed:?}");
    assert_eq!(resident(n, 7).better(Some(&fixed), ample), None, "no change between");
    let sliding = resident(n, 8).better(Some(&fixed), ample).unwrap();
    assert!(sliding.is_sliding(), "{sliding:?}");
    assert_eq!(resident(n, 9).better(Some(&sliding), ample), None);
}

#[test]
fn tables_fit_the_memory() {
    let n = 1 << 20;
    let table = u64::from(n) * G1;
    // A fifth is for jobs, so a second table does not fit.
    assert_eq!(resident(n, 2).better(None, memory(2 * table)), None);
    for tables in 2..20 {
        let windows = resident(n, 2).better(None, memory((tables * table * 5).div_ceil(4)));
        assert!(windows.is_none_or(|w| u64::from(w.tables()) <= tables), "{tables}: {windows:?}");
    }
    let (fixed, every) = (Recoding::fixed(20, 1, 13), 255 * table + 4 * ALIGN);
    let better = |all, free, scratch| {
        resident(n, 8)
            .better(fixed.as_ref(), BaseMemory { total: all, free, table_scratch: scratch })
            .is_some()
    };
    assert!(better(4 * every, 2 * every, 0));
    assert!(!better(4 * every - 4, 2 * every, 0), "more than a quarter of the device");
    assert!(!better(4 * every, 2 * every - 1, 0), "others would soon be evicted");
    assert!(!better(4 * every, 2 * every, 1), "no scratch to build them in");
}

#[test]
fn warm_bases_get_the_best_tables_within_a_limit() {
    let (ample, n) = (memory(126 << 30), 1 << 20);
    let table = u64::from(n) * G1;
    let best = |bytes_max| resident(n, 0).best_within(ample, bytes_max);
    let tables = |bytes_max| best(bytes_max).map_or(1, |windows| u64::from(windows.tables()));
    assert!(best(u64::MAX).is_some_and(|windows| windows.is_sliding()));
    let sliding = tables(u64::MAX) * table + G1;
    assert!(best(sliding).is_some_and(|windows| windows.is_sliding()));
    assert!(best(sliding - 1).is_some_and(|windows| !windows.is_sliding()));
    for limit in 0..40 {
        assert!(tables(limit * table + G1) <= limit.max(1), "{limit}");
    }
    assert!(tables(3 * table + G1) > 1);
    assert_eq!(best(2 * table + G1 - 1), None);
}

#[test]
fn stages_follow_the_uses_of_bases() {
    let of = |group, lg_n: u32, all| {
        ResidentPlan::stages(group, 1 << lg_n, DeviceLimits::H200, memory(all))
    };
    let texts = |stages: &[TableStage]| -> Vec<_> {
        stages.iter().map(|stage| format!("{}: {}", stage.uses, stage.plan)).collect()
    };
    let stages = of(Group::G1, 20, 126 << 30);
    let begins = ["1: ", "2: 13 windows of 20 bits, ", "8: sliding windows of 20 bits, "];
    let texts = texts(&stages);
    assert!(texts.iter().map(String::as_str).zip(begins).all(|(t, b)| t.starts_with(b)));
    assert!(texts.len() == 3 && texts[0].ends_with("no tables"), "{texts:?}");
    assert_eq!(stages[2].table_bytes, 255 * (G1 << 20));
    // 2^24 bases with 255 tables are 411 GB; 2^26 of G2 are 13 GB, so few tables fit.
    assert_eq!(of(Group::G1, 24, 126 << 30).len(), 2);
    assert_eq!(of(Group::G1, 24, 1 << 30), []);
    for (group, lg_n) in [(Group::G1, 10), (Group::G2, 16), (Group::G2, 24), (Group::G2, 26)] {
        let stages = of(group, lg_n, 126 << 30);
        assert!(stages.iter().all(|stage| stage.table_bytes + stage.plan.bytes() <= 126 << 30));
        assert!(stages.is_sorted_by(|a, b| a.table_bytes < b.table_bytes), "{stages:?}");
    }
}
