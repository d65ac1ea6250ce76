//! A small fuzzer for the stable compiler: valid inputs, mutated at random for a bounded time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// How long each parser is fuzzed unless `FUZZ_SECONDS` says otherwise.
const SECONDS: f64 = 2.0;
/// The longest mutated input, in bytes.
const MAX_INPUT_BYTES: usize = 4_096;
/// How many inputs are kept to be mutated further; new ones replace old ones.
const MAX_INPUTS: usize = 512;
/// No single input may take longer: a parser that stalls is as bad as one that crashes.
const STALL: Duration = Duration::from_secs(5);

/// Runs `body` on mutations of `seeds`, which it must accept. It returns whether it accepted an input.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], dictionary: &[&str], body: fn(&[u8]) -> bool) {
    let setting = |name| std::env::var(name).ok();
    let seconds = setting("FUZZ_SECONDS").map_or(SECONDS, |text| text.parse().expect("FUZZ_SECONDS is a number"));
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = setting("FUZZ_SEED").map_or_else(now, |text| text.parse().expect("FUZZ_SEED is a number"));
    println!("fuzzing {name} for {seconds} s with FUZZ_SEED={seed}");

    let mut random = Random(seed);
    let shortest = seeds.iter().map(Vec::len).max().unwrap_or(0) / 2;
    let mut inputs = seeds.to_vec();
    for input in seeds {
        assert!(body(input), "{name} refuses the seed `{}`", input.escape_ascii());
    }
    let start = Instant::now();
    let (mut runs, mut accepted) = (0_u64, 0_u64);
    while start.elapsed().as_secs_f64() < seconds {
        // Half of the time from a seed, so that the inputs do not all end as one long comment.
        let of = if random.below(2) == 0 { seeds.len() } else { inputs.len() };
        let at = random.below(of);
        let input = mutated(inputs[at].clone(), &inputs, dictionary, &mut random);
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&input)));
        let took = began.elapsed();
        runs += 1;
        let is_accepted = outcome.unwrap_or_else(|panic| {
            println!("{name}, FUZZ_SEED={seed}, run {runs}: `{}`", input.escape_ascii());
            resume_unwind(panic)
        });
        assert!(took < STALL, "{name} took {took:?} for `{}`", input.escape_ascii());
        accepted += u64::from(is_accepted);
        // Short ones would soon be all there is.
        if is_accepted && input.len() >= shortest {
            if inputs.len() < MAX_INPUTS {
                inputs.push(input);
            } else {
                let at = seeds.len() + random.below(MAX_INPUTS - seeds.len());
                inputs[at] = input;
            }
        }
    }
    println!("{name}: {runs} runs, {accepted} accepted");
    // A mutator that never makes a valid input has only tested the first lines of the parser.
    assert!(seconds < SECONDS || accepted > 0, "{name}: no mutation was accepted");
}

fn mutated(mut input: Vec<u8>, inputs: &[Vec<u8>], dictionary: &[&str], random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below((input.len() - at).min(32) + 1);
        match random.below(9) {
            0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.below(256) as u8),
            2 => input.insert(at, random.below(256) as u8),
            3 => drop(input.drain(at..end)),
            4 => input.truncate(at),
            5 => {
                let part = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, part.into_iter().cycle().take((end - at) * (1 + random.below(4))));
            }
            6 => {
                let other = &inputs[random.below(inputs.len())];
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            7 => drop(input.splice(at..end, dictionary[random.below(dictionary.len())].bytes())),
            _ => drop(input.splice(at..at, dictionary[random.below(dictionary.len())].bytes())),
        }
    }
    input.truncate(MAX_INPUT_BYTES);
    input
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }
}
