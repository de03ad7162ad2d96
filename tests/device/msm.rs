//! What the engine with GPUs keeps of an MSM's bases: tables, by use.

use capstan::{
    curve::{G1Affine, scalars::ScalarEncoding},
    engine::Control,
    msm::Cuts,
};

use crate::{
    cases::{Case, engine_that_cuts, take_all_but},
    emulated,
    rig::Rig,
};

#[test]
fn bases_get_more_tables_the_more_they_are_used() {
    let n = if emulated::driver().is_some() { 31 } else { 300 };
    let rig = Rig::new();
    let case = Case::<G1Affine>::new(n, 1, ScalarEncoding::Montgomery);
    let plans = || {
        let (engine, object) = (engine_that_cuts(&rig, Cuts::default()), case.object());
        let plan = |_| case.whole(&engine, &object, &Control::default()).unwrap();
        (1..=9).map(plan).collect::<Vec<_>>()
    };
    let ample = plans();
    assert!(ample[0].ends_with("no tables"), "{ample:?}");
    assert!(ample[1].ends_with("tables") && !ample[6].contains("sliding"), "{ample:?}");
    assert_eq!((&ample[1], &ample[7]), (&ample[6], &ample[8]), "nothing changes between");
    assert!(ample[7].contains("sliding") && ample[7].ends_with("255 tables"), "{ample:?}");
    // 255 tables are more than that.
    let held = take_all_but(&rig, 255 * (n * size_of::<G1Affine>()) as u64);
    let short = plans();
    assert_eq!(short[..7], ample[..7]);
    assert_eq!((&short[7], &short[8]), (&ample[6], &ample[6]));
    drop(held);
}
