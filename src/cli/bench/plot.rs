//! Latency against size as SVG, both axes logarithmic.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use plotters::{coord::Shift, prelude::*};

use super::measure::Sample;

const SIZE: (u32, u32) = (1200, 760);
/// Distinct for colour-blind readers, too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a line of medians and a band up to p99 for each concurrency. Needs at least one sample.
pub fn latency(title: &str, samples: &[Sample]) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw(&area, title, samples).expect("drawing into a string does not fail");
    drop(area);
    svg
}

fn draw(
    area: &Area<'_>,
    title: &str,
    samples: &[Sample],
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let (x, y) = (sizes(samples), latencies(samples));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 32))
        .margin(24)
        .margin_right(48)
        .x_label_area_size(70)
        .y_label_area_size(120)
        .build_cartesian_2d(x.clone(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_labels((x.end - x.start) as usize + 1)
        .x_max_light_lines(1)
        .y_labels(12)
        .x_label_formatter(&|lg_n| power(*lg_n))
        .y_label_formatter(&|ms| milliseconds(*ms))
        .x_desc("elements")
        .y_desc("latency")
        .label_style(("sans-serif", 24))
        .axis_desc_style(("sans-serif", 26))
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(210, 210, 210))
        .draw()?;
    let concurrencies: BTreeSet<_> = samples.iter().map(|sample| sample.concurrency).collect();
    for (index, concurrency) in concurrencies.into_iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let series = || samples.iter().filter(|sample| sample.concurrency == concurrency);
        let line = |quantile| series().map(move |s| (s.lg_n as f64, ms(s.latency(quantile))));
        let upper: Vec<_> = line(0.99).collect();
        let band: Vec<_> = line(0.5).chain(upper.into_iter().rev()).collect();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.15))))?;
        chart
            .draw_series(LineSeries::new(line(0.5), colour.stroke_width(4)))?
            .label(format!("concurrency {concurrency}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 36, y)], colour.stroke_width(4)));
        chart.draw_series(line(0.5).map(|point| Circle::new(point, 7, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(24)
        .legend_area_size(52)
        .label_font(("sans-serif", 24))
        .background_style(WHITE.mix(0.9))
        .border_style(RGBColor(160, 160, 160))
        .draw()?;
    let note = "line: median; band: up to p99";
    let style = ("sans-serif", 22).into_font().color(&RGBColor(90, 90, 90));
    area.draw_text(note, &style, (SIZE.0 as i32 - 360, SIZE.1 as i32 - 52))?;
    area.present()?;
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Range of log2 of the sizes, with a margin at both ends.
fn sizes(samples: &[Sample]) -> Range<f64> {
    let all = || samples.iter().map(|sample| f64::from(sample.lg_n));
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    low - 0.5..high + 0.5
}

/// Range of latencies in milliseconds, extended by a factor of 1.5 at both ends: whole decades
/// would waste half of the plot.
fn latencies(samples: &[Sample]) -> Range<f64> {
    let low = samples.iter().map(|sample| ms(sample.latency(0.5))).fold(f64::MAX, f64::min);
    let high = samples.iter().map(|sample| ms(sample.latency(0.99))).fold(0.0, f64::max);
    low / 1.5..high * 1.5
}

/// `2¹⁰`; empty between integer exponents.
fn power(lg_n: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if (lg_n - lg_n.round()).abs() > 1e-6 {
        return String::new();
    }
    let digits = (lg_n.round() as u32).to_string();
    let raised = digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]);
    std::iter::once('2').chain(raised).collect()
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ..0.999 => format!("{:.0} us", ms * 1e3),
        ..999.0 => format!("{ms:.0} ms"),
        _ => format!("{:.0} s", ms / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::measure::tests::sample, *};

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for lg_n in 10..=18 {
            for concurrency in [1, 4, 16] {
                let us = (400 + (1 << lg_n) / 2) * (1 + u64::from(concurrency) / 2);
                samples.push(sample(lg_n, concurrency, &[us, us * 11 / 10, us * 14 / 10]));
            }
        }
        samples
    }

    /// With `CAPSTAN_PLOT=FILE.svg`, the test writes the plot to that file.
    #[test]
    fn draws_lines_bands_and_labels() {
        let svg = latency("MSM over G1, engine cpu", &samples());
        if let Some(path) = std::env::var_os("CAPSTAN_PLOT") {
            std::fs::write(path, &svg).unwrap();
        }
        for text in ["MSM over G1", "2¹⁰", "2¹⁸", "concurrency 16", "10 ms", "latency"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.matches("<polyline").count() >= 3);
        assert_eq!(svg.matches("<polygon").count(), 3);
    }

    #[test]
    fn plots_a_single_sample() {
        assert!(latency("", &[sample(12, 1, &[900])]).contains("2¹²"));
    }
}
