//! Elimination in one word of 64 columns: which pivots each row needs, and which rows are promoted.

use zeroize::{DefaultIsZeroes, Zeroizing};

use super::matrix::Ones;

/// What the reduction of eight columns of a word does.
#[derive(Clone, Copy, Default)]
struct ByteStep {
    /// The sum of the words of the pivots to add.
    sum: u64,
    /// The pivots to add, by column.
    pivots: u8,
    /// Whether the row has no pivot for its leading column, which is one of the eight.
    stops: bool,
}

impl DefaultIsZeroes for ByteStep {}

/// What happens at a column that has no pivot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unpivoted {
    /// The row is not reduced further.
    Stop,
    /// The row is reduced in the columns after it.
    Skip,
}

/// A row's reduction in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReducedWord {
    /// The columns of the pivots to add.
    pub pivots: u64,
    /// What remains of the word.
    pub rest: u64,
    /// The column, from 0 to 63, in which the row stopped.
    pub stopped: Option<usize>,
}

/// The pivots with leading columns in one word.
pub struct WordPivots {
    unpivoted: Unpivoted,
    /// The columns that have a pivot.
    present: u64,
    /// That word of each pivot. No bit before the leading column is set.
    words: [u64; 64],
    /// For each value of each byte of a row's word, its reduction.
    bytes: Zeroizing<Vec<[ByteStep; 256]>>,
}

impl WordPivots {
    pub fn new(unpivoted: Unpivoted) -> Self {
        let bytes = Zeroizing::new(vec![[ByteStep::default(); 256]; 8]);
        let mut pivots = Self { unpivoted, present: 0, words: [0; 64], bytes };
        pivots.fill_all();
        pivots
    }

    /// The columns that have a pivot.
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// Replaces all pivots: those of the columns in `present`, with these words.
    pub fn replace(&mut self, present: u64, words: &[u64; 64]) {
        (self.present, self.words) = (present, *words);
        self.fill_all();
    }

    pub const fn words(&self) -> &[u64; 64] {
        &self.words
    }

    /// Adds a pivot: its word, whose lowest bit is its leading column.
    pub fn insert(&mut self, word: u64) {
        let column = word.trailing_zeros() as usize;
        self.words[column] = word;
        self.present |= 1 << column;
        self.fill(column / 8);
    }

    /// Reduces a word by the pivots, from its lowest column on.
    #[inline]
    pub fn reduce(&self, mut word: u64) -> ReducedWord {
        let mut pivots = 0;
        for (at, table) in self.bytes.iter().enumerate() {
            let step = &table[usize::from((word >> (8 * at)) as u8)];
            word ^= step.sum;
            pivots |= u64::from(step.pivots) << (8 * at);
            if step.stops {
                let stopped = Some(word.trailing_zeros() as usize);
                return ReducedWord { pivots, rest: word, stopped };
            }
        }
        ReducedWord { pivots, rest: word, stopped: None }
    }

    fn fill_all(&mut self) {
        for at in 0..8 {
            self.fill(at);
        }
    }

    /// Fills the table of a byte. The reduction of a value is one pivot, and the reduction of a
    /// value whose lowest bit is higher.
    fn fill(&mut self, at: usize) {
        let table = &mut self.bytes[at];
        for bit in (0..8).rev() {
            let (column, is_present) = (8 * at + bit, self.present >> (8 * at + bit) & 1 == 1);
            let word = self.words[column];
            for value in (1_usize << bit..256).step_by(2 << bit) {
                table[value] = if is_present {
                    let rest = table[value ^ usize::from((word >> (8 * at)) as u8)];
                    let sum = rest.sum ^ word;
                    let pivots = rest.pivots | 1 << bit;
                    ByteStep { sum, pivots, ..rest }
                } else if self.unpivoted == Unpivoted::Stop {
                    ByteStep { stops: true, ..ByteStep::default() }
                } else {
                    table[value ^ (1 << bit)]
                };
            }
        }
    }
}

/// The columns of a set, in ascending order.
pub fn columns(set: u64) -> impl Iterator<Item = usize> {
    Ones(set)
}
