//! Changes to inputs.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

/// Inputs do not grow beyond this.
const BYTES_MAX: usize = 16 << 10;

const INTERESTING: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x100,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// One to eight changes. `other` is another input of the corpus, and `words` belong to the format.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut StdRng) {
    for _ in 0..1 << random.random_range(0..4) {
        change(input, other, words, random);
        input.truncate(BYTES_MAX);
    }
}

fn change(input: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut StdRng) {
    let at = random.random_range(0..=input.len());
    match random.random_range(0..12) {
        0 | 1 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        2 if at < input.len() => input[at] = random.random(),
        3 => input.truncate(at),
        4 => {
            let end = (at + random.random_range(1..32)).min(input.len());
            input.drain(at..end);
        }
        5 => {
            let bytes: Vec<u8> = (0..random.random_range(1..16)).map(|_| random.random()).collect();
            insert(input, at, &bytes);
        }
        // A copy of a part of this input.
        6 => {
            let end = (at + random.random_range(1..128)).min(input.len());
            let copy = input[at..end].to_vec();
            let to = random.random_range(0..=input.len());
            insert(input, to, &copy);
        }
        // A part of another input, inserted or in place of what is here.
        7 => {
            let from = random.random_range(0..=other.len());
            let to = (from + random.random_range(1..128)).min(other.len());
            insert(input, at, &other[from..to]);
        }
        8 => overwrite(input, at, &other[random.random_range(0..=other.len())..]),
        // An integer, of either byte order or as a varint.
        9 => {
            let value = *INTERESTING.choose(random).expect("not empty");
            match random.random_range(0..5) {
                0 => overwrite(input, at, &value.to_le_bytes()),
                1 => overwrite(input, at, &(value as u32).to_le_bytes()),
                2 => overwrite(input, at, &value.to_be_bytes()),
                3 => insert(input, at, &varint(value)),
                _ => overwrite(input, at, &varint(value)),
            }
        }
        10 if !words.is_empty() => {
            let word = words.choose(random).expect("not empty");
            insert(input, at, word.as_bytes());
        }
        // A run of equal bytes.
        _ => {
            let byte = *[0, 0xff, b' ', b'[', b'9'].choose(random).expect("not empty");
            insert(input, at, &vec![byte; 1 << random.random_range(0..8)]);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    let len = bytes.len().min(input.len() - at);
    input[at..at + len].copy_from_slice(&bytes[..len]);
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
