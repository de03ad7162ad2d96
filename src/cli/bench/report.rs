//! Samples as a table and as JSON.

use std::time::Duration;

use comfy_table::CellAlignment;
use serde_json::{Value, json};

use super::measure::{PHASES, Sample};
use crate::{
    client::Execution,
    output::{rate_text, stages_json, stages_text, table, time_text},
};

/// A table with one row per sample.
pub fn as_text(title: &str, samples: &[Sample]) -> String {
    let measures = ["size", "concurrency", "jobs", "min", "p50", "p90", "p99"];
    let rates = ["jobs/s", "elements/s"];
    let mut rows = table(measures.into_iter().chain(rates).chain(PHASES));
    rows.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for sample in samples {
        let mut row = vec![
            format!("2^{}", sample.lg_n),
            sample.concurrency.to_string(),
            sample.jobs().to_string(),
            time_text(sample.latency_min()),
        ];
        row.extend([0.5, 0.9, 0.99].map(|quantile| time_text(sample.latency(quantile))));
        row.push(rate_text(sample.jobs_per_s()));
        row.push(rate_text(sample.elements_per_s()));
        row.extend(sample.phase_means().map(time_text));
        rows.add_row(row);
    }
    let refused: u64 = samples.iter().map(|sample| sample.refused).sum();
    let note = if refused == 0 {
        String::new()
    } else {
        format!("the server was full {refused} times: those jobs were retried\n")
    };
    format!("{title}\n{rows}\n{note}every result was checked\n")
}

/// Engine, plan and stage times on the device for each size.
pub fn explanation(samples: &[Sample]) -> String {
    let mut text = String::new();
    for sample in samples {
        let Execution { engine, device, stages, .. } = sample.execution();
        let (lg_n, concurrency) = (sample.lg_n, sample.concurrency);
        text += &format!("2^{lg_n}, concurrency {concurrency}: {engine}, {device}");
        if !stages.is_empty() {
            text += &format!("; on the device {}", stages_text(&stages));
        }
        text.push('\n');
    }
    text
}

/// Times in microseconds.
pub fn as_json(title: &str, engine: &str, samples: &[Sample]) -> Value {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let as_json = |sample: &Sample| {
        let execution = sample.execution();
        let means = PHASES.iter().zip(sample.phase_means());
        let means = means.map(|(name, time)| (format!("{name}_us"), json!(us(time)))).collect();
        json!({
            "lg_n": sample.lg_n,
            "concurrency": sample.concurrency,
            "jobs": sample.jobs(),
            "refused": sample.refused,
            "wall_us": us(sample.wall()),
            "min_us": us(sample.latency_min()),
            "p50_us": us(sample.latency(0.5)),
            "p90_us": us(sample.latency(0.9)),
            "p99_us": us(sample.latency(0.99)),
            "max_us": us(sample.latency(1.0)),
            "jobs_per_s": sample.jobs_per_s(),
            "elements_per_s": sample.elements_per_s(),
            "phases_mean": Value::Object(means),
            "engine": execution.engine,
            "device": execution.device,
            "stages_mean": stages_json(&execution.stages),
        })
    };
    let samples: Vec<_> = samples.iter().map(as_json).collect();
    json!({ "title": title, "engine": engine, "samples": samples })
}
