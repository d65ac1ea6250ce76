//! `policy compare --batch`.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use support::Directory;

const OFFER: &str = r#"{"datatype":"cookie","collection":{"condition":"true","entity":"flights.com","purposes":["special_offers"],"retention":1734739200},"transfers":[]}"#;
const YES: &str = "{\"subsumes\":true}";
const NO: &str = "{\"subsumes\":false}";
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// More lines than fit into all the buffers between two programs.
const MANY: usize = 1_000_000;
const BATCH: [&str; 4] = ["policy", "compare", "--batch", "-"];

fn pair(p: &str, q: &str) -> String {
    format!("{{\"p\":{p},\"q\":{q}}}\n")
}

#[test]
fn each_line_is_answered() {
    let directory = Directory::flights();
    let input = [pair(OFFER, OFFER), pair("null", OFFER), pair(OFFER, "null"), pair("null", "null")].concat();
    let expected = format!("{YES}\n{YES}\n{NO}\n{YES}\n");
    assert_eq!(directory.run_with(&BATCH, &input).quietly(0), expected);
    directory.write("pairs.jsonl", input.trim_end());
    let from_file = ["policy", "compare", "--batch", "pairs.jsonl", "--vocabulary", "vocabulary.toml"];
    assert_eq!(directory.run(&from_file).quietly(0), expected, "the last line needs no end");
    assert_eq!(directory.run_with(&BATCH, "").quietly(0), "");
}

#[test]
fn malformed_lines_are_answered_and_the_rest_goes_on() {
    let directory = Directory::flights();
    let too_long = pair(OFFER, &format!("{OFFER}{}", " ".repeat(1 << 20)));
    let unknown = pair(OFFER, &OFFER.replace("special_offers", "special \\\"offers"));
    let mut input = Vec::new();
    for line in ["\n", "{\n", "[]\n", "{\"p\":null}\n", &unknown, &too_long, &pair("null", "null").repeat(2)] {
        input.extend_from_slice(line.as_bytes());
    }
    input.extend_from_slice(b"{\"p\":null,\"q\":\"\xff\"}\n");
    input.extend_from_slice(pair(OFFER, "null").as_bytes());
    let ran = directory.run_with(&BATCH, input);
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 10, "{}", ran.out);
    let messages = [
        (0, "EOF while parsing"),
        (1, "EOF while parsing"),
        (2, "expected an object"),
        (3, "missing field `q`"),
        (4, "unknown purpose `special \"offers`"),
        (5, "the line has more than 1048576 bytes"),
        (8, "byte 16: this is not UTF-8 text"),
    ];
    for (at, message) in messages {
        let answer: serde_json::Value = serde_json::from_str(lines[at]).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(message), "{}", lines[at]);
    }
    assert_eq!([lines[6], lines[7], lines[9]], [YES, YES, NO]);
}

/// A program can ask, read the answer, and ask again.
#[test]
fn answers_come_before_more_input_is_waited_for() {
    let directory = Directory::flights();
    let mut child = directory.command(&BATCH).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    let (sender, received) = mpsc::channel();
    let reader = thread::spawn(move || answers.lines().for_each(|line| sender.send(line.unwrap()).unwrap()));
    let question = pair(OFFER, "null");
    let (start, end) = question.split_at(20);
    questions.write_all(start.as_bytes()).unwrap();
    for _ in 0..3 {
        // The end of one question and the start of the next.
        questions.write_all(format!("{end}{start}").as_bytes()).unwrap();
        assert_eq!(received.recv_timeout(PATIENCE).unwrap(), NO);
    }
    questions.write_all(end.as_bytes()).unwrap();
    drop(questions);
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), NO);
    reader.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Input without end, and a reader that has gone: the program ends.
#[test]
fn a_closed_output_ends_the_stream() {
    let directory = Directory::flights();
    let mut child =
        directory.command(&BATCH).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut questions = child.stdin.take().unwrap();
    let line = pair("null", "null");
    let is_taken = (0..MANY).all(|_| questions.write_all(line.as_bytes()).is_ok());
    assert!(!is_taken, "it goes on reading");
    drop(questions);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), [].as_slice()));
}

#[test]
fn a_batch_that_cannot_be_read_is_refused() {
    let directory = Directory::flights();
    for file in ["missing.jsonl", "."] {
        directory.run(&["policy", "compare", "--batch", file]).refused();
    }
}
