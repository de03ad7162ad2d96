//! Files of matrices, and what is refused.

use crate::gf2::{
    BitMatrix, COLUMNS_MAX, MatrixSizeError, ROWS_MAX,
    files::{ColumnOrder, FileLayout, MatrixFile, MatrixFileError, MatrixFilesError},
};

fn matrix(text: &str) -> BitMatrix {
    let file = MatrixFile::parse(text.as_bytes()).unwrap();
    let layout = FileLayout::of(&file);
    file.into_matrix(layout).unwrap()
}

fn round_trip(bytes: &[u8]) -> Vec<u8> {
    let file = MatrixFile::parse(bytes).unwrap();
    let layout = FileLayout::of(&file);
    let writer = file.writer();
    writer(&file.into_matrix(layout).unwrap(), layout.order)
}

/// A file of packed bits.
fn packed(rows: u64, columns: u64, words: &[u64]) -> Vec<u8> {
    let numbers = [rows, columns].into_iter().chain(words.iter().copied());
    b"GF2BITS1".iter().copied().chain(numbers.flat_map(u64::to_le_bytes)).collect()
}

#[test]
fn the_first_number_of_a_line_is_the_leading_column() {
    let descending = matrix("129 5 0\r\n\n  7\t6 \n");
    assert_eq!((descending.rows(), descending.columns()), (3, 130));
    assert_eq!(descending.ones(0).collect::<Vec<_>>(), [0, 124, 129]);
    assert_eq!(descending.ones(1).count(), 0);
    assert_eq!(descending.ones(2).collect::<Vec<_>>(), [122, 123]);
    let ascending = matrix("0 5 129\n6 7");
    assert_eq!((ascending.rows(), ascending.columns()), (2, 130));
    assert_eq!(ascending.ones(0).collect::<Vec<_>>(), [0, 5, 129]);
}

#[test]
fn files_are_written_as_they_were_read() {
    for text in ["", "\n", "3 2 1\n\n0\n", "1 2 3\n\n0\n", "7\n"] {
        assert_eq!(round_trip(text.as_bytes()), text.as_bytes(), "{text:?}");
    }
    for (rows, columns) in [(0_u64, 0_u64), (3, 0), (0, 65), (2, 65)] {
        let words = vec![1; rows as usize * columns.div_ceil(64) as usize];
        let file = packed(rows, columns, &words);
        assert_eq!(round_trip(&file), file, "{rows} x {columns}");
    }
}

#[test]
fn malformed_text_is_refused_by_line_and_character() {
    for (text, place, words) in [
        ("3 2\n3 x", "line 2, character 3", "decimal digits"),
        ("3 2\n\n12a 1", "line 3, character 3", "decimal digits"),
        ("-1", "line 1, character 1", "decimal digits"),
        ("1,2", "line 1, character 2", "decimal digits"),
        ("1\n2 1048576", "line 2, character 3", "from 0 to 1048575"),
        ("99999999999999999999999999", "line 1, character 1", "from 0 to 1048575"),
        ("5 4 4", "line 1, character 5", "twice"),
        ("5 4 6", "line 1, character 5", "descending"),
        ("5 4\n\n1 2", "line 3, character 3", "descending"),
        ("5\r4", "line 1, character 2", "decimal digits"),
        ("\u{feff}5", "line 1, character 1", "decimal digits"),
    ] {
        let refused = MatrixFile::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.starts_with(place) && refused.contains(words), "{text:?}: {refused}");
    }
}

#[test]
fn malformed_packed_bits_are_refused() {
    let parse = |file: &[u8]| MatrixFile::parse(file).unwrap_err();
    let good = packed(2, 65, &[1, 1, 0, 0]);
    for length in 8..good.len() {
        let refused = parse(&good[..length]);
        let is_header = refused == MatrixFileError::Header { bytes: length };
        assert_eq!(is_header, length < 24, "{length}: {refused}");
    }
    let longer = [&good[..], &[0]].concat();
    let expected = MatrixFileError::FileLength { expected: 56, got: 57 };
    assert_eq!(parse(&longer), expected);
    let unused = MatrixSizeError::UnusedBits { row: 1 };
    assert_eq!(parse(&packed(2, 65, &[1, 1, 0, 2])), unused.into());
    // Numbers for which nothing may be allocated.
    for (rows, columns) in [(u64::MAX, u64::MAX), (1 << 60, 64), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = parse(&packed(rows, columns, &[]));
        assert!(matches!(refused, MatrixFileError::FileLength { .. }), "{refused}");
    }
    let refused = parse(&packed(ROWS_MAX + 1, 0, &[]));
    assert_eq!(refused, MatrixSizeError::TooManyRows { rows: ROWS_MAX + 1 }.into());
    let refused = parse(&packed(0, COLUMNS_MAX + 1, &[]));
    assert_eq!(refused, MatrixSizeError::TooManyColumns { columns: COLUMNS_MAX + 1 }.into());
}

#[test]
fn text_whose_matrix_is_too_large_is_refused_before_its_memory_is_allocated() {
    let mut text = String::from("1048575 0\n");
    text.push_str(&"0\n".repeat(1 << 17));
    let file = MatrixFile::parse(text.as_bytes()).unwrap();
    let layout = FileLayout::of(&file);
    let (rows, columns) = ((1 << 17) + 1, COLUMNS_MAX);
    let refused = file.into_matrix(layout).unwrap_err();
    assert_eq!(refused, MatrixSizeError::TooLarge { rows, columns }.into());
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let parse = |file: &[u8]| MatrixFile::parse(file).unwrap();
    let both = |first: &[u8], second: &[u8]| FileLayout::of_both(&parse(first), &parse(second));
    let layout = |columns, order| Ok(FileLayout { columns, order });
    assert_eq!(both(b"5 3", b"9\n1"), layout(10, ColumnOrder::Descending));
    assert_eq!(both(b"5", b"3 4"), layout(6, ColumnOrder::Ascending));
    assert_eq!(both(b"5", b""), layout(6, ColumnOrder::Descending));
    assert_eq!(both(b"5 3", b"3 5"), Err(MatrixFilesError::Orders));
    let ten = packed(0, 10, &[]);
    assert_eq!(both(&ten, b"3 5"), layout(10, ColumnOrder::Ascending));
    assert_eq!(both(&ten, b"5 3"), Err(MatrixFilesError::Orders));
    let counts = |first, second| Err(MatrixFilesError::ColumnCounts { first, second });
    assert_eq!(both(&ten, b"10"), counts(10, 11));
    assert_eq!(both(&packed(0, 9, &[]), &ten), counts(9, 10));
}
