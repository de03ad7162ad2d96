//! `capstan bases list`.

use serde_json::Value;

use super::{matrix_report, report};
use crate::{
    client::{BasesInfo, MatrixInfo},
    exit::Result,
    output::Ui,
};

/// Prints all objects: one list as JSON, or a table for each kind.
pub fn print_list(ui: Ui, bases: &[BasesInfo], matrices: &[MatrixInfo]) -> Result<()> {
    if ui.json {
        let bases = bases.iter().map(report::as_json);
        let all = bases.chain(matrices.iter().map(matrix_report::as_json));
        return ui.print_json(&all.collect::<Value>());
    }
    if bases.is_empty() && matrices.is_empty() {
        ui.note("no bases: import some with `capstan bases import`");
    }
    if !bases.is_empty() {
        report::print_table(ui, bases)?;
    }
    if !matrices.is_empty() {
        matrix_report::print_table(ui, matrices)?;
    }
    Ok(())
}
