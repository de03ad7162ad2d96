//! Progress bars on standard error, if it is a terminal.

use std::{sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::Ui;
use crate::client::Progress;

const TICK: Duration = Duration::from_millis(120);
const BYTES: &str = "{msg:<24} {bar:30} {bytes:>10}/{total_bytes} {bytes_per_sec:>12} {eta:>4}";
const STEPS: &str = "{msg:<36} {bar:30} {pos}/{len} {elapsed}";
const SPINNER: &str = "{msg:<36} {spinner} {elapsed}";

/// A progress bar, or nothing if bars are not drawn. Removed when dropped.
pub struct TerminalProgress(ProgressBar);

impl TerminalProgress {
    pub fn bytes(ui: Ui, what: impl Into<String>, total: u64) -> Self {
        Self::new(ui, BYTES, what, Some(total))
    }

    pub fn steps(ui: Ui, what: impl Into<String>, total: u64) -> Self {
        Self::new(ui, STEPS, what, Some(total))
    }

    pub fn spinner(ui: Ui, what: impl Into<String>) -> Self {
        Self::new(ui, SPINNER, what, None)
    }

    fn new(ui: Ui, style: &str, what: impl Into<String>, total: Option<u64>) -> Self {
        if !ui.draws() {
            return Self(ProgressBar::hidden());
        }
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template(style).expect("the tests parse the template");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(what.into());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub fn add(&self, done: u64) {
        self.0.inc(done);
    }

    /// Sets how much of how much is done, from any thread.
    pub fn setter(&self) -> impl Fn(u64, u64) + Send + Sync + 'static {
        let bar = self.0.clone();
        move |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    pub fn set_message(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    pub fn callback(&self) -> Option<Progress> {
        let bar = self.0.clone();
        (!bar.is_hidden()).then_some(Arc::new(move |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            if done >= total {
                bar.set_message("waiting for the result");
            }
        }))
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for style in [BYTES, STEPS, SPINNER] {
            assert!(ProgressStyle::with_template(style).is_ok(), "{style}");
        }
    }
}
