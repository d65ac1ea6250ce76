//! Configurations that cannot be used, and the annotated example.

use std::fs;
use std::path::Path;

use ds_gateway::config::Config;
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::config::AirSetting;

use super::mesh::Mesh;

const AIR: &str = "127.0.0.1:45000/0000000000000000";

fn refusal(path: &Path) -> String {
    match Config::load(path) {
        Err(Failure::Configuration(sentence)) => sentence,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it can be used"),
    }
}

/// Each mistake is named with its file and its setting, on one line unless it shows a line of a policy.
#[test]
fn mistakes_are_named() {
    let mesh = Mesh::new();
    let good = fs::read_to_string(mesh.config(AIR, "")).unwrap();
    let path = mesh.path("ds-gateway.toml");
    Config::load(&path).unwrap();
    for (from, to, error) in [
        ("name = 'alice-phone'", "name = 'gate'", "`name`: `gate` is a device of the mesh"),
        ("name = 'alice-phone'", "name = 'alice phone'", "`name`: "),
        ("name = 'alice-phone'\n", "", "missing field `name`"),
        ("name = 'alice-phone'", "nome = 'a'\nname = 'alice-phone'", "unknown field `nome`"),
        ("['alice.pilot']", "[]", "`policies`: name at least one file with policies"),
        ("['alice.pilot']", "['bob.pilot']", "`policies`: cannot read `"),
        ("file = 'mesh.toml'", "file = 'other.toml'", "`mesh.file`: cannot read `"),
        ("operator = 'ed25519:", "operator = 'ed25519:00", "`mesh.operator`: "),
        (
            "[mesh]",
            "repository = 'gate'\n[mesh]",
            "`repository`: the mesh file lists `gate` as a controller, not as a repository",
        ),
        ("[mesh]", "rotation_seconds = 0\n[mesh]", "`rotation_seconds`: must be at least 1"),
        ("[mesh]", "rotation_seconds = 11\n[mesh]", "`rotation_seconds`: must be at most 10"),
        ("[mesh]", "answer_seconds = 1801\n[mesh]", "`answer_seconds`: must be at most 1800"),
        ("[mesh]", "frame = 'worst'\n[mesh]", "unknown variant `worst`"),
        ("c0:ff:ee:00:00:01", "c1:de:ca:fe:00", "`item.address`: an address has six pairs"),
        (
            "[item]",
            "[item]\ndatatype = 'MACAdress'",
            "`item.datatype`: the mesh's vocabulary has no such datatype; did you mean `MACAddress`?",
        ),
        ("age = 34", "age = 'old'", "`attributes`: the value of `age` is no number"),
        ("url = 'mqtt:", "url = 'http:", "`broker`: "),
        ("simulated = '127", "simulated = 'x127", "`air`: "),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        fs::write(&path, text).unwrap();
        let sentence = refusal(&path);
        assert!(sentence.contains(error) && sentence.contains("ds-gateway.toml"), "{error}: {sentence}");
        assert!(!sentence.contains('\n') && !sentence.contains("c1:de"), "{sentence}");
    }
    fs::write(&path, &good).unwrap();
    mesh.write_policies("// nothing here");
    assert!(refusal(&path).contains("there is no policy in it"));
    mesh.write_policies("policy p { collect MACAddress by mal for Advertising until 2036-01-01 }");
    assert!(refusal(&path).contains("did you mean `mall`?"));
    assert!(!mesh.path("alice").exists(), "looking at a configuration leaves nothing behind");
}

/// The annotated example has every setting, each with its default.
#[test]
fn the_example_can_be_used() {
    let mesh = Mesh::new();
    let generated = fs::read_to_string(mesh.config(AIR, "")).unwrap();
    let operator = generated.lines().find(|line| line.starts_with("operator")).unwrap();
    let example = include_str!("../../../examples/daemons/ds-gateway.toml");
    let path = mesh.path("example.toml");
    let with_key: Vec<&str> =
        example.lines().map(|line| if line.starts_with("operator") { operator } else { line }).collect();
    fs::write(&path, with_key.join("\n")).unwrap();
    let plain = Config::load(&path).unwrap();

    // With every commented setting of the top part in force, nothing changes.
    let uncommented = with_key.iter().map(|line| {
        let setting = line.strip_prefix("# ").filter(|rest| rest.contains(" = ") && !rest.starts_with("repository"));
        // What is indented is another choice, not a default.
        let is_default = |rest: &&str| !rest.contains("_file") && !rest.starts_with("user") && !rest.starts_with(' ');
        setting.filter(is_default).unwrap_or(line)
    });
    fs::write(&path, uncommented.collect::<Vec<_>>().join("\n")).unwrap();
    let explicit = Config::load(&path).unwrap();
    assert_eq!((plain.timing, plain.frame), (explicit.timing, explicit.frame));
    assert_eq!((plain.air, plain.datatype), (explicit.air, explicit.datatype));
}

/// With a Bluetooth adapter the item is its address, unless the configuration insists on one. Nobody asks the adapter yet.
#[test]
fn bluetooth_needs_no_address() {
    let mesh = Mesh::new();
    let path = mesh.config(AIR, "");
    let simulated = fs::read_to_string(&path).unwrap();
    let air = simulated.lines().find(|line| line.starts_with("simulated")).unwrap();
    let address = simulated.lines().find(|line| line.starts_with("address")).unwrap();
    let bluez = simulated.replace(air, "bluez = \"hci0\"");
    fs::write(&path, &bluez).unwrap();
    let config = Config::load(&path).unwrap();
    assert!(matches!(&config.air, AirSetting::Bluez(settings) if settings.adapter.as_str() == "hci0"));
    assert!(config.address.is_some());
    assert_eq!(config.timing.rotation, 2);
    fs::write(&path, bluez.replace(address, "")).unwrap();
    assert_eq!(Config::load(&path).unwrap().address, None);
    fs::write(&path, simulated.replace(address, "")).unwrap();
    assert!(refusal(&path).contains("in a simulated air, the address must be said"));
    fs::write(&path, simulated.replace(air, "")).unwrap();
    assert!(refusal(&path).contains("either `bluez` names an adapter, or `simulated` an air"));
    fs::write(&path, simulated.replace(air, &format!("{air}\nbluez = \"hci0\""))).unwrap();
    assert!(refusal(&path).contains("either `bluez` names an adapter, or `simulated` an air"));
}
