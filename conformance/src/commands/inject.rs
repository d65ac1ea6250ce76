//! `conform inject`.

use std::path::PathBuf;

use clap::Args;
use conformance::inject::{KINDS, Kind, inject};

use super::{CommandError, print};

/// Copy traces with one violation in them, to see that an audit finds it
///
/// Takes what `conform simulate` or `consent-mesh demo --keep` left behind and writes a copy with one violation of the
/// given kind, at a place that the seed chooses among all suitable ones. Changed traces are signed again with their devices'
/// keys, except for kinds that damage them. `expected.json` in the copy says what an audit should find: the device, the record, the
/// rule and the exit code.
///
/// Exit codes: 0 done, 2 errors, also if there is no suitable place.
#[derive(Args)]
pub(crate) struct Inject {
    /// What to do; `--list` says what there is
    #[arg(value_name = "KIND", required_unless_present = "list", value_parser = kinds())]
    kind: Option<String>,
    /// Where the traces are
    #[arg(value_name = "DIR", required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// A directory that does not exist yet
    #[arg(value_name = "OUT", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Secret keys of the devices, DEVICE.key each (default: DIR/keys)
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// What the place is chosen by
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print every kind with what it does and the rule that finds it
    #[arg(long, conflicts_with_all = ["kind", "directory", "out", "keys", "seed"])]
    list: bool,
}

fn kinds() -> clap::builder::PossibleValuesParser {
    KINDS.iter().map(|kind| clap::builder::PossibleValue::new(kind.name)).collect::<Vec<_>>().into()
}

impl Inject {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        if self.list {
            for kind in KINDS {
                print(&format!("{:<26} {:<14} {}\n", kind.name, kind.rule, kind.sentence))?;
            }
            return Ok(0);
        }
        let kind = self.kind.as_deref().and_then(Kind::of);
        let (Some(kind), Some(directory), Some(out)) = (kind, &self.directory, &self.out) else {
            return Err(CommandError::Usage("a kind and two directories are needed"));
        };
        let found = inject(kind, directory, out, self.keys.as_deref(), self.seed)?;
        print(&format!("{}: {} at record {}, rule {}\n", found.kind, found.device, found.record, found.rule))?;
        Ok(0)
    }
}
