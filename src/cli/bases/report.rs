//! Metadata of bases and matrices as tables and as JSON.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::residency;
use crate::{
    client::{BasesInfo, MatrixInfo},
    exit::Result,
    output::{Ui, bytes_text, table},
};

/// Prints all objects: one list as JSON, or a table for each kind. Ids are full, so that they
/// can be copied.
pub fn print_list(ui: Ui, bases: &[BasesInfo], matrices: &[MatrixInfo]) -> Result<()> {
    if ui.json {
        let bases = bases.iter().map(as_json);
        let all = bases.chain(matrices.iter().map(matrix_as_json));
        return ui.print_json(&all.collect::<Value>());
    }
    if bases.is_empty() && matrices.is_empty() {
        ui.note("no bases: import some with `capstan bases import`");
    }
    if !bases.is_empty() {
        print_bases(ui, bases)?;
    }
    if !matrices.is_empty() {
        print_matrices(ui, matrices)?;
    }
    Ok(())
}

fn print_bases(ui: Ui, all: &[BasesInfo]) -> Result<()> {
    let mut rows = table(["id", "group", "points", "size", "stored", "gpus", "label"]);
    for info in all {
        let (id, count, size) =
            (info.id.to_string(), info.count.to_string(), bytes_text(info.bytes));
        let group = info.group.name();
        let stored = storage(info.persisted);
        let gpus = residency::as_text(&info.residency, &info.unknown_devices);
        rows.add_row([&id, group, &count, &size, stored, &gpus, &info.label]);
    }
    ui.print(&format!("{rows}\n"))
}

pub fn as_json(info: &BasesInfo) -> Value {
    json!({
        "kind": "bases", "id": info.id.to_string(), "group": info.group.name(),
        "count": info.count, "bytes": info.bytes, "infinities": info.infinities,
        "persisted": info.persisted, "label": info.label, "created_s": info.created_s,
        "devices": residency::as_json(&info.residency), "unknown_devices": info.unknown_devices,
    })
}

pub fn as_text(info: &BasesInfo) -> String {
    let mut rows = table(["bases", &info.id.to_string()]);
    rows.add_row(["group", info.group.name()]);
    rows.add_row(["points", &info.count.to_string()]);
    rows.add_row(["points at infinity", &info.infinities.to_string()]);
    rows.add_row(["size", &bytes_text(info.bytes)]);
    rows.add_row(["stored", storage(info.persisted)]);
    rows.add_row(["gpus", &residency::as_text(&info.residency, &info.unknown_devices)]);
    rows.add_row(["label", &info.label]);
    rows.add_row(["created", &utc(info.created_s)]);
    format!("{rows}\n")
}

fn print_matrices(ui: Ui, all: &[MatrixInfo]) -> Result<()> {
    let mut rows = table(["id of matrix", "rows", "columns", "terms", "size", "stored", "label"]);
    for info in all {
        let [lines, columns, terms] = numbers(info).map(|number| number.to_string());
        let id = info.id.to_string();
        let size = bytes_text(info.bytes);
        let stored = storage(info.persisted);
        rows.add_row([&id, &lines, &columns, &terms, &size, stored, &info.label]);
    }
    ui.print(&format!("{rows}\n"))
}

fn numbers(info: &MatrixInfo) -> [u32; 3] {
    [info.shape.rows, info.shape.columns, info.shape.terms]
}

pub fn matrix_as_json(info: &MatrixInfo) -> Value {
    let [rows, columns, terms] = numbers(info);
    json!({
        "kind": "matrix", "id": info.id.to_string(), "rows": rows, "columns": columns,
        "terms": terms, "coefficients": info.shape.coefficients, "bytes": info.bytes,
        "persisted": info.persisted, "label": info.label, "created_s": info.created_s,
    })
}

pub fn matrix_as_text(info: &MatrixInfo) -> String {
    let [lines, columns, terms] = numbers(info).map(|number| number.to_string());
    let mut rows = table(["matrix", &info.id.to_string()]);
    rows.add_row(["rows", &lines]);
    rows.add_row(["columns", &columns]);
    rows.add_row(["terms", &terms]);
    rows.add_row(["stored coefficients", &info.shape.coefficients.to_string()]);
    rows.add_row(["size", &bytes_text(info.bytes)]);
    rows.add_row(["stored", storage(info.persisted)]);
    rows.add_row(["label", &info.label]);
    rows.add_row(["created", &utc(info.created_s)]);
    format!("{rows}\n")
}

fn storage(is_persisted: bool) -> &'static str {
    if is_persisted { "on disk" } else { "in memory" }
}

/// The last second of the year 9999: later times cannot be formatted.
const UNIX_S_MAX: i64 = 253_402_300_799;

/// `2026-11-21 12:33:15 UTC`.
fn utc(unix_s: i64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(unix_s.clamp(0, UNIX_S_MAX).unsigned_abs());
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(utc(1_767_225_600), "2026-01-01 00:00:00 UTC");
        assert_eq!(utc(i64::MAX), "9999-12-31 23:59:59 UTC");
    }
}
