//! What settings are refused with, before anything is connected.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use mesh_runtime::link::mqtt::{MAX_PASSWORD_BYTES, Settings, SettingsError};
use tempfile::TempDir;

use crate::support::{Authority, secret_file};

fn at(url: &str) -> Settings {
    Settings { url: url.to_owned(), ..Settings::default() }
}

/// Both schemes, default ports, names, IPv4 and IPv6.
#[test]
fn addresses_are_read() {
    for (url, expected) in [
        ("mqtt://broker.example", "Endpoint(mqtt://broker.example:1883)"),
        ("mqtt://broker.example:99/", "Endpoint(mqtt://broker.example:99)"),
        ("mqtt://127.0.0.1:1884", "Endpoint(mqtt://127.0.0.1:1884)"),
        ("mqtt://[::1]", "Endpoint(mqtt://::1:1883)"),
        ("mqtt://[::1]:7", "Endpoint(mqtt://::1:7)"),
    ] {
        assert_eq!(format!("{:?}", at(url).load().unwrap()), expected, "{url}");
    }
}

/// Anything else is refused and repeated; a URL with a user or password in it is refused and not repeated.
#[test]
fn wrong_addresses_are_refused() {
    for url in [
        "",
        "broker",
        "http://broker",
        "mqtt://",
        "mqtt://:1883",
        "mqtt://a:b",
        "mqtt://a:1:2",
        "mqtt://a/b",
        "mqtt://a:70000",
        "mqtt://[::1",
        "mqtt://[::1]7",
        "mqtt://a b",
        "MQTT://a",
    ] {
        let error = at(url).load().unwrap_err();
        assert!(matches!(&error, SettingsError::Url(shown) if shown == url), "{error}");
    }
    let error = at("mqtt://shop:battery-staple@broker").load().unwrap_err();
    assert!(matches!(error, SettingsError::SecretInUrl));
    assert!(!format!("{error} {error:?}").contains("staple"), "{error}");
}

/// Settings that belong together come together; files for TLS without TLS are a mistake, not decoration.
#[test]
fn half_settings_are_refused() {
    let directory = TempDir::new().unwrap();
    let authority = secret_file(directory.path(), "ca.pem", &Authority::new("any").pem());
    let file = Some(authority.clone());
    let cases = [
        (Settings { user: Some("shop".into()), ..at("mqtt://a") }, "`user` needs `password_file`"),
        (Settings { password_file: file.clone(), ..at("mqtt://a") }, "`password_file` needs `user`"),
        (at("mqtts://a"), "`mqtts://` needs `authority_file`"),
        (
            Settings { authority_file: file.clone(), ..at("mqtt://a") },
            "`authority_file` is of use with `mqtts://` only",
        ),
        (Settings { key_file: file.clone(), ..at("mqtt://a") }, "`key_file` is of use with `mqtts://` only"),
        (
            Settings { authority_file: file.clone(), certificate_file: file.clone(), ..at("mqtts://a") },
            "`certificate_file` needs `key_file`",
        ),
        (
            Settings { authority_file: file.clone(), key_file: file.clone(), ..at("mqtts://a") },
            "`key_file` needs `certificate_file`",
        ),
    ];
    for (settings, expected) in cases {
        assert_eq!(settings.load().unwrap_err().to_string(), expected);
    }
    assert!(Settings { authority_file: file, ..at("mqtts://a") }.load().is_ok());
}

/// Files with secrets must be closed to group and others, passwords and keys alike.
#[test]
fn open_secrets_are_refused() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new("any");
    let (certificate, key) = authority.issue("shop");
    let password_file = secret_file(directory.path(), "password", "battery staple");
    let key_file = secret_file(directory.path(), "key", &key);
    let settings = Settings {
        url: "mqtts://127.0.0.1".to_owned(),
        user: Some("shop".to_owned()),
        password_file: Some(password_file.clone()),
        authority_file: Some(secret_file(directory.path(), "ca", &authority.pem())),
        certificate_file: Some(secret_file(directory.path(), "certificate", &certificate)),
        key_file: Some(key_file.clone()),
    };
    assert!(settings.load().is_ok());
    for file in [&password_file, &key_file] {
        for mode in [0o640, 0o604, 0o620, 0o644, 0o601] {
            fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
            let error = settings.load().unwrap_err();
            assert!(matches!(&error, SettingsError::Open { path, mode: shown } if path == file && *shown == mode));
            assert!(!format!("{error} {error:?}").contains("staple"), "{error}");
        }
        fs::set_permissions(file, Permissions::from_mode(0o400)).unwrap();
        assert!(settings.load().is_ok());
    }
}

/// Missing, empty, oversized and wrong files are refused with their name and without their content.
#[test]
fn wrong_files_are_refused() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, content: &str| Some(secret_file(directory.path(), name, content));
    let with_password = |file| Settings { user: Some("shop".into()), password_file: file, ..at("mqtt://a") };
    let missing = Some(directory.path().join("missing"));
    let authority = Authority::new("any");
    let (certificate, _) = authority.issue("shop");
    let (_, foreign_key) = authority.issue("shop");
    let with_key = |name: &str, key: &str| Settings {
        authority_file: write("ca", &authority.pem()),
        certificate_file: write("certificate", &certificate),
        key_file: write(name, key),
        ..at("mqtts://a")
    };
    let cases = [
        (with_password(missing), "missing`: No such file"),
        (with_password(write("empty", "\n")), "empty` holds no password"),
        (with_password(write("long", &"staple".repeat(MAX_PASSWORD_BYTES))), "long` is too long"),
        (Settings { authority_file: write("none", ""), ..at("mqtts://a") }, "none` holds no certificate"),
        (with_key("garbage", "staple"), "garbage` holds no key in PEM"),
        (with_key("foreign", &foreign_key), "foreign` does not hold the key of the certificate"),
    ];
    for (settings, expected) in cases {
        let error = settings.load().unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("staple"), "{error}");
    }
}
