//! Where a broker is and how to prove who we are: read from settings and files once, at the start.
//!
//! Secrets come from files only, the files must be closed to others, and no error or `Debug` output repeats what is in
//! them. To take a renewed certificate or password into use, start the daemon again.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rumqttc::tokio_rustls::rustls::pki_types::pem::PemObject;
use rumqttc::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rumqttc::tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use serde::Deserialize;
use thiserror::Error;

/// Longest password in bytes. A longer file is refused.
pub const MAX_PASSWORD_BYTES: usize = 4096;

/// Longest file of certificates or keys in bytes. A longer one is refused.
pub const MAX_CERTIFICATE_BYTES: usize = 1024 * 1024;

const PLAIN_PORT: u16 = 1883;
const SECURE_PORT: u16 = 8883;

/// What the configuration says about a broker: its section `[broker]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `mqtt://HOST[:PORT]`, or `mqtts://HOST[:PORT]` for TLS. Ports are 1883 and 8883 if not given.
    pub url: String,
    /// User name; needs `password_file`.
    pub user: Option<String>,
    /// File with the password, which nobody but its owner may read. One line end at its end is not part of it.
    pub password_file: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that we trust: needed for `mqtts`, where the authorities of the
    /// operating system are not asked.
    pub authority_file: Option<PathBuf>,
    /// PEM file with our own certificate and those that lead to the authority; needs `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// PEM file with the key of our own certificate, which nobody but its owner may read.
    pub key_file: Option<PathBuf>,
}

/// A broker that can be connected to: the address is well formed, the files have been read.
#[derive(Clone)]
pub struct Endpoint {
    host: String,
    port: u16,
    credentials: Option<(String, Bytes)>,
    tls: Option<Arc<ClientConfig>>,
}

/// Why settings do not make an endpoint. Never repeats a secret: a URL with a password in it is not repeated either.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// Not `mqtt://HOST[:PORT]` or `mqtts://HOST[:PORT]`.
    #[error("a broker is given as `mqtt://HOST:PORT` or `mqtts://HOST:PORT`, not as `{0}`")]
    Url(String),
    /// User name or password in the URL.
    #[error("the broker's URL must not contain a user name or password; use the settings for user and password file")]
    SecretInUrl,
    /// One of two settings that belong together is missing.
    #[error("`{given}` needs `{missing}`")]
    Incomplete {
        /// The setting that is there.
        given: &'static str,
        /// The setting that is not.
        missing: &'static str,
    },
    /// Settings for TLS with a URL that does not ask for it.
    #[error("`{0}` is of use with `mqtts://` only")]
    NotSecure(&'static str),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {error}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// A file with a secret is open to others.
    #[error("`{path}` holds a secret but has mode {mode:04o}; only its owner may have access (`chmod 600`)")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file is not what it should be.
    #[error("`{path}` {problem}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Settings {
    /// The same with other paths: those of a configuration file start where the file is.
    #[must_use]
    pub fn resolved(&self, resolve: impl Fn(&Path) -> PathBuf) -> Self {
        let path = |path: &Option<PathBuf>| path.as_deref().map(&resolve);
        Self {
            url: self.url.clone(),
            user: self.user.clone(),
            password_file: path(&self.password_file),
            authority_file: path(&self.authority_file),
            certificate_file: path(&self.certificate_file),
            key_file: path(&self.key_file),
        }
    }

    /// Reads the address and the files.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn load(&self) -> Result<Endpoint, SettingsError> {
        let (secure, host, port) = parse_url(&self.url)?;
        let credentials = self.credentials()?;
        let tls = if secure { Some(Arc::new(self.tls()?)) } else { self.refuse_tls().map(|()| None)? };
        if tls.is_none() && credentials.is_some() && !is_loopback(&host) {
            tracing::warn!("the broker's password crosses the network in the clear; `mqtts://` would protect it");
        }
        Ok(Endpoint { host, port, credentials, tls })
    }

    fn credentials(&self) -> Result<Option<(String, Bytes)>, SettingsError> {
        match (&self.user, &self.password_file) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(SettingsError::Incomplete { given: "user", missing: "password_file" }),
            (None, Some(_)) => Err(SettingsError::Incomplete { given: "password_file", missing: "user" }),
            (Some(user), Some(path)) => {
                let mut password = read_file(path, MAX_PASSWORD_BYTES, true)?;
                if password.ends_with(b"\n") {
                    password.pop();
                }
                if password.is_empty() {
                    return Err(content(path, "holds no password"));
                }
                Ok(Some((user.clone(), password.into())))
            }
        }
    }

    fn refuse_tls(&self) -> Result<(), SettingsError> {
        let given = [
            ("authority_file", &self.authority_file),
            ("certificate_file", &self.certificate_file),
            ("key_file", &self.key_file),
        ];
        match given.iter().find(|(_, path)| path.is_some()) {
            Some((name, _)) => Err(SettingsError::NotSecure(name)),
            None => Ok(()),
        }
    }

    fn tls(&self) -> Result<ClientConfig, SettingsError> {
        let Some(authority_file) = &self.authority_file else {
            return Err(SettingsError::Incomplete { given: "mqtts://", missing: "authority_file" });
        };
        let mut authorities = RootCertStore::empty();
        for certificate in read_certificates(authority_file)? {
            authorities.add(certificate).map_err(|_| content(authority_file, "holds a bad certificate"))?;
        }
        // The provider is named, so that nothing depends on which one a process installs as its default.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| content(authority_file, "cannot be used with this build's TLS"))?
            .with_root_certificates(authorities);
        match (&self.certificate_file, &self.key_file) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(_), None) => Err(SettingsError::Incomplete { given: "certificate_file", missing: "key_file" }),
            (None, Some(_)) => Err(SettingsError::Incomplete { given: "key_file", missing: "certificate_file" }),
            (Some(certificate_file), Some(key_file)) => {
                let chain = read_certificates(certificate_file)?;
                let bytes = read_file(key_file, MAX_CERTIFICATE_BYTES, true)?;
                let key =
                    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| content(key_file, "holds no key in PEM"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|_| content(key_file, "does not hold the key of the certificate"))
            }
        }
    }
}

impl Endpoint {
    /// A broker without TLS and password.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port(), credentials: None, tls: None }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn credentials(&self) -> Option<(String, Bytes)> {
        self.credentials.clone()
    }

    pub(super) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.clone()
    }
}

/// Says where, not with which secrets.
impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        write!(formatter, "Endpoint({scheme}://{}:{})", self.host, self.port)
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether TLS is wanted, the host, the port. Brackets around IPv6 addresses are taken off.
fn parse_url(url: &str) -> Result<(bool, String, u16), SettingsError> {
    if url.contains('@') {
        return Err(SettingsError::SecretInUrl);
    }
    let wrong = || SettingsError::Url(url.chars().filter(|character| !character.is_control()).take(100).collect());
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let (secure, default_port) = match scheme {
        "mqtt" => (false, PLAIN_PORT),
        "mqtts" => (true, SECURE_PORT),
        _ => return Err(wrong()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or_else(wrong)?)
        }
        None => rest.split_once(':').map_or((rest, ""), |(host, port)| (host, port)),
    };
    let host_fits = host.parse::<IpAddr>().is_ok()
        || (!host.is_empty()
            && host.chars().all(|character| character.is_ascii_alphanumeric() || "-._".contains(character)));
    if !host_fits {
        return Err(wrong());
    }
    let port = if port.is_empty() { default_port } else { port.parse().map_err(|_| wrong())? };
    Ok((secure, host.to_owned(), port))
}

fn content(path: &Path, problem: &'static str) -> SettingsError {
    SettingsError::Content { path: path.to_owned(), problem }
}

/// Reads a bounded file; a secret one must be closed to group and others. Permissions are those of the opened file, so
/// that nobody can exchange it between looking and reading.
fn read_file(path: &Path, limit: usize, secret: bool) -> Result<Vec<u8>, SettingsError> {
    let unreadable = |error| SettingsError::Unreadable { path: path.to_owned(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if secret && mode & 0o077 != 0 {
        return Err(SettingsError::Open { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(content(path, "is too long"));
    }
    Ok(bytes)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let bytes = read_file(path, MAX_CERTIFICATE_BYTES, false)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| content(path, "is not a PEM file of certificates"))?;
    if certificates.is_empty() {
        return Err(content(path, "holds no certificate"));
    }
    Ok(certificates)
}
