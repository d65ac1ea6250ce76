//! The command line: exit codes, and answers in words.

use std::process::{Command, Output};

use mesh_runtime::keys::SecretKeys;
use pilot_core::evidence::{AuditKey, Pseudonym, hex};

use super::mesh::Mesh;
use super::support::Neighbourhood;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_ds-gateway")).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// 0 for what can be done, 1 if no gateway runs, 64 for a bad configuration or command line, with one clear sentence.
#[test]
fn exit_codes_tell_whose_turn_it_is() {
    let mesh = Mesh::new();
    let path = mesh.config("127.0.0.1:45000/0000000000000000", "");
    let config = path.to_str().unwrap();
    let (code, said, _) = run(&["run", "--config", config, "--check-config"]);
    assert_eq!((code, said.ends_with("the configuration can be used\n")), (Some(0), true), "{said}");
    let (code, _, error) = run(&["status", "--config", config]);
    assert_eq!((code, error.contains("is it running?")), (Some(1), true), "{error}");
    mesh.config("127.0.0.1:45000/0000000000000000", "rotation_seconds = 0");
    let (code, _, error) = run(&["run", "--config", config, "--check-config"]);
    assert_eq!((code, error.lines().count()), (Some(64), 1), "{error}");
    assert!(error.contains("`rotation_seconds`: must be at least 1"), "{error}");
    assert_eq!(run(&["admit", "--config", config]).0, Some(64));
    assert_eq!(run(&["run", "--config", "/does/not/exist"]).0, Some(64));
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("Exit codes:") && help.contains("withdraw"), "{help}");
}

/// What people read.
#[tokio::test]
async fn answers_are_in_words() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    let config = world.mesh.path("ds-gateway.toml").to_str().unwrap().to_owned();
    let ask = async |command: &'static [&'static str]| {
        let config = config.clone();
        let all = move || run(&[command, &["--config", &config]].concat());
        let (code, said, error) = tokio::task::spawn_blocking(all).await.unwrap();
        assert_eq!(code, Some(0), "{error}");
        said
    };
    let said = ask(&["status"]).await;
    assert!(
        said.starts_with("connected; policies come from `registry`\n3 policies of controllers known, as of "),
        "{said}"
    );
    assert!(said.contains("\non the air, in turn: for gate (mall), till (bookshop)\n"), "{said}");
    let said = ask(&["decide"]).await;
    assert!(said.contains("gate (mall): yes: accepted under your `mall`, until 01/01/2036\n"), "{said}");
    assert!(said.contains("ads (advertiser): no: entity `advertiser` is not part of"), "{said}");
    let said = ask(&["withdraw", "--controller", "shop"]).await;
    assert!(said.starts_with("withdrawn from till (bookshop)\n"), "{said}");
    assert!(ask(&["status"]).await.contains("\nyou have withdrawn from: bookshop\n"));
    assert_eq!(
        ask(&["admit", "--controller", "till"]).await,
        "`bookshop` may have your data again, where your policies allow it\n"
    );
    assert_eq!(ask(&["reload"]).await, "2 policies of yours are in force\n");
    assert!(ask(&["status", "--json"]).await.starts_with('{'));
    gateway.stop().await;
}

/// What she gives an auditor: nothing before there is a trace, then what it takes to find her item in it.
#[tokio::test]
async fn an_opening_opens_her_trace() {
    let mut world = Neighbourhood::new().await;
    let path = world.mesh.config("127.0.0.1:45000/0000000000000000", "");
    let config = path.to_str().unwrap();
    let (code, said, error) = run(&["opening", "--config", config]);
    assert_eq!((code, said.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("has not run yet"), "{error}");

    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    gateway.stop().await;
    let (code, said, error) = run(&["opening", "--config", config]);
    assert_eq!(code, Some(0), "{error}");
    let opening: serde_json::Value = serde_json::from_str(&said).unwrap();
    let text = |name: &str| opening[name].as_str().unwrap().to_owned();
    assert_eq!(opening.as_object().unwrap().len(), 5);
    assert_eq!((text("device").as_str(), text("datatype").as_str()), ("alice-phone", "MACAddress"));
    assert_eq!(text("item"), "c0ffee000001");
    let keys = SecretKeys::load(&world.mesh.path("alice/keys")).unwrap();
    assert_eq!(text("signing_key"), keys.public().signing.to_string());
    let key = AuditKey::new(hex::decode(&text("audit_key")).unwrap().into());
    let pseudonym = Pseudonym::of(&hex::decode::<6>(&text("item")).unwrap(), &key);
    let trace = std::fs::read(world.mesh.path("alice/trace/trace-00000000.cborseq")).unwrap();
    assert!(trace.windows(32).any(|window| window == pseudonym.as_bytes()), "her item is in her trace");
    let (_, help, _) = run(&["opening", "--help"]);
    assert!(help.contains("your address") && help.contains("whom you trust"), "{help}");
}
