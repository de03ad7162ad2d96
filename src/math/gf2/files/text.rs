//! Rows as lists of columns, in either order.

use std::fmt::Write;

use super::{
    super::{matrix::BitMatrix, problem::COLUMNS_MAX},
    error::{MatrixFileError, MatrixTextProblem},
};

/// The order of the columns of a row, from its leading column on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// The leading column is the lowest.
    Ascending,
    /// The leading column is the highest.
    Descending,
}

impl ColumnOrder {
    /// Where a column is in a matrix with its leading columns lowest; also the reverse.
    const fn place(self, column: usize, columns: usize) -> usize {
        match self {
            Self::Ascending => column,
            Self::Descending => columns - 1 - column,
        }
    }
}

/// The columns of all rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseRows {
    /// For each row, the index after its last column.
    ends: Vec<usize>,
    columns: Vec<u32>,
    /// `None` if no row has two columns.
    pub order: Option<ColumnOrder>,
}

impl SparseRows {
    /// Reads text. Memory is bounded by its length: 8 bytes for each line and 4 for each column,
    /// and as much again while lists grow.
    pub fn parse(text: &[u8]) -> Result<Self, MatrixFileError> {
        let mut rows = Self::default();
        if text.is_empty() {
            return Ok(rows);
        }
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
        for (at, line) in lines.enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            rows.push_line(line).map_err(|(character, problem)| MatrixFileError::Text {
                line: at + 1,
                character: character + 1,
                problem,
            })?;
        }
        Ok(rows)
    }

    /// The highest column plus one.
    pub fn column_count(&self) -> u64 {
        self.columns.iter().max().map_or(0, |last| u64::from(*last) + 1)
    }

    /// The matrix, with its leading columns lowest.
    pub fn to_matrix(
        &self,
        columns: u64,
        order: ColumnOrder,
    ) -> Result<BitMatrix, MatrixFileError> {
        let mut matrix = BitMatrix::zeros(self.ends.len() as u64, columns)?;
        let mut start = 0;
        for (row, end) in self.ends.iter().enumerate() {
            for column in &self.columns[start..*end] {
                matrix.set(row, order.place(*column as usize, columns as usize));
            }
            start = *end;
        }
        Ok(matrix)
    }

    fn push_line(&mut self, line: &[u8]) -> Result<(), (usize, MatrixTextProblem)> {
        let start = self.columns.len();
        let mut at = 0;
        while at < line.len() {
            if matches!(line[at], b' ' | b'\t') {
                at += 1;
                continue;
            }
            let length = line[at..].iter().take_while(|byte| !matches!(byte, b' ' | b'\t')).count();
            let column = column(&line[at..][..length]);
            let column = column.map_err(|(digit, problem)| (at + digit, problem))?;
            if let Some(last) = self.columns[start..].last() {
                let order = match column.cmp(last) {
                    std::cmp::Ordering::Less => ColumnOrder::Descending,
                    std::cmp::Ordering::Greater => ColumnOrder::Ascending,
                    std::cmp::Ordering::Equal => {
                        return Err((at, MatrixTextProblem::RepeatedColumn));
                    }
                };
                if *self.order.get_or_insert(order) != order {
                    return Err((at, MatrixTextProblem::OrderChanges));
                }
            }
            self.columns.push(column);
            at += length;
        }
        self.ends.push(self.columns.len());
        Ok(())
    }
}

/// Reads a number; errors have the position of the wrong digit.
fn column(word: &[u8]) -> Result<u32, (usize, MatrixTextProblem)> {
    let mut column = 0;
    for (at, byte) in word.iter().enumerate() {
        if !byte.is_ascii_digit() {
            return Err((at, MatrixTextProblem::NotANumber));
        }
        column = column * 10 + u64::from(byte - b'0');
        if column >= COLUMNS_MAX {
            return Err((0, MatrixTextProblem::ColumnTooLarge));
        }
    }
    Ok(column as u32)
}

/// The text of a matrix with its leading columns lowest.
pub fn write(matrix: &BitMatrix, order: ColumnOrder) -> String {
    let mut text = String::new();
    for row in 0..matrix.rows() {
        for (at, place) in matrix.ones(row).enumerate() {
            let blank = if at == 0 { "" } else { " " };
            let column = order.place(place, matrix.columns());
            write!(text, "{blank}{column}").expect("memory accepts all text");
        }
        text.push('\n');
    }
    text
}
