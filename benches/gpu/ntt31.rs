//! Transforms over BabyBear in device memory, from natural to bit-reversed order, replayed as
//! graphs. The first result of every plan is checked at a random point.
//!
//! `lg=12,20` selects sizes. `cuts=20:10.10,8.12` also measures transforms of one size in passes of
//! other radices, given as log2 in the order they run, with small tiles and with large ones, and
//! records nothing of them.

use std::time::Duration;

use capstan::{
    curve::NttPlan,
    device::{DeviceFault, DeviceLease, DeviceSlice},
    engine::JobControl,
    field::{Element31, Field31, Prime31, VectorElements},
    ntt::table_bytes_max,
    ntt31::{Cut31, Ntt31Device, Ntt31PassPlan},
    verify,
};

use rayon::prelude::*;

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
        let field = Field31::new(Prime31::BabyBear);
        let bench = Ntt31Bench::new(rig, &transforms, Ntt31Rows { field, lg_n, rows });
        let plan = bench.plan();
        record.record_us(field.id().name(), &bench.time(&plan));
        for radices in cuts(rig, lg_n) {
            let plan = |is_wide| {
                let cut = Cut31 { lg_radices: &radices, is_wide };
                transforms.plan_cut(field, &bench.transform(), cut)
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

/// Transforms of one size.
#[derive(Clone, Copy)]
pub struct Ntt31Rows {
    pub field: Field31,
    pub lg_n: u32,
    pub rows: u32,
}

/// Random rows on the host, and their memory on the device.
pub struct Ntt31Bench<'a> {
    rig: &'a BenchRig,
    transforms: &'a Ntt31Device,
    shape: Ntt31Rows,
    given: Vec<Element31>,
    data: DeviceLease,
}

impl<'a> Ntt31Bench<'a> {
    pub fn new(rig: &'a BenchRig, transforms: &'a Ntt31Device, shape: Ntt31Rows) -> Self {
        let Ntt31Rows { field, lg_n, rows } = shape;
        let count = (rows as usize) << lg_n;
        let mut random = Random(u64::from(lg_n));
        let given = (0..count).map(|_| field.element(random.next() as u32)).collect();
        let data = rig.lease::<u32>(count);
        Self { rig, transforms, shape, given, data }
    }

    /// The plan that is served.
    pub fn plan(&self) -> Ntt31PassPlan {
        let Ntt31Rows { field, rows, .. } = self.shape;
        self.transforms.plan(field, &self.transform(), rows).expect("a plan")
    }

    pub fn words(&self) -> DeviceSlice<'_, u32> {
        self.data.all()
    }

    /// Runs `work`, which transforms the words, once on the random rows, and returns the result.
    pub fn result_of(&self, work: impl FnOnce() -> Result<(), DeviceFault>) -> Vec<Element31> {
        self.rig.put(self.data.all::<Element31>(), &self.given);
        work().expect("a launch");
        self.rig.get(self.data.all())
    }

    /// Times of `work`.
    pub fn times_of(&self, work: impl Fn() -> Result<(), DeviceFault>) -> Vec<Duration> {
        self.rig.times_of_graph(self.runs_per_measurement(), work)
    }

    fn transform(&self) -> NttPlan<Element31> {
        let lg_n = self.shape.lg_n;
        NttPlan { lg_n, inverse: false, coset: None, input_reversed: false, output_reversed: true }
    }

    /// Number of runs of a transform per measurement.
    fn runs_per_measurement(&self) -> u32 {
        let runs = match self.given.len().ilog2() {
            0..=20 => 100,
            21..=22 => 20,
            _ => 5,
        };
        self.rig.size(runs, 1)
    }

    fn time(&self, plan: &Ntt31PassPlan) -> TimeFigure<'static> {
        self.checked_result(plan);
        let times = self.times_of(|| self.run(plan));
        let (lg_n, batch, how) = (self.shape.lg_n, self.shape.rows as usize, plan.to_string());
        TimeFigure { op: "ntt31", mode: "nr", lg_n, batch, times, how }
    }

    fn run(&self, plan: &Ntt31PassPlan) -> Result<(), DeviceFault> {
        let (stream, words) = (&self.rig.stream, self.words());
        self.transforms.run(stream, plan, words, self.shape.rows, None).map(drop)
    }

    /// The result of a plan, whose rows are each checked at a random point.
    pub fn checked_result(&self, plan: &Ntt31PassPlan) -> Vec<Element31> {
        let result = self.result_of(|| self.run(plan));
        let Ntt31Rows { field, lg_n, rows } = self.shape;
        let (n, rows) = (1 << lg_n, rows as usize);
        (0..rows).into_par_iter().for_each(|row| {
            let [given, found] = [&self.given, &result].map(|words| &words[row * n..][..n]);
            let is_canonical = found
                .iter()
                .all(|element| field.montgomery_element(bytemuck::cast(*element)).is_some());
            let control = JobControl::default();
            let right = verify::verify_ntt31(field, plan.transform(), given, found, &control);
            assert!(is_canonical && right == Ok(true), "row {row} of 2^{lg_n} is wrong");
        });
        result
    }
}
