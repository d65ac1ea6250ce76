//! What the emulated controllers wrote down: the format is in [`crate::radio::air::Air`].

use std::path::Path;

use mesh_runtime::air::advertisement::find;
use mesh_runtime::air::{Carrier, FrameBytes};

/// A line about a transmission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whether somebody sent or somebody heard it.
    pub is_sent: bool,
    /// Which controller; `None` for a beacon.
    pub controller: Option<usize>,
    /// Whether the address is a random one.
    pub is_random: bool,
    /// The address, as people write it.
    pub address: [u8; 6],
    /// Whether it was in the form of Bluetooth 4.
    pub is_legacy: bool,
    /// Advertising data.
    pub data: Vec<u8>,
    /// The mark that was last set before.
    pub mark: String,
}

/// Reads a log; what is no transmission is left out.
pub fn read(log: &Path) -> std::io::Result<Vec<Line>> {
    let text = std::fs::read_to_string(log)?;
    let mut mark = String::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [_, "order", "mark", name, "ok"] => mark = name.trim_end_matches(':').to_owned(),
            [_, what @ ("sent" | "heard"), controller, kind, address, form, data, _response] => lines.push(Line {
                is_sent: *what == "sent",
                controller: controller.parse().ok(),
                is_random: *kind == "random",
                address: bytes(&address.replace(':', "")).try_into().expect("an address"),
                is_legacy: *form == "legacy",
                data: bytes(data),
                mark: mark.clone(),
            }),
            _ => {}
        }
    }
    Ok(lines)
}

fn bytes(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).unwrap_or_default() as u8;
    text.trim_matches('-').as_bytes().chunks_exact(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

impl Line {
    /// The frame in it, if it has one.
    pub fn frame(&self) -> Option<FrameBytes> {
        find(Carrier::default(), &self.data).ok().flatten()
    }

    /// The first byte of the frame: version and kind.
    pub fn frame_kind(&self) -> Option<u8> {
        self.frame()?.as_slice().first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "0.1 order mark one: ok\n0.2 sent 3 public 00:aa:01:00:00:03 legacy 02010605ffffff1101 -\n0.3 unknown 1 2036\n";
        std::fs::write(&file, text).unwrap();
        let lines = read(file.path()).unwrap();
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!((line.is_sent, line.controller, line.is_random, line.is_legacy), (true, Some(3), false, true));
        assert_eq!((line.address, line.mark.as_str()), ([0, 0xaa, 1, 0, 0, 3], "one"));
        assert_eq!(line.frame().unwrap().as_slice(), [0x11, 0x01]);
    }
}
