//! Prints measurements and records them as JSON lines for `benches/results/h200.jsonl`.

use std::{fs::OpenOptions, io::Write, process::Command, time::Duration};

use serde_json::Value;

use crate::rig::BenchRig;

/// Prints and records measurements.
pub struct Record {
    device: String,
    /// The file to append to; `None` to record nothing.
    file: Option<String>,
    /// Suffix of modes if the shared memory of a block is limited.
    suffix: String,
}

/// A rate: `count` operations in each of `times`.
pub struct RateFigure<'a> {
    /// The `op` field, such as `fp_mul`.
    pub op: &'a str,
    /// The `mode` field.
    pub mode: &'a str,
    /// Operations in one run; bytes for an upload.
    pub count: u64,
    pub times: Vec<Duration>,
    /// `G/s` or `GB/s`.
    pub unit: &'a str,
    /// Details that are printed, not recorded.
    pub details: String,
}

/// The time of `batch` jobs at once.
pub struct TimeFigure<'a> {
    /// The `op` field, such as `ntt`.
    pub op: &'a str,
    /// The `mode` field.
    pub mode: &'a str,
    /// log2 of a job's size.
    pub lg_n: u32,
    pub batch: usize,
    pub times: Vec<Duration>,
    /// Details that are printed, not recorded.
    pub how: String,
}

impl TimeFigure<'_> {
    /// Median and minimum in milliseconds.
    fn ms(&self) -> (f64, f64) {
        let mut times: Vec<f64> = self.times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    }

    /// Median and minimum in microseconds.
    fn us(&self) -> (f64, f64) {
        let (median, least) = self.ms();
        (1e3 * median, 1e3 * least)
    }
}

impl RateFigure<'_> {
    /// Median and minimum of the rates, in 10^9 per second.
    pub fn rates(&self) -> (f64, f64) {
        let rate = |time: &Duration| self.count as f64 / time.as_secs_f64() / 1e9;
        let mut rates: Vec<f64> = self.times.iter().map(rate).collect();
        rates.sort_by(f64::total_cmp);
        (rates[rates.len() / 2], rates[0])
    }
}

impl Record {
    /// Records to the file that the command line names, unless the run is quick.
    pub fn new(rig: &BenchRig) -> Self {
        let file = rig.argument("record").filter(|_| !rig.quick);
        let suffix = rig.argument("shared_kib").map_or_else(String::new, |kib| format!("_{kib}k"));
        Self { device: rig.gpu.identity().name.clone(), file, suffix }
    }

    /// Prints a figure without recording it.
    pub fn print_rate(&self, figure: &RateFigure<'_>) {
        let (median, least) = figure.rates();
        let RateFigure { op, mode, unit, details: how, .. } = figure;
        println!("  {op:24} {mode:10} {median:8.4} {least:8.4} {unit}  {how}");
    }

    /// Prints and records a figure.
    pub fn record_rate(&mut self, figure: &RateFigure<'_>) {
        self.print_rate(figure);
        let (median, least) = figure.rates();
        self.append(serde_json::json!({
            "op": figure.op,
            "lg_n": figure.count.ilog2(),
            "mode": format!("{}{}", figure.mode, self.suffix),
            "batch": 1,
            "median": rounded(median),
            "min": rounded(least),
            "unit": figure.unit,
        }));
    }

    /// Prints a time without recording it.
    pub fn print_time(&self, time: &TimeFigure<'_>) {
        let (median, least) = time.ms();
        let TimeFigure { op, mode, lg_n, batch, how, .. } = time;
        println!("  {op} {batch:4} x 2^{lg_n:<2} {mode:16} {median:9.4} {least:9.4} ms  {how}");
    }

    /// Prints and records a time.
    pub fn record_time(&mut self, time: &TimeFigure<'_>) {
        self.print_time(time);
        let (median, least) = time.ms();
        self.append(self.line(time, "ms", [median, least]));
    }

    /// Prints a time in microseconds without recording it.
    pub fn print_time_us(&self, time: &TimeFigure<'_>) {
        let (median, least) = time.us();
        let TimeFigure { op, mode, lg_n, batch, how, .. } = time;
        println!("  {op} {batch:4} x 2^{lg_n:<2} {mode:16} {median:9.2} {least:9.2} us  {how}");
    }

    /// Prints a time over a field, and records it in microseconds.
    pub fn record_us(&mut self, field: &str, time: &TimeFigure<'_>) {
        self.print_time_us(time);
        let (median, least) = time.us();
        let mut line = self.line(time, "us", [median, least]);
        line["field"] = field.into();
        self.append(line);
    }

    fn line(&self, time: &TimeFigure<'_>, unit: &str, [median, min]: [f64; 2]) -> Value {
        serde_json::json!({
            "op": time.op,
            "lg_n": time.lg_n,
            "mode": format!("{}{}", time.mode, self.suffix),
            "batch": time.batch,
            "median": rounded(median),
            "min": rounded(min),
            "unit": unit,
        })
    }

    fn append(&self, mut line: Value) {
        let Some(file) = &self.file else { return };
        line["device"] = self.device.as_str().into();
        line["commit"] = option_env!("CAPSTAN_COMMIT").unwrap_or("unknown").into();
        line["date"] = today().into();
        let mut file =
            OpenOptions::new().create(true).append(true).open(file).expect("a writable file");
        writeln!(file, "{line}").expect("space for a line");
    }

    /// Prints all variants of an operation and records the fastest one.
    pub fn record_best(&mut self, figures: Vec<RateFigure<'_>>) {
        let best = best(&figures);
        figures
            .iter()
            .filter(|figure| !std::ptr::eq(*figure, best))
            .for_each(|f| self.print_rate(f));
        self.record_rate(best);
    }

    /// Prints the fastest variant of an operation.
    pub fn print_best(&self, figures: &[RateFigure<'_>]) {
        self.print_rate(best(figures));
    }
}

fn best<'a, 'b>(figures: &'a [RateFigure<'b>]) -> &'a RateFigure<'b> {
    let best = figures.iter().max_by(|a, b| a.rates().0.total_cmp(&b.rates().0));
    best.expect("at least one variant")
}

/// Rounds to four significant digits.
fn rounded(rate: f64) -> f64 {
    let digits = (3 - rate.abs().log10().floor() as i32).clamp(0, 9);
    let scale = 10_f64.powi(digits);
    (rate * scale).round() / scale
}

/// The date in UTC as year-month-day.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output().expect("the program date");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
