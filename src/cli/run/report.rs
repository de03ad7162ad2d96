//! Prints or writes what a program returned.

use std::{collections::BTreeMap, mem};

use capstan_math::{
    field::FieldId,
    gf2::files::{ColumnOrder, write_text},
};
use serde::Serialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    args::{NamedPath, RunArgs},
    build::{NamedProgram, NamedValue},
    elements::MatrixStyle,
    file::{NamedStep, ProgramFile},
};
use crate::{
    args::ScalarFormat,
    client::{
        BitMatrix, CurvePoint, Group, PointsValue, RunEstimate, RunResult, RunStep, ScalarEncoding,
        SumEncoding, VectorValue,
    },
    curve::points::encode_sums,
    exit::{Exit, Result, fail},
    formats::scalars::{self, Notation},
    integers::digits::{self, DigitRadix},
    output::{
        OutputTarget, Ui, bytes_text, elements_text, encoded, encoded_words, microseconds,
        time_text, verify_name, with_timings,
    },
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
            "time_ahead_us": estimate.time_ahead.map(microseconds),
        }));
    }
    let (inputs, outputs) = (bytes_text(estimate.input_bytes), bytes_text(estimate.output_bytes));
    let (values, scratch) = (bytes_text(estimate.value_bytes), bytes_text(estimate.scratch_bytes));
    let time = time_text(estimate.modelled_time);
    let ahead = estimate.time_ahead.map(|time| format!(" (modelled time {})", time_text(time)));
    let ahead = ahead.unwrap_or_default();
    ui.print(&format!(
        "modelled time {time}\n\
         inputs {inputs}, outputs {outputs}, values {values}, working memory {scratch}\n\
         engine {engine}, device {device}, jobs ahead {jobs_ahead}{ahead}\n"
    ))
}

/// Refuses an encoding that the files of outputs cannot have.
pub fn check_encoding(args: &RunArgs, program: &NamedProgram) -> Result<()> {
    use ScalarEncoding::{Canonical, Montgomery};
    let format = args.encoding;
    if matches!(format, ScalarFormat::Text(_) | ScalarFormat::Binary(Canonical)) {
        return Ok(());
    }
    let field = |file: &NamedPath| program.values[&file.name].vector().map(|value| value.field());
    // If it applies to files of prime fields, those of integers and of matrices ignore it.
    let files = args.input.iter().chain(&args.output);
    let applies = files.filter_map(field).any(FieldId::has_arithmetic);
    for output in &args.output {
        let problem = match field(output) {
            Some(FieldId::Prime31(_)) if format != ScalarFormat::Binary(Montgomery) => {
                "fields of a prime below 2^31 take the encodings canonical, montgomery, hex and \
                 decimal"
            }
            Some(FieldId::Integers) if !applies => "integers take the encodings hex and decimal",
            Some(FieldId::Gf2) if !applies => {
                "matrices of bits have the format of their input: remove --encoding"
            }
            _ => continue,
        };
        return fail(Exit::Usage, format!("--output {}: {problem}", output.name));
    }
    Ok(())
}

/// A report whose outputs are borrowed, so that no copy of them is left behind.
#[derive(Serialize)]
struct RunJson<'a> {
    /// The lines of each value.
    outputs: BTreeMap<&'a str, Vec<&'a str>>,
    #[serde(flatten)]
    report: Value,
}

/// What a run is reported with.
pub struct FileRunReport<'a> {
    pub args: &'a RunArgs,
    pub file: &'a ProgramFile,
    pub program: &'a NamedProgram,
    /// How matrices of bits are written.
    pub matrices: Option<MatrixStyle>,
}

impl FileRunReport<'_> {
    /// Writes the outputs to their files; prints the others as text, with their names.
    pub fn print(&self, ui: Ui, result: &RunResult) -> Result<()> {
        let RunResult { timing, execution, steps, .. } = result;
        ui.timings("run", timing, execution);
        let mut all_steps = Vec::new();
        for (NamedStep { name, kind, .. }, step) in self.file.steps.iter().zip(steps) {
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
        for name in &self.file.outputs {
            let value = self.program.values[name];
            if let Some(output) = self.args.output.iter().find(|output| output.name == *name) {
                let bytes = self.file_bytes(value, result)?;
                OutputTarget::new(Some(&output.path)).write(&bytes)?;
                continue;
            }
            let lines = self.lines(value, Notation::Hex, result)?;
            if ui.json {
                all_lines.push((name, lines));
            } else {
                ui.print(&named_lines(name, &lines))?;
            }
        }
        if !ui.json {
            return Ok(());
        }
        let outputs =
            all_lines.iter().map(|(name, lines)| (name.as_str(), lines.lines().collect()));
        let report = with_timings(json!({ "steps": all_steps }), timing, execution);
        ui.print_json(&RunJson { outputs: outputs.collect(), report })
    }

    /// What is written to a file: the elements of a vector in the file's encoding, or points in
    /// compressed form.
    fn file_bytes(&self, value: NamedValue, result: &RunResult) -> Result<Zeroizing<Vec<u8>>> {
        let format = self.args.encoding;
        let (vector, field) = match value {
            NamedValue::Vector(vector) => (vector, vector.field()),
            NamedValue::Bits(matrix) => {
                let MatrixStyle { order, write } = self.matrix_style();
                return Ok(Zeroizing::new(write(&result.bit_matrix(matrix)?, order)));
            }
            NamedValue::G1(points) => return compressed(points, result),
            NamedValue::G2(points) => return compressed(points, result),
        };
        let encoding = match format {
            ScalarFormat::Text(notation) => {
                let mut text = self.lines(value, notation, result)?;
                return Ok(Zeroizing::new(mem::take(&mut *text).into_bytes()));
            }
            ScalarFormat::Binary(encoding) => encoding,
            ScalarFormat::BigEndian => ScalarEncoding::Canonical,
        };
        Ok(match field {
            FieldId::Prime31(field) => {
                let is_montgomery = encoding == ScalarEncoding::Montgomery;
                encoded_words(field, is_montgomery, result.vector31(vector)?)
            }
            FieldId::Gf2 | FieldId::Integers => {
                let mut text = self.lines(value, Notation::Hex, result)?;
                Zeroizing::new(mem::take(&mut *text).into_bytes())
            }
            FieldId::Bls12381Fr => {
                // Narrow encodings do not hold every element.
                let full = if encoding.is_full() { encoding } else { ScalarEncoding::Canonical };
                let mut bytes = encoded(full, result.vector(vector)?);
                if format == ScalarFormat::BigEndian {
                    scalars::reverse_scalars(&mut bytes)?;
                }
                bytes
            }
        })
    }

    /// An element, a row of a matrix, an integer or a point per line.
    fn lines(
        &self,
        value: NamedValue,
        notation: Notation,
        result: &RunResult,
    ) -> Result<Zeroizing<String>> {
        let (points, width) = match value {
            NamedValue::Vector(vector) => return vector_lines(vector, notation, result),
            NamedValue::Bits(matrix) => {
                let order = self.matrix_style().order;
                return Ok(Zeroizing::new(write_text(&result.bit_matrix(matrix)?, order)));
            }
            NamedValue::G1(points) => (compressed(points, result)?, POINTS.point_bytes(Group::G1)),
            NamedValue::G2(points) => (compressed(points, result)?, POINTS.point_bytes(Group::G2)),
        };
        let lines = points.chunks(width).map(|point| hex::encode(point) + "\n");
        Ok(Zeroizing::new(lines.collect()))
    }

    /// That of the first input that is a matrix. Others are made of inputs.
    fn matrix_style(&self) -> MatrixStyle {
        let write: fn(&BitMatrix, ColumnOrder) -> Vec<u8> =
            |matrix, order| write_text(matrix, order).into_bytes();
        self.matrices.unwrap_or(MatrixStyle { order: ColumnOrder::Ascending, write })
    }
}

/// An element or an integer per line.
fn vector_lines(
    vector: VectorValue,
    notation: Notation,
    result: &RunResult,
) -> Result<Zeroizing<String>> {
    match vector.field() {
        FieldId::Prime31(field) => {
            let bytes = encoded_words(field, false, result.vector31(vector)?);
            Ok(elements_text(notation, ScalarEncoding::Canonical31, &bytes))
        }
        FieldId::Integers => {
            let radix = match notation {
                Notation::Hex => DigitRadix::Hexadecimal,
                Notation::Decimal => DigitRadix::Decimal,
            };
            let limbs = result.limbs(vector)?;
            let length = (vector.length() as usize).max(1);
            // At most 10 decimal digits per limb; 0x and a line feed per integer.
            let size = 10 * limbs.len() + 3 * limbs.len().div_ceil(length);
            let mut text = Zeroizing::new(String::with_capacity(size));
            for row in limbs.chunks(length) {
                text.push_str(&digits::write(&digits::integer(row), radix));
                text.push('\n');
            }
            Ok(text)
        }
        FieldId::Bls12381Fr | FieldId::Gf2 => {
            let bytes = encoded(ScalarEncoding::Canonical, result.vector(vector)?);
            Ok(scalars::to_text(notation, &bytes))
        }
    }
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

fn compressed<A: CurvePoint>(
    points: PointsValue<A>,
    result: &RunResult,
) -> Result<Zeroizing<Vec<u8>>> {
    Ok(Zeroizing::new(encode_sums(POINTS, &A::into_sums(result.points(points)?))))
}
