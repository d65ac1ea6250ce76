//! The binary `conform`, as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

fn conform(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conform")).args(arguments).output().unwrap()
}

/// Verdicts on standard output, as text and as JSON.
#[test]
fn verify_prints_its_verdicts() {
    let output = conform(&["verify", "abstract"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("requirement-1  holds\n") && text.contains("988 states"), "{text}");

    let output = conform(&["verify", "abstract", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdicts"]["requirement-1"], "holds");
    assert_eq!((json["model"].as_str(), json["states"].as_u64()), (Some("abstract"), Some(988)));
}

/// Bad input: one sentence, exit 2, nothing on standard output.
#[test]
fn bad_input_is_refused_with_a_sentence() {
    for (arguments, sentence) in [
        (&["--controllers", "0"][..], "error: a model has 1 to 16 controllers\n"),
        (&["--policies", "1000000"][..], "error: a model has 1 to 16 policies\n"),
        (&["--order", "p1<p2,p2<p1"][..], "error: the order is cyclic: p1 < p1\n"),
        (&["--order", "p1<p7"][..], "error: the order names `p7`, but the policies are p1 to p3\n"),
    ] {
        let output = conform(&[&["verify", "direct"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), sentence);
        assert!(output.stdout.is_empty());
    }
    assert_eq!(conform(&["verify", "sideways"]).status.code(), Some(2));
}
