//! SHA-256 of many records at once. Each hash is as it would be by itself, and what a record's hash is of stands in its frame, so
//! none waits for the one before it.
//!
//! Where the processor has instructions for SHA-256, there is little to gain. Where it has not, records are hashed side by side,
//! each in a lane of the processor's vectors: with 4 lanes that takes half of the time, with 8 a third, with 16 a sixth.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch};
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::Frame;

const BLOCK_BYTES: usize = 64;
/// What stands at the end of the last block: how many bits were hashed.
const LENGTH_BYTES: usize = 8;
/// A record with more bytes than this is hashed by itself: it would have the other lanes wait.
const MAX_SIDE_BY_SIDE: usize = 16 << 10;
/// The most lanes that vectors have.
const MAX_LANES: usize = 16;
/// FIPS 180-4 §5.3.3: where every hash begins.
const BEGINNING: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
/// FIPS 180-4 §4.2.2: what each round adds.
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];

/// How records are hashed on this processor.
#[derive(Debug, Clone, Copy)]
pub struct Hashing(Option<Level>);

impl Hashing {
    /// The fastest way.
    pub fn new() -> Self {
        Self((!has_instructions()).then(Level::new))
    }

    /// What the hash of each of these records should be.
    pub fn true_hashes(self, frames: &[(u64, Frame<'_>)]) -> Vec<ChainHead> {
        match self.0 {
            None => frames.iter().map(|(_, frame)| frame.true_hash()).collect(),
            Some(level) => dispatch!(level, simd => side_by_side(simd, frames)),
        }
    }
}

/// Whether the processor has instructions for SHA-256, which one record after the other is hashed with.
fn has_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("sha");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("sha2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}

/// A record in a lane.
#[derive(Default)]
struct Lane {
    /// Which record; none when there is no other.
    number: Option<usize>,
    /// What is hashed, filled up to whole blocks.
    bytes: Vec<u8>,
    /// How many bytes of it are done.
    done: usize,
}

impl Lane {
    fn take_up(&mut self, number: usize, frame: &Frame<'_>) {
        (self.number, self.done) = (Some(number), 0);
        self.bytes.clear();
        frame.hashed().into_iter().for_each(|part| self.bytes.extend_from_slice(part));
        let bits = self.bytes.len() as u64 * 8;
        self.bytes.push(0x80);
        let full = (self.bytes.len() + LENGTH_BYTES).next_multiple_of(BLOCK_BYTES);
        self.bytes.resize(full - LENGTH_BYTES, 0);
        self.bytes.extend_from_slice(&bits.to_be_bytes());
    }

    fn next_block(&mut self) -> &[u8] {
        let block = self.bytes.get(self.done..).unwrap_or_default();
        self.done += BLOCK_BYTES;
        block.get(..BLOCK_BYTES).unwrap_or_default()
    }

    const fn is_done(&self) -> bool {
        self.done >= self.bytes.len()
    }
}

/// In each lane one record after the other; long ones apart.
#[inline(always)]
#[expect(clippy::inline_always, reason = "what is called within `dispatch` must be part of it")]
fn side_by_side<S: Simd>(simd: S, frames: &[(u64, Frame<'_>)]) -> Vec<ChainHead> {
    let is_long = |frame: &Frame<'_>| frame.length > MAX_SIDE_BY_SIDE;
    let by_itself = |frame: &Frame<'_>| if is_long(frame) { frame.true_hash() } else { ChainHead([0; 32]) };
    let mut hashes: Vec<ChainHead> = frames.iter().map(|(_, frame)| by_itself(frame)).collect();
    let mut frames = frames.iter().map(|(_, frame)| frame).enumerate().filter(|(_, frame)| !is_long(frame));
    let mut lanes: [Lane; MAX_LANES] = std::array::from_fn(|_| Lane::default());
    let lanes = lanes.get_mut(..S::u32s::LEN).unwrap_or_default();
    let mut states = BEGINNING.map(|word| [word; MAX_LANES]);
    let mut blocks = [[0; MAX_LANES]; 16];
    for lane in &mut *lanes {
        frames.next().into_iter().for_each(|(number, frame)| lane.take_up(number, frame));
    }
    while lanes.iter().any(|lane| lane.number.is_some()) {
        for (at, lane) in lanes.iter_mut().enumerate() {
            let (words, _) = lane.next_block().as_chunks();
            let column = blocks.iter_mut().filter_map(|row| row.get_mut(at));
            column.zip(words).for_each(|(to, word)| *to = u32::from_be_bytes(*word));
        }
        compress(simd, &mut states, &blocks);
        for (at, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_done()) {
            let hash = lane.number.take().and_then(|number| hashes.get_mut(number));
            let mut bytes = hash.map_or(&mut [][..], |hash| &mut hash.0).as_chunks_mut().0.iter_mut();
            for (row, beginning) in states.iter_mut().zip(BEGINNING) {
                let Some(word) = row.get_mut(at) else { continue };
                bytes.next().into_iter().for_each(|bytes| *bytes = word.to_be_bytes());
                *word = beginning;
            }
            frames.next().into_iter().for_each(|(number, frame)| lane.take_up(number, frame));
        }
    }
    hashes
}

/// FIPS 180-4 §6.2.2, on a block in each lane.
#[inline(always)]
#[expect(clippy::inline_always, reason = "what is called within `dispatch` must be part of it")]
#[expect(clippy::indexing_slicing, reason = "every place is taken modulo 16, of 16")]
fn compress<S: Simd>(simd: S, states: &mut [[u32; MAX_LANES]; 8], blocks: &[[u32; MAX_LANES]; 16]) {
    let load = |row: &[u32; MAX_LANES]| S::u32s::from_slice(simd, row.get(..S::u32s::LEN).unwrap_or_default());
    let mut schedule = blocks.each_ref().map(load);
    let before = states.each_ref().map(load);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
    for (t, round) in ROUNDS.into_iter().enumerate() {
        let at = t % 16;
        if t >= 16 {
            let (two_before, fifteen_before) = (schedule[(at + 14) % 16], schedule[(at + 1) % 16]);
            let small_0 = rotated::<S>(fifteen_before, 7) ^ rotated::<S>(fifteen_before, 18) ^ (fifteen_before >> 3);
            let small_1 = rotated::<S>(two_before, 17) ^ rotated::<S>(two_before, 19) ^ (two_before >> 10);
            schedule[at] = schedule[at] + small_0 + schedule[(at + 9) % 16] + small_1;
        }
        let choice = g ^ (e & (f ^ g));
        let majority = (a & b) | (c & (a | b));
        let large_0 = rotated::<S>(a, 2) ^ rotated::<S>(a, 13) ^ rotated::<S>(a, 22);
        let large_1 = rotated::<S>(e, 6) ^ rotated::<S>(e, 11) ^ rotated::<S>(e, 25);
        let sum = h + large_1 + choice + (schedule[at] + S::u32s::splat(simd, round));
        (h, g, f, e, d, c, b, a) = (g, f, e, d + sum, c, b, a, sum + large_0 + majority);
    }
    let after = [a, b, c, d, e, f, g, h];
    for ((row, before), after) in states.iter_mut().zip(before).zip(after) {
        row.iter_mut().zip((before + after).as_slice()).for_each(|(to, word)| *to = *word);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "what is called within `dispatch` must be part of it")]
fn rotated<S: Simd>(words: S::u32s, places: u32) -> S::u32s {
    (words >> places) | (words << (32 - places))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All vectors that this processor has, and none.
    fn all() -> Vec<Hashing> {
        let best = Level::new();
        #[cfg(target_arch = "x86_64")]
        let smaller =
            [best.as_sse2().map(Level::Sse2), best.as_sse4_2().map(Level::Sse4_2), best.as_avx2().map(Level::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let smaller = [];
        smaller.into_iter().flatten().chain([best]).map(Some).chain([None]).map(Hashing).collect()
    }

    /// As one after the other, whatever their lengths are, and however many there are.
    #[test]
    fn many_hashes_are_as_each_by_itself() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let frame = |at: usize, length: usize| {
            let head = |at: usize| ChainHead(*bytes[at..].first_chunk().unwrap());
            (0, Frame { previous: head(at), body: &bytes[at..at + length], hash: head(at + 1), length })
        };
        let lengths = (0..300).chain([4_096, 30_000]);
        let frames: Vec<_> = lengths.enumerate().map(|(at, length)| frame(at * 7, length)).collect();
        let by_themselves: Vec<ChainHead> = frames.iter().map(|(_, frame)| frame.true_hash()).collect();
        for hashing in all() {
            assert_eq!(hashing.true_hashes(&frames), by_themselves, "{hashing:?}");
            for count in 0..40 {
                assert_eq!(hashing.true_hashes(&frames[..count]), by_themselves[..count], "{hashing:?}, {count}");
            }
        }
    }
}
