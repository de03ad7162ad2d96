//! Transforms over BabyBear in device memory, from natural to bit-reversed order. The first result
//! of every plan is checked at a random point.
//!
//! `lg=12,20` selects sizes. `cuts=20:10.10,8.12` also measures transforms of one size in passes of
//! other radices, given as log2 in the order they run, with small tiles and with large ones, and
//! records nothing of them.

use capstan::{
    curve::NttPlan,
    device::DeviceLease,
    engine::JobControl,
    field::{Element31, Field31, Prime31, VectorElements},
    ntt::table_bytes_max,
    ntt31::{Ntt31Device, Ntt31PassPlan},
    verify,
};

use crate::{
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

const SIZES: [u32; 9] = [12, 16, 17, 18, 20, 22, 24, 26, 27];
const QUICK: [u32; 2] = [5, 11];
/// log2 of a row, and number of rows.
const BATCHES: [(u32, u32); 4] = [(16, 1024), (20, 64), (22, 16), (24, 4)];
const QUICK_BATCHES: [(u32, u32); 1] = [(5, 3)];

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let transforms = Ntt31Device::load(&rig.gpu, table_bytes_max(rig.gpu.arena().bytes()))
        .unwrap_or_else(|reason| panic!("{reason}"));
    let sizes = rig.sizes(&SIZES, &QUICK);
    let batches = rig.size(BATCHES.to_vec(), QUICK_BATCHES.to_vec());
    let batches = batches.into_iter().filter(|(lg_n, _)| sizes.contains(lg_n));
    for (lg_n, rows) in sizes.iter().map(|lg_n| (*lg_n, 1)).chain(batches) {
        let bench = Ntt31Bench::new(rig, &transforms, lg_n, rows);
        let plan = transforms.plan(bench.field, &bench.transform(), rows).expect("a plan");
        record.record_us(bench.field.id().name(), &bench.time(&plan));
        for radices in cuts(rig, lg_n) {
            let plan = |is_wide| {
                transforms.plan_with_radices(bench.field, &bench.transform(), &radices, is_wide)
            };
            let plans = [plan(false), plan(true)];
            assert!(plans.iter().any(Result::is_ok), "no kernels for {radices:?}");
            for plan in plans.iter().flatten() {
                record.print_time_us(&bench.time(plan));
            }
        }
    }
}

/// The radices that the command line gives for a size.
fn cuts(rig: &BenchRig, lg_n: u32) -> Vec<Vec<u32>> {
    let Some(text) = rig.argument("cuts") else { return Vec::new() };
    let (size, cuts) = text.split_once(':').expect("cuts=20:10.10,8.12");
    if size.parse() != Ok(lg_n) {
        return Vec::new();
    }
    let radices = |cut: &str| cut.split('.').map(|lg| lg.parse().expect("a number")).collect();
    cuts.split(',').map(radices).collect()
}

/// Rows of one size on the host, and their memory on the device.
struct Ntt31Bench<'a> {
    rig: &'a BenchRig,
    transforms: &'a Ntt31Device,
    field: Field31,
    lg_n: u32,
    rows: u32,
    given: Vec<Element31>,
    data: DeviceLease,
}

impl<'a> Ntt31Bench<'a> {
    fn new(rig: &'a BenchRig, transforms: &'a Ntt31Device, lg_n: u32, rows: u32) -> Self {
        let (field, count) = (Field31::new(Prime31::BabyBear), (rows as usize) << lg_n);
        let mut random = Random(u64::from(lg_n));
        let given = (0..count).map(|_| field.element(random.next() as u32)).collect();
        let data = rig.lease::<u32>(count);
        Self { rig, transforms, field, lg_n, rows, given, data }
    }

    fn transform(&self) -> NttPlan<Element31> {
        let lg_n = self.lg_n;
        NttPlan { lg_n, inverse: false, coset: None, input_reversed: false, output_reversed: true }
    }

    /// Number of runs of a transform per measurement.
    fn runs_per_measurement(&self) -> u32 {
        self.rig.size(if self.given.len().ilog2() <= 22 { 20 } else { 5 }, 1)
    }

    fn time(&self, plan: &Ntt31PassPlan) -> TimeFigure<'static> {
        let (data, rows) = (self.data.all(), self.rows);
        let run = || self.transforms.run(&self.rig.stream, plan, data, rows, None).map(drop);
        self.rig.put(self.data.all::<Element31>(), &self.given);
        run().expect("a launch");
        self.check(plan);
        let mut times = self.rig.times(|| (0..self.runs_per_measurement()).try_for_each(|_| run()));
        times.iter_mut().for_each(|time| *time /= self.runs_per_measurement());
        let (lg_n, batch, how) = (self.lg_n, rows as usize, plan.to_string());
        TimeFigure { op: "ntt31", mode: "nr", lg_n, batch, times, how }
    }

    /// Checks the first three rows and the last one at a random point.
    fn check(&self, plan: &Ntt31PassPlan) {
        let n = 1 << self.lg_n;
        let rows = self.rows as usize;
        for row in (0..rows).filter(|row| *row < 3 || row + 1 == rows) {
            let found = self.data.all::<Element31>().slice(row * n, n).expect("a row");
            let found = self.rig.get(found);
            let is_canonical = found
                .iter()
                .all(|element| self.field.montgomery_element(bytemuck::cast(*element)).is_some());
            let (given, control) = (&self.given[row * n..][..n], JobControl::default());
            let right = verify::verify_ntt31(self.field, plan.transform(), given, &found, &control);
            assert!(is_canonical && right == Ok(true), "row {row} of 2^{} is wrong", self.lg_n);
        }
    }
}
