//! Bucket accumulation on a device with many multiprocessors: more shares than three rounds of
//! warps merge.

use std::process::Command;

use ark_std::test_rng;
use capstan::{curve::G1Affine, msm::accumulate::Accumulator};

use crate::{
    accumulate::{BALANCES, buckets, check, random_table, reference},
    emulated,
    gpu::each_seed,
    limits::PRESETS,
};

const DEVICE: &str = "rtx5090";
const DONE: &str = "shares of 170 multiprocessors";

/// Runs in its own process, in which the driver has that device.
#[test]
fn shares_of_many_multiprocessors_are_merged() {
    if emulated::driver().is_none() {
        return println!("skipped: the device is emulated");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "waves::merges_the_shares_of_an_rtx5090", "--nocapture"]);
    command.env("EMU_DEVICE", DEVICE).env_remove("EMU_MULTIPROCESSORS");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(DONE), "{output:?}");
}

/// Does nothing except in the process of the test above. Every share ends and begins in one bucket,
/// and small buckets are around it.
#[test]
fn merges_the_shares_of_an_rtx5090() {
    if std::env::var("EMU_DEVICE").as_deref() != Ok(DEVICE) {
        return;
    }
    each_seed(|rig| {
        let (_, limits) = PRESETS.into_iter().find(|(name, _)| *name == DEVICE).unwrap();
        assert_eq!(rig.limits(), limits);
        let accumulator = Accumulator::load(rig.context()).unwrap();
        let mut rng = test_rng();
        let table = random_table::<G1Affine>(&mut rng);
        let mut pick = || reference(&mut rng, table.len());
        let large = buckets(&[3, 44_000, 0, 40], &mut pick);
        let none = buckets(&[0; 4], &mut pick);
        // In shares of at least one element.
        check((rig, &accumulator), BALANCES[1], &table, [&large, &none], 0);
        println!("{DONE}");
    });
}
