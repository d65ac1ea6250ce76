//! Bad configurations are refused with one sentence that names file and setting.

use std::fs;
use std::path::Path;

use dc_gateway::config::Config;
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::config::data_directory;

use super::support::{LONG, Place, SHORT};

fn refusal(place: &Place) -> String {
    match place.load() {
        Err(Failure::Configuration(sentence)) => sentence,
        Err(Failure::Runtime(sentence)) => panic!("not a matter of configuration: {sentence}"),
        Ok(_) => panic!("accepted"),
    }
}

#[tokio::test]
async fn bad_settings_are_named() {
    let place = Place::new().await;
    place.load().unwrap();
    let (path, good) = (place.path("gate.toml"), fs::read_to_string(place.path("gate.toml")).unwrap());
    let operator = good.split("operator = \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let air = place.air.address().to_string();
    for (good_part, bad_part, wanted) in [
        ("device = \"gate\"", "device = \"gatte\"", "`device`: the mesh file does not list a controller `gatte`"),
        (
            "device = \"gate\"",
            "device = \"registry\"",
            "`device`: the mesh file lists `registry` as a repository, not as a controller",
        ),
        ("gate.keys", "missing.keys", "`keys`: "),
        ("gate.pilot", "missing.pilot", "`policy`: cannot read"),
        ("policy = ", "datatype = \"MACAdress\"\npolicy = ", "`datatype`: the mesh's vocabulary has no such datatype"),
        ("policy = ", "datatype = \"Age\"\npolicy = ", "`policy`: the policy is about MACAddress"),
        ("policy = ", "statement_days = 0\npolicy = ", "`statement_days`: must be from 1 to 3650"),
        ("policy = ", "compact_seconds = 0\npolicy = ", "`compact_seconds`: must be from 1"),
        ("policy = ", "repository = \"gate\"\npolicy = ", "`repository`: the mesh file lists `gate` as a controller"),
        ("policy = ", "policy_name = \"wide\"\npolicy = ", "`policy`: "),
        ("policy = ", "address = \"c0:ff\"\npolicy = ", "`address`: an address has six pairs"),
        ("policy = ", "colour = \"red\"\npolicy = ", "line 4: unknown field `colour`"),
        ("mesh.toml", "missing.toml", "`mesh.file`: cannot read"),
        (operator.as_str(), "ed25519:00", "`mesh.operator`: "),
        ("mqtt://", "http://", "`broker`: a broker is given as"),
        (air.as_str(), "example.org:1/00", "`air`: "),
    ] {
        assert!(good.contains(good_part), "{good_part}");
        fs::write(&path, good.replacen(good_part, bad_part, 1)).unwrap();
        let sentence = refusal(&place);
        assert!(sentence.contains(wanted), "{bad_part}: {sentence}");
        assert!(sentence.contains("gate.toml"), "{sentence}");
    }
}

#[tokio::test]
async fn bad_policies_are_named() {
    let place = Place::new().await;
    for (text, wanted) in [
        (String::new(), "has 0 policies; say with `policy_name`"),
        (format!("{LONG}\n{SHORT}"), "has 2 policies; say with `policy_name`"),
        ("policy none { nothing }".into(), "`nothing` is not published"),
        (LONG.replace("by mall", "by registrar"), "the policy is for registrar, of which mall"),
        (LONG.replace("by mall", "by maul"), "mall"),
    ] {
        place.write_policy(&text);
        let sentence = refusal(&place);
        assert!(sentence.contains(wanted), "{text}: {sentence}");
    }
    place.write_policy(&format!("{LONG}\n{SHORT}"));
    let path = place.path("gate.toml");
    let named = fs::read_to_string(&path).unwrap().replace("policy = ", "policy_name = \"short\"\npolicy = ");
    fs::write(&path, named).unwrap();
    let policy = place.load().unwrap().policy;
    assert_eq!(policy.collection().usage.retention(), super::support::after(600));
}

/// A configuration of somebody else's keys, and one that is open to others.
#[tokio::test]
async fn keys_must_be_ours() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new().await;
    let keys = place.path("gate.keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&place).contains("`keys`: "));
    fs::remove_file(&keys).unwrap();
    mesh_runtime::keys::SecretKeys::create(&keys).unwrap();
    let sentence = refusal(&place);
    assert!(sentence.contains("lists other keys for `gate`"), "{sentence}");
}

/// The annotated example has every setting: with all comments opened, it is understood.
#[test]
fn the_example_is_understood() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/daemons/dc-gateway.toml");
    let text = fs::read_to_string(&example).unwrap();
    let setting = |line: &str| {
        let Some(rest) = line.strip_prefix("# ") else { return line.to_owned() };
        let is_setting = rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' '));
        if is_setting { rest.to_owned() } else { line.to_owned() }
    };
    let directory = tempfile::tempdir().unwrap();
    for text in [text.clone(), text.lines().map(|line| setting(line) + "\n").collect::<String>()] {
        let path = directory.path().join("dc-gateway.toml");
        fs::write(&path, &text).unwrap();
        assert_eq!(data_directory(&path).unwrap(), directory.path().join("mall-gate-data"));
        // All that is missing are the files.
        let error = Config::load(&path).expect_err("no keys").to_string();
        assert!(error.contains("`keys`: "), "{error}");
    }
    assert!(text.contains("# [applications]") && text.contains("# statement_days = 90"));
}

/// The program says it in one line, and by its exit code.
#[tokio::test]
async fn exit_codes_tell() {
    use std::process::Command;
    let place = Place::new().await;
    let run = |arguments: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_dc-gateway")).args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (program.status.code().unwrap(), text(program.stdout), text(program.stderr))
    };
    let config = place.path("gate.toml");
    let config = config.to_str().unwrap();
    let (code, said, _) = run(&["run", "--config", config, "--check-config"]);
    assert_eq!((code, said.as_str()), (0, "the configuration is good\n"));
    assert!(!place.data().exists(), "and nothing is written");
    let (code, _, said) = run(&["status", "--config", config]);
    assert!(code == 1 && said.contains("is it running?"), "{code} {said}");
    assert_eq!(run(&["--help"]).0, 0);
    assert_eq!(run(&["dance"]).0, 64);
    place.write_policy("policy none { nothing }");
    let (code, _, said) = run(&["run", "--config", config, "--check-config"]);
    assert!(code == 64 && said.lines().count() == 1, "{code} {said}");
}
