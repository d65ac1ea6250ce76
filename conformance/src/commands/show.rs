//! `conform show`.

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;
use conformance::show::{Form, ShowError, show};

use super::CommandError;

/// Print a trace, one line per record, in the paper's notation
///
/// Hashes, the chain and the numbers of the records are checked on the way. Signatures are not verified, for that takes
/// the devices' keys: `conform audit` does it.
///
/// Exit codes: 0 shown to its end, 2 damaged or unreadable.
#[derive(Args)]
pub(crate) struct Show {
    /// A trace file, or a directory whose trace files are shown in their order
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Print a JSON object per line, with nothing left out
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        let form = if self.json { Form::Json } else { Form::Text };
        let mut out = BufWriter::new(io::stdout().lock());
        let shown = show(&self.path, form, &mut out);
        // What comes before the damage is shown before it is complained about.
        let flushed = out.flush().map_err(ShowError::from);
        match shown.and(flushed) {
            // A reader that has read enough is no error.
            Err(ShowError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            shown => Ok(shown.map(|()| 0)?),
        }
    }
}
