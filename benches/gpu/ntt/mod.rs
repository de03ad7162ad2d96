//! Transforms in device memory. The first result of every plan is checked at a random point.
//!
//! `sizes=10,20` selects sizes, `modes=nr,rn` modes. `plans=20:6.2.2.1/6.2.2.2/8.2.0.0` runs plans
//! for one size, separated by commas, whose passes are given in DIF order as
//! lg_r.lg_e.lg_c.multiples; `variants` runs the plans of a list. Both print the time of every pass
//! and record nothing.

mod variants;

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field};
use capstan::{
    curve::{Decimation, layout},
    device::{DeviceLease, DeviceSlice},
    engine::{JobControl, NttPlan},
    ntt::{DeviceFr, NttDevice, NttPass, NttPassPlan, TransformEnd, table_bytes_max},
    verify,
};

use crate::{
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

const SIZES: [u32; 13] = [10, 11, 12, 14, 16, 18, 20, 22, 23, 24, 25, 26, 28];
/// log2 of a row, and number of rows.
const BATCHES: [(u32, usize); 3] = [(10, 1024), (12, 256), (16, 256)];

/// Name, whether inverse, whether on a coset, whether input and output are in bit-reversed order.
type Mode = (&'static str, bool, bool, bool, bool);

const MODES: [Mode; 7] = [
    ("nr", false, false, false, true),
    ("rn", false, false, true, false),
    ("nn", false, false, false, false),
    ("rr", false, false, true, true),
    ("inverse_nr", true, false, false, true),
    ("coset_nr", false, true, false, true),
    ("inverse_coset_rn", true, true, true, false),
];

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let transforms = NttDevice::load(&rig.gpu, table_bytes_max(rig.gpu.arena().bytes()))
        .unwrap_or_else(|reason| panic!("{reason}"));
    let numbers = |text: String| text.split(',').map(|n| n.parse().expect("a number")).collect();
    let sizes =
        rig.argument("sizes").map_or_else(|| rig.size(SIZES.to_vec(), vec![5, 11]), numbers);
    let modes = rig.argument("modes");
    let wanted = |mode: &Mode| modes.as_deref().is_none_or(|m| m.split(',').any(|m| m == mode.0));
    for &lg_n in &sizes {
        let bench = NttBench::new(rig, &transforms, lg_n, 1);
        for mode in MODES.iter().filter(|mode| wanted(mode)) {
            record.record_time(&bench.chosen(mode));
        }
        if modes.is_none() {
            record.record_time(&bench.evaluations());
        }
        for variant in variants::of(rig, lg_n) {
            let modes = if variant.has_bit_reversal { &MODES[2..3] } else { &MODES[..2] };
            for mode in modes {
                record.print_time(&bench.given(mode, variant.passes.clone()));
            }
        }
    }
    for (lg_n, rows) in BATCHES.into_iter().filter(|(lg_n, _)| sizes.contains(lg_n)) {
        let bench = NttBench::new(rig, &transforms, lg_n, rig.size(rows, 3));
        for mode in MODES.iter().filter(|mode| wanted(mode)) {
            record.record_time(&bench.chosen(mode));
        }
    }
}

/// Rows of one size on the host, and their memory on the device.
struct NttBench<'a> {
    rig: &'a BenchRig,
    transforms: &'a NttDevice,
    lg_n: u32,
    rows: usize,
    given: Vec<Fr>,
    data: DeviceLease,
    out: DeviceLease,
}

impl<'a> NttBench<'a> {
    fn new(rig: &'a BenchRig, transforms: &'a NttDevice, lg_n: u32, rows: usize) -> Self {
        let count = rows << lg_n;
        let mut given = vec![Fr::ZERO; count];
        let mut random = Random(u64::from(lg_n));
        // Clear the top bits, so that elements are below r.
        for bytes in layout::fr_as_bytes_mut(&mut given).chunks_exact_mut(8) {
            bytes.copy_from_slice(&(random.next() >> 2).to_le_bytes());
        }
        let (data, out) = (rig.lease::<DeviceFr>(count), rig.lease::<DeviceFr>(count));
        Self { rig, transforms, lg_n, rows, given, data, out }
    }

    fn transform(&self, mode: &Mode) -> NttPlan {
        let &(_, inverse, on_coset, input_reversed, output_reversed) = mode;
        let coset = on_coset.then(|| Fr::from(7_u64));
        NttPlan { lg_n: self.lg_n, inverse, coset, input_reversed, output_reversed }
    }

    /// Measures the planner's choice.
    fn chosen<'m>(&self, mode: &'m Mode) -> TimeFigure<'m> {
        let plan = self.transforms.plan(&self.transform(mode), self.rows).expect("a plan");
        self.time(mode, &plan)
    }

    /// Measures a plan, given as passes in DIF order, and each of its passes.
    fn given<'m>(&self, mode: &'m Mode, mut passes: Vec<NttPass>) -> TimeFigure<'m> {
        let transform = self.transform(mode);
        if transform.decimation() == Decimation::Dit {
            passes.reverse();
        }
        let plan = self.transforms.plan_with_passes(&transform, passes).expect("a plan");
        let mut time = self.time(mode, &plan);
        self.rig.put(self.data.all(), layout::fr_as_bytes(&self.given));
        for (i, pass) in plan.passes().enumerate() {
            // A pass repeated in place gets inputs that are not reduced as it expects. The emulated
            // driver rejects them; on a GPU they do not affect the time.
            let (from, to) = self.spans(&plan);
            let to = if self.rig.quick { self.out.all() } else { to };
            let run = || self.transforms.run_pass(&self.rig.stream, &plan, i, from, to);
            let mut times =
                self.rig.times(|| (0..self.runs_per_measurement()).try_for_each(|_| run()));
            times.sort();
            let ms =
                times[times.len() / 2].as_secs_f64() * 1e3 / self.runs_per_measurement() as f64;
            time.how += &format!(" | {} {ms:.4}", variants::name(pass));
        }
        time
    }

    /// Input and output of a plan: the same memory if it can run in place.
    fn spans(&self, plan: &NttPassPlan) -> (DeviceSlice<'_, DeviceFr>, DeviceSlice<'_, DeviceFr>) {
        let data = self.data.all();
        (data, if plan.needs_output_buffer() { self.out.all() } else { data })
    }

    /// Number of runs of a transform per measurement.
    fn runs_per_measurement(&self) -> usize {
        let full = match (self.rows << self.lg_n).ilog2() {
            0..=20 => 20,
            21..=22 => 5,
            23..=26 => 2,
            _ => 1,
        };
        self.rig.size(full, 1)
    }

    fn time<'m>(&self, mode: &'m Mode, plan: &NttPassPlan) -> TimeFigure<'m> {
        let (from, to) = self.spans(plan);
        let out = plan.needs_output_buffer().then_some(to);
        let run = || self.transforms.run(&self.rig.stream, plan, from, self.rows, out);
        let put = || {
            let bytes = from.cast::<u8>().expect("bytes");
            self.rig.put(bytes, layout::fr_as_bytes(&self.given));
        };
        put();
        run().expect("a launch");
        self.check(plan.transform(), to);
        // A transform out of place leaves its input not canonical. The emulated driver rejects it;
        // on a GPU it does not affect the time.
        let again = || {
            if self.rig.quick {
                put();
            }
            run()
        };
        let mut times =
            self.rig.times(|| (0..self.runs_per_measurement()).try_for_each(|_| again()));
        times.iter_mut().for_each(|time| *time /= self.runs_per_measurement() as u32);
        let names: Vec<_> = plan.passes().map(variants::name).collect();
        let (lg_n, batch) = (self.lg_n, self.rows);
        TimeFigure { op: "ntt", mode: mode.0, lg_n, batch, times, how: names.join("/") }
    }

    /// Measures the check on the device: evaluation of a transform's input and output at a point.
    fn evaluations(&self) -> TimeFigure<'static> {
        let mode = &MODES[0];
        let transform = self.transform(mode);
        let plan = self.transforms.plan(&transform, self.rows).expect("a plan");
        let stream = &self.rig.stream;
        let [input, output] = [TransformEnd::Input, TransformEnd::Output]
            .map(|end| self.transforms.evaluation_tables(&transform, end).expect("tables"));
        let evaluate = |end| self.transforms.evaluate(stream, end, self.data.all());
        self.rig.put(self.data.all(), layout::fr_as_bytes(&self.given));
        let before = self.rig.get(evaluate(&input).expect("a launch").all::<DeviceFr>());
        self.transforms.run(stream, &plan, self.data.all(), self.rows, None).expect("a launch");
        let after = self.rig.get(evaluate(&output).expect("a launch").all::<DeviceFr>());
        assert_eq!(before, after, "2^{}: the transform or its check is wrong", self.lg_n);
        let once = || {
            evaluate(&input)?;
            evaluate(&output).map(drop)
        };
        let mut times =
            self.rig.times(|| (0..self.runs_per_measurement()).try_for_each(|_| once()));
        times.iter_mut().for_each(|time| *time /= self.runs_per_measurement() as u32);
        let (lg_n, batch, how) = (self.lg_n, self.rows, "input and output at a point".into());
        TimeFigure { op: "ntt_check", mode: mode.0, lg_n, batch, times, how }
    }

    /// Checks the first three rows and the last one at a random point.
    fn check(&self, transform: &NttPlan, found: DeviceSlice<'_, DeviceFr>) {
        let &NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = transform;
        let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
        let n = 1 << lg_n;
        for row in (0..self.rows).filter(|row| *row < 3 || row + 1 == self.rows) {
            let mut values = vec![Fr::ONE; n];
            let row_found = found.slice(row * n, n).expect("a row").cast().expect("bytes");
            self.rig.read(row_found, layout::fr_as_bytes_mut(&mut values));
            let canonical =
                values.iter().all(|value| value.0 < <Fr as ark_ff::PrimeField>::MODULUS);
            let given = &self.given[row * n..][..n];
            let control = JobControl::default();
            let right = verify::verify_ntt(&plan, given, &values, &control);
            assert!(canonical && right == Ok(true), "row {row} of {transform:?} is wrong");
        }
    }
}
