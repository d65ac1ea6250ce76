//! Keys in files, and which mesh files a daemon believes.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

mod key_files;
mod secret_files;
mod trust;
