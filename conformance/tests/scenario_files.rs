//! Scenarios of the user's own: what a file may say, and what is said of a wrong one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use conformance::progress::Progress;
use conformance::verify::{Cast, Kind, Settings, verify};

const SCENARIO: &str = include_str!("../../examples/alphabet/scenario.toml");

/// The files of the example, the scenario's with one change, in a folder that goes away again.
struct Copy(PathBuf);

impl Copy {
    fn with(name: &str, from: &str, to: &str) -> Self {
        assert!(SCENARIO.contains(from), "the example has `{from}`");
        let folder = std::env::temp_dir().join(format!("conform-{}-{name}", std::process::id()));
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/alphabet");
        fs::create_dir_all(&folder).unwrap();
        for file in ["vocabulary.toml", "policies.pilot"] {
            fs::copy(example.join(file), folder.join(file)).unwrap();
        }
        fs::write(folder.join("scenario.toml"), SCENARIO.replace(from, to)).unwrap();
        Self(folder)
    }

    fn settings(&self, kind: Kind) -> Settings {
        Settings::new(kind, Cast::Scenario(self.0.join("scenario.toml").to_string_lossy().into_owned()))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_of_ones_own_is_verified() {
    let own = Copy::with("own", "\"google-ads\"", "\"google-analytics\", \"google-ads\"");
    for kind in [Kind::Abstract, Kind::Direct, Kind::Indirect] {
        let report = verify(&own.settings(kind), &Progress::default()).unwrap();
        assert_eq!(report.exit_code(), 0, "{report}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_place() {
    for (name, from, to, said) in [
        ("device", "device = \"phone\"", "device = \"phome\"", "unknown device `phome`; did you mean `phone`?"),
        ("policy", "[\"google-ads\"]", "[\"google-add\"]", "unknown policy `google-add`; did you mean `google-ads`?"),
        ("twice", "device = \"google-server\"", "device = \"alphabet-server\"", "`alphabet-server` takes part already"),
        ("time", "\"2026-01-01\"", "\"soon\"", "`soon` is no time"),
        ("times", "\"2028-01-01\"", "\"2025-01-01\"", "times go forward"),
        ("field", "repository =", "depository =", "unknown field `depository`"),
        ("registry", "\"registry\"", "\"regstry\"", "unknown device `regstry`; did you mean `registry`?"),
        (
            "none",
            "own = [[\"analytics-only\"], [\"analytics-within-the-group\"]]",
            "own = []",
            "a scenario has 1 to 16 sets",
        ),
        (
            "value",
            "own = [[\"analytics-only\"]",
            "values = { agee = 3 }\nown = [[\"analytics-only\"]",
            "unknown attribute or item `agee`",
        ),
        ("party", "\"registry\"", "\"phone\"", "`phone` takes part already"),
        ("toml", "[[subjects]]", "[[subjects]", "scenario.toml"),
        ("file", "policies.pilot", "politics.pilot", "politics.pilot"),
    ] {
        let wrong = Copy::with(name, from, to);
        let error = verify(&wrong.settings(Kind::Indirect), &Progress::default()).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    let without = Copy::with("without", "repository = \"registry\"\n", "");
    verify(&without.settings(Kind::Direct), &Progress::default()).unwrap();
    let error = verify(&without.settings(Kind::Indirect), &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("indirect communication needs a repository"), "{error}");
}

#[test]
fn a_file_without_end_is_refused() {
    let huge = Copy::with("huge", "# `conform", &format!("# {}\n# `conform", "x".repeat(1 << 20)));
    let error = verify(&huge.settings(Kind::Direct), &Progress::default()).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
}
