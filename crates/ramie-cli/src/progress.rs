//! Progress: a bar on a terminal; elsewhere a line per stage.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

const BAR_LENGTH: u64 = 1000;

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    last_line: String,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let bar = ProgressBar::new(BAR_LENGTH);
        let style = ProgressStyle::with_template("{bar:30.cyan/blue} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, last_line: String::new() }
    }

    /// Shows the share of the time that has passed, from 0 to 1, the stage, and a detail of it.
    pub(crate) fn show(&mut self, share: f64, stage: &str, detail: &str) {
        if self.bar.is_hidden() && stage != self.last_line {
            output::warn(stage);
        }
        self.bar.set_position((share * BAR_LENGTH as f64) as u64);
        self.bar.set_message(format!("{stage}, {detail}"));
        stage.clone_into(&mut self.last_line);
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
