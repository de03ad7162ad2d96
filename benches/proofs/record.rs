//! Prints times of proofs, and records them as JSON lines like those of `benches/results`.

use std::{fs::OpenOptions, io::Write, process::Command, time::Duration};

use capstan::{
    client::{GetInfoResponse, Timing},
    groth16::ReportedProof,
};

use crate::support::Samples;

/// How often something is measured.
#[derive(Clone, Copy)]
pub struct ProofRuns {
    /// Runs that are not counted: they connect, allocate, and make tables of bases that stay.
    pub warm_up: usize,
    pub counted: usize,
    /// How many of the counted proofs ark-groth16 repeats.
    pub of_arkworks: usize,
}

impl ProofRuns {
    pub fn all(self) -> usize {
        self.warm_up + self.counted
    }
}

/// A unit of recorded times.
struct TimeUnit {
    name: &'static str,
    per_second: f64,
}

/// log2 of a job's size, and the number of jobs at once.
struct JobSize {
    lg_n: u32,
    batch: usize,
    /// The size itself, if it is a number of digits.
    digits: Option<u64>,
}

pub struct ProofRecord {
    /// The file to append to; `None` to record nothing.
    file: Option<String>,
    device: String,
    /// How many of them the server uses.
    devices: usize,
}

impl ProofRecord {
    pub fn new(file: Option<String>) -> Self {
        Self { file, device: String::new(), devices: 0 }
    }

    /// Sets the devices that compute, which are of one kind.
    pub fn set_devices(&mut self, server: GetInfoResponse) {
        self.devices = server.devices.iter().filter(|device| device.gpu.is_some()).count();
        // The CPU is a device, too.
        let device = server.devices.into_iter().max_by_key(|device| device.gpu.is_some());
        self.device = device.map_or_else(|| "none".to_owned(), |device| device.name);
    }

    /// A mode that ends with the number of devices if there are several.
    pub fn on_devices(&self, mode: String) -> String {
        if self.devices > 1 { format!("{mode}_x{}", self.devices) } else { mode }
    }

    /// Prints what the phases and steps of a proof took.
    pub fn explain(&self, proof: &ReportedProof) {
        let ms = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let Timing { upload, queue, compute, total, .. } = proof.timing;
        let phases = [upload, queue, compute, total, proof.finish].map(ms);
        println!("  upload, queue, compute, total, finish: {} ms", phases.join(", "));
        for step in proof.steps.iter().filter(|step| !step.time.is_zero()) {
            println!("    {:24} {:>8} ms  {}", step.operation, ms(step.time), step.method);
        }
    }

    /// Prints and records the times of `batch` proofs at once.
    pub fn add(&self, op: &str, mode: &str, lg_n: u32, batch: usize, times: &Samples) {
        let size = JobSize { lg_n, batch, digits: None };
        self.add_in(TimeUnit { name: "ms", per_second: 1e3 }, op, mode, size, times);
    }

    /// Like [`Self::add`], in microseconds.
    pub fn add_us(&self, op: &str, mode: &str, lg_n: u32, batch: usize, times: &Samples) {
        let size = JobSize { lg_n, batch, digits: None };
        self.add_in(TimeUnit { name: "us", per_second: 1e6 }, op, mode, size, times);
    }

    /// Like [`Self::add`], in seconds, of one computation of `digits` digits.
    pub fn add_digits(&self, op: &str, mode: &str, digits: u64, times: &Samples) {
        let size = JobSize { lg_n: digits.ilog2(), batch: 1, digits: Some(digits) };
        self.add_in(TimeUnit { name: "s", per_second: 1.0 }, op, mode, size, times);
    }

    fn add_in(&self, unit: TimeUnit, op: &str, mode: &str, size: JobSize, times: &Samples) {
        let (JobSize { lg_n, batch, digits }, TimeUnit { name, per_second }) = (size, unit);
        let [median, min] =
            [times.median(), times.min()].map(|time| time.as_secs_f64() * per_second);
        println!("  {op} {batch:3} x 2^{lg_n:<2} {mode:20} {median:10.3} {min:10.3} {name}");
        let Some(file) = &self.file else { return };
        let rounded = |time: f64| (time * 1e3).round() / 1e3;
        let mut line = serde_json::json!({
            "op": op,
            "lg_n": lg_n,
            "mode": mode,
            "batch": batch,
            "median": rounded(median),
            "min": rounded(min),
            "unit": name,
            "device": self.device,
            "commit": option_env!("CAPSTAN_COMMIT").unwrap_or("unknown"),
            "date": today(),
        });
        if let Some(digits) = digits {
            line["digits"] = digits.into();
        }
        let mut file =
            OpenOptions::new().create(true).append(true).open(file).expect("a writable file");
        writeln!(file, "{line}").expect("space for a line");
    }
}

/// The date in UTC as year-month-day.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output().expect("the program date");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
