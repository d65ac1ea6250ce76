//! `policy compare --batch`: one decision per line, for other programs.
//!
//! A stream: a line is answered before more input is waited for, so that a program can ask and read the answer over
//! pipes, and memory is bounded by the longest line allowed, whatever the input.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::Path;

use pilot_core::subsumption::Judge;
use pilot_core::syntax::json::{MAX_JSON_BYTES, parse_pair};

use crate::console::{Answer, Console, Failure};
use crate::input::{self, Origin, Words};

/// Enough for many lines of input per system call.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(file: &Path, words: &Words, console: &mut Console) -> Result<Answer, Failure> {
    let origin = Origin::from(file);
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input::open(file)?);
    let judge = Judge::new(&words.vocabulary);
    let mut answer = Answer::Yes;
    let mut line = Vec::new();
    while !console.is_closed() {
        let Some(question) = next_line(&mut input, &mut line).map_err(|error| Failure::Read(origin.clone(), error))?
        else {
            break;
        };
        match question.and_then(|line| subsumes(line, &judge)) {
            Ok(true) => console.write_all(b"{\"subsumes\":true}\n")?,
            Ok(false) => console.write_all(b"{\"subsumes\":false}\n")?,
            Err(problem) => {
                answer = Answer::BadInput;
                writeln!(console, "{{\"error\":{}}}", serde_json::Value::from(problem))?;
            }
        }
        // Without a whole line at hand, the next read may wait for whoever waits for these answers.
        if !input.buffer().contains(&b'\n') {
            console.flush()?;
        }
    }
    Ok(answer)
}

fn subsumes(line: &str, judge: &Judge<'_>) -> Result<bool, String> {
    match parse_pair(line, judge.vocabulary) {
        Ok((p, q)) => Ok(p.subsumes(&q, judge)),
        Err(error) => Err(format!("column {}: {}", error.column, error.problem)),
    }
}

/// The next line without its end, or why it cannot be read as one; nothing at the end of the input.
fn next_line<'l>(input: &mut impl BufRead, line: &'l mut Vec<u8>) -> io::Result<Option<Result<&'l str, String>>> {
    line.clear();
    // One byte more than allowed: the end of the line, or the proof that it is too long.
    let read = input.by_ref().take(MAX_JSON_BYTES as u64 + 1).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_JSON_BYTES {
        input.skip_until(b'\n')?;
        return Ok(Some(Err(format!("the line has more than {MAX_JSON_BYTES} bytes"))));
    }
    Ok(Some(str::from_utf8(line).map_err(|error| format!("byte {}: this is not UTF-8 text", error.valid_up_to() + 1))))
}
