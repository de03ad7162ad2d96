//! Concurrent jobs of different sizes and cosets on one device, with tables that do not all fit.

use std::thread;

use crate::rig::{each_seed, every_transform};

#[test]
fn concurrent_jobs_are_right() {
    each_seed(700 << 10, |rig, _| {
        thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || {
                    for turn in 0..6 {
                        let lg_n = 3 + (worker * 5 + turn * 3) % 9;
                        let number = (worker as usize * 7 + turn as usize * 5) % 16;
                        let transform = every_transform(lg_n).nth(number).unwrap();
                        let plan = rig.transforms.plan(&transform, 2).unwrap();
                        rig.check(&plan, 2, turn % 2 == 0);
                    }
                });
            }
        });
    });
}
