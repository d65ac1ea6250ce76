//! `consent-mesh air decode`: a recorded advertisement in words.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use mesh_runtime::air::Carrier;
use mesh_runtime::air::advertisement::{MAX_ADVERTISEMENT_BYTES, find};
use mesh_runtime::daemon::config::parse_address;

use super::{CarrierArguments, Names, words};
use crate::console::{Answer, Console, Failure};
use crate::input;

#[derive(Debug, Args)]
#[command(after_help = "\
The advertisement is what a radio sends: structures of a length, a type and data, as btmon shows it. docs/frame.md has the \
bytes.

Examples:
  consent-mesh air decode 1bffffff116d616c6c601ebef19405185d5b775410ab66c5b8c36f62
  consent-mesh air decode --address c0:ff:ee:12:34:56 --mesh mesh.toml HEX

Exit codes: 0 a frame, 1 no frame, 2 errors.")]
pub(crate) struct Decode {
    /// The advertisement, in hexadecimal digits
    hex: String,
    #[command(flatten)]
    carrier: CarrierArguments,
    /// The address that it came from, to verify a signature
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// A mesh file, to show the names of controllers
    #[arg(long, value_name = "FILE")]
    mesh: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Decode, console: &mut Console) -> Result<Answer, Failure> {
    let air = |problem: &str| Failure::Air(problem.to_owned());
    let CarrierArguments { manufacturer, service } = &arguments.carrier;
    let carrier = Carrier::of(manufacturer.as_deref(), service.as_deref()).map_err(air)?;
    let address = arguments.address.as_deref().map(parse_address).transpose().map_err(air)?;
    let names = Names::read(arguments.mesh.as_deref())?;
    let bytes = bytes(&arguments.hex).ok_or_else(|| air("an advertisement has pairs of hexadecimal digits"))?;
    match find(carrier, &bytes) {
        Err(error) => writeln!(console, "no advertisement: {error}")?,
        Ok(None) => writeln!(console, "no frame: there is no {carrier} in it")?,
        Ok(Some(frame)) => {
            let words = words::frame(frame.as_slice(), address, input::clock(), &names);
            writeln!(console, "{words}")?;
            return Ok(if words.starts_with("no ") { Answer::No } else { Answer::Yes });
        }
    }
    Ok(Answer::No)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let is_hex = digits.len() <= 2 * MAX_ADVERTISEMENT_BYTES && digits.iter().all(u8::is_ascii_hexdigit);
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if is_hex && rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
