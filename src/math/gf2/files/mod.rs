//! Files that hold matrices of bits.
//!
//! **Text**, one row per line, as published matrices of Gröbner bases have it: the columns in which
//! the row is 1, as decimal numbers from 0 on, separated by spaces or tabs. An empty line is a row
//! of zeros. Lines end with LF or CRLF; the last line may lack it. The first number of a line is
//! the row's leading column: all lines of a file list their columns in descending order, or all in
//! ascending order. The number of columns is not in the file: it is the highest column plus one.
//!
//! **Packed bits**: the eight bytes `GF2BITS1`; the number of rows and that of columns, 64 bits
//! each; and then for each row its bits in words of 64 bits, column 0 in the lowest bit of the
//! first word. All numbers are little-endian. Bits after the last column are zero, and nothing
//! follows. The leading column is the lowest.

mod error;
mod matrix_file;
mod packed;
mod text;

pub use error::{MatrixFileError, MatrixFilesError};
pub use matrix_file::{FileLayout, MatrixFile};
pub use text::{ColumnOrder, write as write_text};
