//! Prints or writes what a program returned.

use std::{collections::BTreeMap, mem};

use serde::Serialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    args::RunArgs,
    build::{NamedProgram, NamedValue},
    file::{NamedStep, ProgramFile},
};
use crate::{
    cli::{
        args::ScalarFormat,
        exit::Result,
        output::{
            OutputTarget, Ui, bytes_text, microseconds, time_text, verify_name, with_timings,
        },
    },
    client::{
        CurvePoint, Fr, Group, PointsValue, RunEstimate, RunResult, RunStep, ScalarEncoding,
        SumEncoding,
    },
    curve::{points::encode_sums, scalars::encode_fr},
    formats::scalars::{self, Notation},
};

/// Encoding of points in files and on standard output.
const POINTS: SumEncoding = SumEncoding::Compressed;

pub fn estimate(ui: Ui, estimate: &RunEstimate) -> Result<()> {
    let RunEstimate { engine, device, jobs_ahead, .. } = estimate;
    if ui.json {
        return ui.print_json(&json!({
            "input_bytes": estimate.input_bytes, "output_bytes": estimate.output_bytes,
            "value_bytes": estimate.value_bytes, "scratch_bytes": estimate.scratch_bytes,
            "engine": engine, "device": device, "jobs_ahead": jobs_ahead,
            "modelled_time_us": microseconds(estimate.modelled_time),
        }));
    }
    let (inputs, outputs) = (bytes_text(estimate.input_bytes), bytes_text(estimate.output_bytes));
    let (values, scratch) = (bytes_text(estimate.value_bytes), bytes_text(estimate.scratch_bytes));
    let time = time_text(estimate.modelled_time);
    ui.print(&format!(
        "modelled time {time}\n\
         inputs {inputs}, outputs {outputs}, values {values}, working memory {scratch}\n\
         engine {engine}, device {device}, jobs ahead {jobs_ahead}\n"
    ))
}

/// A report whose outputs are borrowed, so that no copy of them is left behind.
#[derive(Serialize)]
struct RunJson<'a> {
    /// The lines of each value.
    outputs: BTreeMap<&'a str, Vec<&'a str>>,
    #[serde(flatten)]
    report: Value,
}

/// Writes the outputs to their files; prints the others in hex, with their names.
pub fn result(
    ui: Ui,
    args: &RunArgs,
    file: &ProgramFile,
    program: &NamedProgram,
    result: &RunResult,
) -> Result<()> {
    let RunResult { timing, execution, steps, .. } = result;
    ui.timings("run", timing, execution);
    let mut all_steps = Vec::new();
    for (NamedStep { name, kind, .. }, step) in file.steps.iter().zip(steps) {
        let RunStep { time, method, verified, .. } = step;
        if ui.verbose {
            let separator = if method.is_empty() { "" } else { ", " };
            ui.note(&format!("step {name} ({kind}): {}{separator}{method}", time_text(*time)));
        }
        all_steps.push(json!({
            "name": name, "kind": kind, "time_us": microseconds(*time), "method": method,
            "verified": verify_name(*verified),
        }));
    }
    let mut all_lines = Vec::new();
    for name in &file.outputs {
        let value = program.values[name];
        if let Some(output) = args.output.iter().find(|output| output.name == *name) {
            let bytes = file_bytes(args.encoding, value, result)?;
            OutputTarget::new(Some(&output.path)).write(&bytes)?;
            continue;
        }
        let lines = hex_lines(value, result)?;
        if ui.json {
            all_lines.push((name, lines));
        } else {
            ui.print(&named_lines(name, &lines))?;
        }
    }
    if !ui.json {
        return Ok(());
    }
    let outputs = all_lines.iter().map(|(name, lines)| (name.as_str(), lines.lines().collect()));
    let report = with_timings(json!({ "steps": all_steps }), timing, execution);
    ui.print_json(&RunJson { outputs: outputs.collect(), report })
}

/// The elements of a vector in the format of its file, or points in compressed form.
fn file_bytes(
    format: ScalarFormat,
    value: NamedValue,
    result: &RunResult,
) -> Result<Zeroizing<Vec<u8>>> {
    let elements = match value {
        NamedValue::Vector(vector) => result.vector(vector)?,
        NamedValue::G1(points) => return compressed(points, result),
        NamedValue::G2(points) => return compressed(points, result),
    };
    Ok(match format {
        ScalarFormat::Binary(encoding) if encoding.is_full() => encoded(encoding, elements),
        // Narrow encodings do not hold every element.
        ScalarFormat::Binary(_) => encoded(ScalarEncoding::Canonical, elements),
        ScalarFormat::BigEndian => {
            let mut bytes = encoded(ScalarEncoding::Canonical, elements);
            scalars::reverse_scalars(&mut bytes)?;
            bytes
        }
        ScalarFormat::Text(notation) => {
            let bytes = encoded(ScalarEncoding::Canonical, elements);
            let mut text = scalars::to_text(notation, &bytes);
            Zeroizing::new(mem::take(&mut *text).into_bytes())
        }
    })
}

/// An element or a point per line.
fn hex_lines(value: NamedValue, result: &RunResult) -> Result<Zeroizing<String>> {
    let (points, width) = match value {
        NamedValue::Vector(vector) => {
            let bytes = encoded(ScalarEncoding::Canonical, result.vector(vector)?);
            return Ok(scalars::to_text(Notation::Hex, &bytes));
        }
        NamedValue::G1(points) => (compressed(points, result)?, POINTS.point_bytes(Group::G1)),
        NamedValue::G2(points) => (compressed(points, result)?, POINTS.point_bytes(Group::G2)),
    };
    let lines = points.chunks(width).map(|point| hex::encode(point) + "\n");
    Ok(Zeroizing::new(lines.collect()))
}

/// `y: 0x1f` for a single line, else `y[0]: 0x1f` and so on.
fn named_lines(name: &str, lines: &str) -> Zeroizing<String> {
    let count = lines.lines().count();
    let mut text = Zeroizing::new(String::with_capacity(lines.len() + count * (name.len() + 32)));
    for (index, line) in lines.lines().enumerate() {
        text.push_str(name);
        if count > 1 {
            text.push_str(&format!("[{index}]"));
        }
        text.push_str(": ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn encoded(encoding: ScalarEncoding, elements: &[Fr]) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(vec![0; elements.len() * encoding.width()]);
    encode_fr(encoding, elements, &mut bytes);
    bytes
}

fn compressed<A: CurvePoint>(
    points: PointsValue<A>,
    result: &RunResult,
) -> Result<Zeroizing<Vec<u8>>> {
    Ok(Zeroizing::new(encode_sums(POINTS, &A::into_sums(result.points(points)?))))
}
