//! Where an air is: a port on this machine, and a token that keeps it apart from the next air on that port.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::wire::Token;

/// The address of a hub, written `127.0.0.1:40123/0123456789abcdef`. It is on loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubAddress {
    socket: SocketAddr,
    token: Token,
}

/// Why a text is no address of a hub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubAddressError {
    /// Not of the form.
    #[error("`{0}` is no simulated air: an address like `127.0.0.1:40123/0123456789abcdef` was needed")]
    Form(String),
    /// Another machine, or one that others can reach.
    #[error("`{0}` is no simulated air: it must be on this machine, at 127.0.0.1 or [::1]")]
    NotLoopback(String),
}

impl HubAddress {
    pub(super) fn new(socket: SocketAddr, token: Token) -> Option<Self> {
        socket.ip().is_loopback().then_some(Self { socket, token })
    }

    pub(super) const fn socket(self) -> SocketAddr {
        self.socket
    }

    pub(super) const fn token(self) -> Token {
        self.token
    }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{:016x}", self.socket, self.token.0)
    }
}

impl FromStr for HubAddress {
    type Err = HubAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || HubAddressError::Form(text.escape_debug().take(MAX_REPEATED).collect());
        let (socket, token) = text.split_once('/').ok_or_else(form)?;
        let socket = socket.parse().map_err(|_| form())?;
        let is_token = token.len() == 16 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        let token = is_token.then(|| u64::from_str_radix(token, 16).ok()).flatten().ok_or_else(form)?;
        Self::new(socket, Token(token)).ok_or_else(|| HubAddressError::NotLoopback(text.to_owned()))
    }
}

/// How much of a bad address an error repeats.
const MAX_REPEATED: usize = 64;
