//! The table of figures.

use std::fmt;
use std::time::Duration;

/// Figures, in the order in which they were measured.
#[derive(Debug, Default)]
pub struct Report(Vec<Row>);

#[derive(Debug)]
struct Row {
    what: String,
    figure: String,
    goal: Option<(String, bool)>,
}

impl Report {
    /// A figure without a goal.
    pub fn say(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.0.push(Row { what: what.into(), figure: figure.into(), goal: None });
    }

    /// A figure with a goal, which is met or not.
    pub fn judge(&mut self, what: impl Into<String>, figure: impl Into<String>, goal: impl Into<String>, is_met: bool) {
        self.0.push(Row { what: what.into(), figure: figure.into(), goal: Some((goal.into(), is_met)) });
    }

    /// Whether every goal is met.
    pub fn is_good(&self) -> bool {
        self.0.iter().all(|row| row.goal.as_ref().is_none_or(|(_, is_met)| *is_met))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = |of: fn(&Row) -> &str| self.0.iter().map(|row| of(row).chars().count()).max().unwrap_or_default();
        let (what, figure) = (wide(|row| &row.what), wide(|row| &row.figure));
        for row in &self.0 {
            write!(out, "{:what$}  {:>figure$}", row.what, row.figure)?;
            match &row.goal {
                Some((goal, true)) => writeln!(out, "  goal: {goal}")?,
                Some((goal, false)) => writeln!(out, "  goal: {goal}: MISSED")?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }
}

/// Times of something that was done again and again.
#[derive(Debug)]
pub struct Times(Vec<Duration>);

impl Times {
    /// At least one.
    pub fn new(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable();
        Self(times)
    }

    /// The time that so many of a hundred did not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

/// In the unit that suits it.
pub fn time(time: Duration) -> String {
    match time.as_micros() {
        0..10_000 => format!("{} µs", time.as_micros()),
        10_000..1_000_000 => format!("{} ms", time.as_millis()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// In millions of bytes.
pub fn memory(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
