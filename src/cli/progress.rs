//! Progress bars on standard error, where somebody looks at them.

use std::{sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::Ui;
use crate::client::Progress;

const TICK: Duration = Duration::from_millis(120);
const BYTES: &str = "{msg:<24} {bar:30} {bytes:>10}/{total_bytes} {bytes_per_sec:>12} {eta:>4}";
const STEPS: &str = "{msg:<36} {bar:30} {pos}/{len} {elapsed}";
const SPINNER: &str = "{msg:<36} {spinner} {elapsed}";

/// A bar, or nothing where nobody looks. Gone when dropped.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Bytes read, sent or received.
    pub fn bytes(ui: Ui, what: impl Into<String>, total: u64) -> Self {
        Self::new(ui, BYTES, what, Some(total))
    }

    /// A known number of steps.
    pub fn steps(ui: Ui, what: impl Into<String>, total: u64) -> Self {
        Self::new(ui, STEPS, what, Some(total))
    }

    /// Nobody knows how long.
    pub fn spinner(ui: Ui, what: impl Into<String>) -> Self {
        Self::new(ui, SPINNER, what, None)
    }

    fn new(ui: Ui, style: &str, what: impl Into<String>, total: Option<u64>) -> Self {
        if !ui.draws() {
            return Self(None);
        }
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template(style).expect("a constant that the tests read");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(what.into());
        bar.enable_steady_tick(TICK);
        Self(Some(bar))
    }

    /// So much more is done.
    pub fn add(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(done);
        }
    }

    /// Something else is done now.
    pub fn say(&self, what: impl Into<String>) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.into());
        }
    }

    /// For the client to call. When all is sent, the rest is the server's.
    pub fn callback(&self) -> Option<Progress> {
        let bar = self.0.clone()?;
        Some(Arc::new(move |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            if done >= total {
                bar.set_message("the server works");
            }
        }))
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_templates() {
        for style in [BYTES, STEPS, SPINNER] {
            assert!(ProgressStyle::with_template(style).is_ok(), "{style}");
        }
    }
}
