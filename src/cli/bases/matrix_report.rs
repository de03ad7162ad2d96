//! Metadata of matrices as tables and as JSON.

use serde_json::{Value, json};

use super::report::{storage, utc};
use crate::{
    client::MatrixInfo,
    exit::Result,
    output::{Ui, bytes_text, table},
};

/// Prints a table with full ids, so that they can be copied.
pub fn print_table(ui: Ui, all: &[MatrixInfo]) -> Result<()> {
    let mut rows = table(["id of matrix", "rows", "columns", "terms", "size", "stored", "label"]);
    for info in all {
        let [lines, columns, terms] = numbers(info).map(|number| number.to_string());
        let (id, size) = (info.id.to_string(), bytes_text(info.bytes));
        let stored = storage(info.persisted);
        rows.add_row([&id, &lines, &columns, &terms, &size, stored, &info.label]);
    }
    ui.print(&format!("{rows}\n"))
}

fn numbers(info: &MatrixInfo) -> [u32; 3] {
    [info.shape.rows, info.shape.columns, info.shape.terms]
}

pub fn as_json(info: &MatrixInfo) -> Value {
    let [rows, columns, terms] = numbers(info);
    json!({
        "kind": "matrix", "id": info.id.to_string(), "rows": rows, "columns": columns,
        "terms": terms, "coefficients": info.shape.coefficients, "bytes": info.bytes,
        "persisted": info.persisted, "label": info.label, "created_s": info.created_s,
    })
}

pub fn as_text(info: &MatrixInfo) -> String {
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
