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
    let keys = ["parameters", "variant", "verdicts", "generated", "depth", "seconds", "peak_bytes", "untaken"];
    assert!(keys.iter().all(|key| json.get(key).is_some()), "{json}");
    assert_eq!(json["counterexample"], serde_json::json!([]));
    assert!(json["peak_bytes"].as_u64() > Some(1 << 20));
}

/// A variant needs no model: it is refuted on its own, and on another it is explored as asked.
#[test]
fn a_variant_is_refused() {
    let output = conform(&["verify", "--variant", "flipped-subsumption", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["variant"].as_str(), json["verdicts"]["refinement"].as_str()),
        (Some("flipped-subsumption"), Some("violated"))
    );
    let last = json["counterexample"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(last.starts_with("refinement: "), "{last}");

    // Without an order, p ⊑ q and q ⊑ p are the same.
    let output = conform(&["verify", "direct", "--order", "", "--variant", "flipped-subsumption"]);
    assert_eq!(output.status.code(), Some(0));
}

/// The pictures, plain and after a run.
#[test]
fn graph_draws() {
    let output = conform(&["graph", "repository", "--format", "mermaid"]);
    assert_eq!(output.status.code(), Some(0));
    let plain = String::from_utf8(output.stdout).unwrap();
    assert!(plain.contains("flowchart LR") && !plain.contains("taken"), "{plain}");
    let output = conform(&["graph", "repository", "--format", "mermaid", "--run"]);
    let marked = String::from_utf8(output.stdout).unwrap();
    assert!(marked.contains("uploadPolicy↓ taken") && marked.contains("withdrawPolicy↓ [S19] untaken"), "{marked}");
}

/// Bad input: one sentence, exit 2, nothing on standard output.
#[test]
fn bad_input_is_refused_with_a_sentence() {
    for (arguments, sentence) in [
        (&["--controllers", "0"][..], "error: a model has 1 to 16 controllers\n"),
        (&["--policies", "1000000"][..], "error: a model has 1 to 16 policies\n"),
        (&["--order", "p1<p2,p2<p1"][..], "error: the order is cyclic: p1 < p1\n"),
        (&["--order", "p1<p7"][..], "error: the order names `p7`, but the policies are p1 to p3\n"),
        (
            &["--scenario", "flight"][..],
            "error: unknown scenario `flight`: there are flights, alphabet, mall, and TOML files of your own\n",
        ),
        (
            &["--scenario", "no/such.toml"][..],
            "error: cannot read `no/such.toml`: No such file or directory (os error 2)\n",
        ),
    ] {
        let output = conform(&[&["verify", "direct"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), sentence);
        assert!(output.stdout.is_empty());
    }
    for usage in [&["verify", "sideways"][..], &["verify"], &["verify", "--variant", "no"], &["graph", "nothing"]] {
        let output = conform(usage);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{usage:?}");
    }
}
