//! Keys in files, and which mesh files a daemon believes.

mod key_files;
mod trust;
