//! The phases of a proof as SVG: one bar per phase, from its start to its end.

use std::time::Duration;

use plotters::{coord::Shift, prelude::*};

use super::phases::ProofPhase;
use crate::output::time_text;

const WIDTH: u32 = 1200;
const ROW_HEIGHT: u32 = 44;
/// Height of the title and the axis.
const FRAME_HEIGHT: u32 = 190;
const BAR: RGBColor = RGBColor(0, 114, 178);
const GRID: RGBColor = RGBColor(225, 225, 225);

type TimelineArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Needs at least one phase.
pub fn timeline(title: &str, phases: &[ProofPhase]) -> String {
    let mut svg = String::new();
    let size = (WIDTH, FRAME_HEIGHT + ROW_HEIGHT * phases.len() as u32);
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw(&area, title, phases).expect("drawing into a string does not fail");
    drop(area);
    svg
}

fn draw(
    area: &TimelineArea<'_>,
    title: &str,
    phases: &[ProofPhase],
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let total = phases.iter().map(|phase| phase.time).sum::<Duration>();
    let end = seconds(total).max(1e-6);
    let rows = phases.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 30))
        .margin(24)
        .margin_right(150)
        .x_label_area_size(70)
        .y_label_area_size(260)
        // The first phase is on top.
        .build_cartesian_2d(0.0..end, rows..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_labels(6)
        .x_label_formatter(&|at| time_text(Duration::from_secs_f64(at.max(0.0))))
        .x_desc("time since the start")
        .label_style(("sans-serif", 22))
        .axis_desc_style(("sans-serif", 24))
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .draw()?;
    let mut begin = 0.0;
    let font = ("sans-serif", 22).into_font();
    for (row, phase) in phases.iter().enumerate() {
        let row = row as f64;
        let until = begin + seconds(phase.time);
        let bar = Rectangle::new([(begin, row + 0.2), (until, row + 0.8)], BAR.filled());
        chart.draw_series(std::iter::once(bar))?;
        let (left, y) = chart.backend_coord(&(0.0, row + 0.25));
        area.draw_text(phase.name, &font.clone().color(&BLACK), (left - 250, y))?;
        let (x, y) = chart.backend_coord(&(until, row + 0.25));
        area.draw_text(&time_text(phase.time), &font.clone().color(&BLACK), (x + 8, y))?;
        begin = until;
    }
    area.present()?;
    Ok(())
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, us: u64) -> ProofPhase {
        ProofPhase { name, time: Duration::from_micros(us), work: String::new() }
    }

    /// With `CAPSTAN_PLOT=FILE.svg`, the test writes the plot to that file.
    #[test]
    fn draws_a_bar_and_its_time_for_each_phase() {
        let phases = [phase("read files", 1200), phase("compute", 7300), phase("verify", 900)];
        let svg = timeline("Groth16", &phases);
        if let Some(path) = std::env::var_os("CAPSTAN_PLOT") {
            std::fs::write(path, &svg).unwrap();
        }
        for text in ["Groth16", "read files", "compute", "7.30 ms", "900 us"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("fill=\"#0072B2\"").count(), 3);
    }

    #[test]
    fn plots_phases_that_took_no_time() {
        assert!(timeline("", &[phase("finish", 0)]).contains("finish"));
    }
}
