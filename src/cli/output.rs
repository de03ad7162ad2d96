//! Output of results, timings and numbers.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use comfy_table::{LineStyle, Table, TableStyle};
use serde::Serialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    args::{GlobalArgs, ScalarFormat, Words},
    exit::{CliFailure, Result, print_error},
    pending_file::write_file,
    plain_text::without_controls,
};
use crate::{
    client::{Execution, Fr, Prime31, ScalarEncoding, Stage, Timing, Verification},
    curve::scalars::encode_fr,
    formats::scalars::{self, Notation},
};

#[derive(Debug, Clone, Copy)]
pub struct Ui {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
}

impl Ui {
    pub fn new(global: &GlobalArgs) -> Self {
        Self { json: global.json, quiet: global.quiet, verbose: global.verbose }
    }

    /// Whether progress may be drawn.
    pub fn draws(self) -> bool {
        !self.json && !self.quiet && io::stderr().is_terminal()
    }

    pub fn print_json(self, value: &impl Serialize) -> Result<()> {
        // Counted first: a vector that grows leaves copies of secrets behind.
        let mut count = ByteCount(0);
        serde_json::to_writer_pretty(&mut count, value).expect("counting does not fail");
        let mut text = Zeroizing::new(Vec::with_capacity(count.0 + 1));
        serde_json::to_writer_pretty(&mut *text, value).expect("writing to memory does not fail");
        text.push(b'\n');
        OutputTarget::Stdout.write(&text)
    }

    pub fn print(self, text: &str) -> Result<()> {
        OutputTarget::Stdout.write(without_controls(text).as_bytes())
    }

    /// Prints a note for people on standard error.
    pub fn note(self, text: &str) {
        if !self.quiet && !self.json {
            print_error(&without_controls(text));
        }
    }

    /// Prints the timings of a job on standard error.
    pub fn timings(self, what: &str, timing: &Timing, execution: &Execution) {
        if self.verbose {
            self.note(&format!("{what}: {}", stages_text(&phases(timing))));
            let verified = verify_name(execution.verified);
            let Execution { engine, device, stages, .. } = execution;
            self.note(&format!("engine {engine}, device {device}, verified: {verified}"));
            if !stages.is_empty() {
                self.note(&format!("stages on the device: {}", stages_text(stages)));
            }
        } else {
            let (total, compute) = (time_text(timing.total), time_text(timing.compute));
            let (queue, upload) = (time_text(timing.queue), time_text(timing.upload));
            self.note(&format!(
                "{what}: {total} (upload {upload}, queue {queue}, compute {compute})"
            ));
        }
    }
}

/// Counts the bytes that are written to it.
struct ByteCount(usize);

impl Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Destination of a result. A file is replaced when all of the result is written.
#[derive(Debug, Clone)]
pub enum OutputTarget {
    Stdout,
    File(PathBuf),
}

impl OutputTarget {
    /// `-`, `/dev/stdout` and `None` mean standard output.
    pub fn new(path: Option<&Path>) -> Self {
        match path {
            Some(path) if !["-", "/dev/stdout"].map(Path::new).contains(&path) => {
                Self::File(path.to_owned())
            }
            _ => Self::Stdout,
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout) && io::stdout().is_terminal()
    }

    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
                written.map_err(|error| CliFailure::output("standard output", &error))
            }
            Self::File(path) => write_file(path, bytes),
        }
    }
}

/// Writes elements of 32 bytes, or of 4 over a prime below 2^31, of which `encoding` is the one in
/// memory.
pub fn write_elements(
    output: &OutputTarget,
    format: ScalarFormat,
    encoding: ScalarEncoding,
    bytes: &mut [u8],
) -> Result<()> {
    match format {
        ScalarFormat::Text(radix) => output.write(elements_text(radix, encoding, bytes).as_bytes()),
        ScalarFormat::Binary(_) | ScalarFormat::BigEndian if output.is_terminal() => {
            output.write(terminal_text(encoding, bytes).as_bytes())
        }
        ScalarFormat::BigEndian => {
            scalars::reverse_scalars(bytes)?;
            output.write(bytes)
        }
        ScalarFormat::Binary(_) => output.write(bytes),
    }
}

/// Hex for a terminal, one element per line. Montgomery form is shown unconverted, because the user
/// chose this encoding.
fn terminal_text(encoding: ScalarEncoding, bytes: &[u8]) -> Zeroizing<String> {
    if encoding != ScalarEncoding::Montgomery {
        return elements_text(Notation::Hex, encoding, bytes);
    }
    let mut lines = Zeroizing::new(String::with_capacity(bytes.len() / 32 * 65));
    for element in bytes.chunks_exact(32) {
        lines.push_str(&Zeroizing::new(hex::encode(element)));
        lines.push('\n');
    }
    lines
}

/// The integers in memory, one element per line.
pub fn elements_text(radix: Notation, encoding: ScalarEncoding, bytes: &[u8]) -> Zeroizing<String> {
    if encoding.width() != 4 {
        return scalars::to_text(radix, bytes);
    }
    // Enough for the longest: 10 decimal digits and a line feed.
    let mut text = Zeroizing::new(String::with_capacity(bytes.len() / 4 * 11));
    for word in bytes.as_chunks().0 {
        let word = u32::from_le_bytes(*word);
        let line = match radix {
            Notation::Hex => format!("{word:#010x}\n"),
            Notation::Decimal => format!("{word}\n"),
        };
        text.push_str(&Zeroizing::new(line));
    }
    text
}

/// Elements of Fr in a full encoding.
pub fn encoded(encoding: ScalarEncoding, elements: &[Fr]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(vec![0; elements.len() * encoding.width()]);
    encode_fr(encoding, elements, &mut bytes);
    bytes
}

/// Elements of 4 bytes over a prime below 2^31, as themselves or in Montgomery form, with the
/// factor 2^32.
pub fn encoded_words(field: Prime31, is_montgomery: bool, words: &[u32]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(4 * words.len()));
    for word in words {
        let word = match is_montgomery {
            true => ((u64::from(*word) << 32) % u64::from(field.modulus())) as u32,
            false => *word,
        };
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// No lines between rows, so that many fit the screen.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header);
    table
}

/// The phases of a call, which have names and times like stages.
fn phases(timing: &Timing) -> [Stage; 8] {
    let phases = [
        ("upload", timing.upload),
        ("receive", timing.receive),
        ("queue", timing.queue),
        ("compute", timing.compute),
        ("verify", timing.verify),
        ("send", timing.send),
        ("download", timing.download),
        ("total", timing.total),
    ];
    phases.map(|(name, duration)| Stage { name: name.to_owned(), duration })
}

/// `sort 12 us, accumulate 1.2 ms`.
pub fn stages_text(stages: &[Stage]) -> String {
    let text = |Stage { name, duration }: &Stage| format!("{name} {}", time_text(*duration));
    stages.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Adds the fields `timing`, in microseconds, and `execution` to a report.
pub fn with_timings(mut report: Value, timing: &Timing, execution: &Execution) -> Value {
    for Stage { name, duration } in phases(timing) {
        report["timing"][format!("{name}_us")] = microseconds(duration);
    }
    report["execution"] = json!({
        "engine": execution.engine, "device": execution.device,
        "verified": verify_name(execution.verified),
        "stages": stages_json(&execution.stages),
    });
    report
}

pub fn stages_json(stages: &[Stage]) -> Value {
    let one =
        |stage: &Stage| json!({ "name": stage.name, "time_us": microseconds(stage.duration) });
    stages.iter().map(one).collect()
}

pub fn microseconds(time: Duration) -> Value {
    json!(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

pub fn verify_name(verify: Verification) -> String {
    let words = Verification::words();
    let word = words.iter().find(|(value, _)| *value == verify);
    word.map_or_else(|| "none".to_owned(), |(_, word)| word.get_name().to_owned())
}

/// About three digits: `950 us`, `12.3 ms`, `1.50 s`.
pub fn time_text(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        ..1e3 => format!("{us:.0} us"),
        ..1e4 => format!("{:.2} ms", us / 1e3),
        ..1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// `1.5 KiB`, `96 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = bytes.checked_ilog2().unwrap_or(0) / 10;
    let value = bytes as f64 / f64::from(unit * 10).exp2();
    let digits = usize::from(value < 10.0 && value.fract() != 0.0);
    format!("{value:.digits$} {}", UNITS[unit as usize])
}

/// `1.23 M`, `456 k`.
pub fn rate_text(rate: f64) -> String {
    match rate {
        ..1e3 => format!("{rate:.1}"),
        ..1e6 => format!("{:.1} k", rate / 1e3),
        ..1e9 => format!("{:.2} M", rate / 1e6),
        _ => format!("{:.2} G", rate / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers() {
        assert_eq!(bytes_text(0), "0 B");
        assert_eq!(bytes_text(1536), "1.5 KiB");
        assert_eq!(bytes_text(256 << 20), "256 MiB");
        assert_eq!(time_text(Duration::from_micros(999)), "999 us");
        assert_eq!(time_text(Duration::from_micros(1234)), "1.23 ms");
        assert_eq!(time_text(Duration::from_millis(1500)), "1.50 s");
        assert_eq!(rate_text(1_234_567.0), "1.23 M");
    }
}
