//! Writing a vocabulary as TOML, alone or as a table of another file.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use super::file::Declarations;

impl Declarations {
    /// This vocabulary's file: one line per name, in the byte order of the names.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        // INVARIANT: writing to a `String` cannot fail.
        let result = self.write(&mut text, "");
        debug_assert!(result.is_ok());
        text
    }

    /// Writes this vocabulary's tables, the name of each after `prefix`.
    ///
    /// Names stand in quotes without escapes: there are only declarations whose names were checked.
    pub(crate) fn write(&self, out: &mut impl Write, prefix: &str) -> fmt::Result {
        if let Some(base) = &self.extends {
            writeln!(out, "extends = \"{}\"", base.as_ref())?;
        }
        let orders = [("entities", &self.entities), ("datatypes", &self.datatypes), ("purposes", &self.purposes)];
        for (title, section) in orders {
            if !section.is_empty() {
                writeln!(out, "\n[{prefix}{title}]")?;
            }
            for (name, parents) in section {
                let parents: Vec<String> =
                    parents.iter().map(|parent| alloc::format!("\"{}\"", parent.as_ref())).collect();
                writeln!(out, "\"{}\" = [{}]", name.as_ref(), parents.join(", "))?;
            }
        }
        for (title, section) in [("attributes", &self.attributes), ("devices", &self.devices)] {
            if !section.is_empty() {
                writeln!(out, "\n[{prefix}{title}]")?;
            }
            for (name, word) in section {
                writeln!(out, "\"{}\" = \"{}\"", name.as_ref(), word.as_ref())?;
            }
        }
        if !self.items.is_empty() {
            writeln!(out, "\n[{prefix}items]")?;
        }
        for (name, item) in &self.items {
            let (datatype, owner) = (item.r#type.as_ref(), item.owner.as_ref());
            writeln!(out, "\"{}\" = {{ type = \"{datatype}\", owner = \"{owner}\" }}", name.as_ref())?;
        }
        Ok(())
    }
}
