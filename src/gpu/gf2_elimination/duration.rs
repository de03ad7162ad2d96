//! The modelled time of eliminations on a GPU, fitted to an H200 (`benches/experiments/gf2.md`).

use std::{ops::Range, time::Duration};

use super::strips::STRIP_COLUMNS;
use crate::device::DeviceLimits;

/// Finding the pivots of a panel, one after the other, and its launches.
const PANEL_NS: f64 = 40e3;
/// The search of a panel's pivots in 256 rows, on average: some panels need few of the rows.
const SEARCH_NS: f64 = 420.0;
const SEARCHED_ROWS: f64 = 256.0;
/// Adding the pivots of a panel to 256 columns of a row, by matrix instructions and by tables.
const LINE_NS: f64 = 0.015;
const LINE_BY_TABLES_NS: f64 = 0.16;

/// The number of panels of a matrix.
fn panel_count(columns: u64) -> u64 {
    columns.div_ceil(STRIP_COLUMNS.into())
}

/// The modelled time of some of the panels of a matrix of `of` panels.
pub fn panels_time(rows: u64, of: u64, panels: Range<u64>, limits: &DeviceLimits) -> Duration {
    let rows = rows as f64;
    let count = panels.end.saturating_sub(panels.start) as f64;
    // The first panel of these is added to the strips from itself on.
    let first = of.saturating_sub(panels.start) as f64;
    let lines = rows * count * (first - (count - 1.0).max(0.0) / 2.0).max(0.0);
    let search = PANEL_NS + rows / SEARCHED_ROWS * SEARCH_NS;
    let line = if limits.has_bit_products { LINE_NS } else { LINE_BY_TABLES_NS };
    let ns = count * search * limits.slower_clock() + lines * line * limits.slower_throughput();
    Duration::from_nanos(ns as u64)
}

/// The modelled time of the elimination of rows.
pub fn elimination_time(rows: u64, columns: u64, limits: &DeviceLimits) -> Duration {
    let panels = panel_count(columns);
    panels_time(rows, panels, 0..panels, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The panels of a matrix take as long one by one as all together.
    #[test]
    fn the_times_of_panels_add_up() {
        let limits = DeviceLimits::H200;
        let all = elimination_time(54_274, 43_577, &limits).as_secs_f64();
        let panels = panel_count(43_577);
        assert_eq!(panels, 171);
        let each = (0..panels).map(|at| panels_time(54_274, panels, at..at + 1, &limits));
        let sum: f64 = each.map(|time| time.as_secs_f64()).sum();
        assert!((sum / all - 1.0).abs() < 1e-3, "{sum} s, {all} s");
        // As measured on an H200: 31.4 ms.
        assert!((0.02..0.05).contains(&all), "{all} s");
        // By tables: 142 ms.
        let by_tables = DeviceLimits { has_bit_products: false, ..limits };
        let all = elimination_time(54_274, 43_577, &by_tables).as_secs_f64();
        assert!((0.1..0.2).contains(&all), "{all} s");
    }
}
