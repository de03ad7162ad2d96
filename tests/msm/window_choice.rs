//! The choice of windows by the cost model.

use capstan::{
    curve::Group,
    device::DeviceLimits,
    msm::{MsmSize, Recoding, SlidingWindows},
};

use crate::digits::radix;

const H200: DeviceLimits = DeviceLimits::H200;

fn job(group: Group, lg_n: u32) -> MsmSize {
    MsmSize { group, n: 1 << lg_n, vectors: 1 }
}

/// `MANY` is what memory usually allows; `ALL` suffices for every kind of windows.
const MANY: u32 = 64;
const ALL: u32 = SlidingWindows::TABLES;

/// Best or within 2 % of the best by measurement, also if scalars arrive in two passes.
#[test]
fn chooses_the_windows_that_measured_fastest() {
    let fixed = |bits, tables| Recoding::fixed(bits, 1, tables);
    let sliding = Recoding::sliding;
    for (group, lg_n, tables, best) in [
        (Group::G1, 10, ALL, sliding(10)),
        (Group::G1, 12, ALL, sliding(13)),
        (Group::G1, 14, ALL, sliding(15)),
        (Group::G1, 16, ALL, fixed(17, MANY)),
        (Group::G1, 18, ALL, sliding(18)),
        (Group::G1, 19, ALL, sliding(19)),
        (Group::G1, 20, ALL, sliding(20)),
        (Group::G1, 16, MANY, fixed(17, MANY)),
        (Group::G1, 18, MANY, fixed(17, MANY)),
        (Group::G1, 20, MANY, fixed(20, MANY)),
        (Group::G1, 21, MANY, fixed(20, MANY)),
        (Group::G1, 22, MANY, radix(12)),
        (Group::G1, 23, MANY, radix(12)),
        (Group::G1, 24, MANY, radix(11)),
        (Group::G1, 26, 13, radix(11)),
        (Group::G2, 10, ALL, sliding(11)),
        (Group::G2, 12, ALL, sliding(13)),
        (Group::G2, 16, ALL, fixed(16, MANY)),
        (Group::G2, 18, ALL, sliding(19)),
        (Group::G2, 20, MANY, fixed(20, MANY)),
        (Group::G2, 22, MANY, radix(12)),
        (Group::G2, 24, MANY, radix(11)),
    ] {
        let found = job(group, lg_n).choose_windows(tables, &H200);
        assert_eq!(Some(found), best, "2^{lg_n}, {tables} tables");
    }
    let batch = MsmSize { vectors: 1000, ..job(Group::G1, 10) };
    assert_eq!(Some(batch.choose_windows(ALL, &H200)), sliding(12));
    for (lg_n, bits) in [(16, 13), (18, 15), (20, 16), (22, 17), (24, 20)] {
        assert_eq!(
            job(Group::G1, lg_n).choose_windows(1, &H200).bits(),
            bits,
            "2^{lg_n}, no tables"
        );
    }
}

#[test]
fn never_chooses_more_tables_than_allowed() {
    for lg_n in 0..=26 {
        for tables in [1, 2, 5, 11, 12, 14, MANY, ALL - 1, ALL] {
            let windows = job(Group::G1, lg_n).choose_windows(tables, &H200);
            assert!(windows.tables() <= tables, "2^{lg_n}: {windows:?}");
        }
    }
}

/// Holds for any number of scalars and tables.
#[test]
fn uses_existing_tables() {
    for (lg_n, tables) in (6..=26).flat_map(|lg_n| [(lg_n, MANY), (lg_n, ALL)]) {
        for group in [Group::G1, Group::G2] {
            let job = job(group, lg_n);
            let windows = job.choose_windows(tables, &H200);
            assert_eq!(job.choose_windows_for_tables(Some(&windows), &H200), windows, "2^{lg_n}");
        }
    }
}

#[test]
fn ranges_of_bases_get_their_own_windows() {
    let over = |lg_n, made: Option<Recoding>| {
        job(Group::G1, lg_n).choose_windows_for_tables(made.as_ref(), &H200)
    };
    assert_eq!(Some(over(10, Recoding::sliding(22))), Recoding::sliding(10));
    assert_eq!(Some(over(18, Recoding::sliding(22))), Recoding::sliding(18));
    assert_eq!(Some(over(20, Recoding::fixed(20, 1, 13))), Recoding::fixed(20, 1, 13));
    let alone = job(Group::G1, 4).choose_windows(1, &H200);
    assert_eq!(over(4, Recoding::fixed(24, 1, 11)), alone);
    assert_eq!(over(4, None), alone);
}
