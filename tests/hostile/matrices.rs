//! Matrices whose header or payload is wrong.

use capstan::{sparse::SparseMatrix, wire::v1};
use tonic::Code;

use crate::{
    daemon::messages,
    table::{Call, Row, World, good, invalid, refused},
};

const LENGTH: &str = "LENGTH_MISMATCH";
const LARGE: &str = "SIZE_TOO_LARGE";
/// The first byte of the terms of [`messages::some_matrix`], and of the ends of its rows.
const TERMS: usize = 2 * 32;
const ROW_ENDS: usize = TERMS + 6 * 8;

pub fn rows(_: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    headers(&mut rows);
    payloads(&mut rows);
    lengths(&mut rows);
    rows
}

fn put(matrix: &SparseMatrix, spoil: impl FnOnce(&mut v1::MatrixUpload, &mut Vec<u8>)) -> Call {
    let (mut upload, mut bytes) = (messages::matrix(matrix), matrix.as_bytes().to_vec());
    spoil(&mut upload, &mut bytes);
    Call::Put(messages::put_matrix(upload, vec![messages::chunk(0, bytes)]))
}

fn headers(rows: &mut Vec<Row>) {
    type Spoil = fn(&mut v1::MatrixUpload);
    let cases: [(&str, &'static str, &'static str, Spoil); 12] = [
        ("no rows", "SIZE_ZERO", "rows", |matrix| matrix.rows = 0),
        ("no columns", "SIZE_ZERO", "columns", |matrix| matrix.columns = 0),
        ("2^32 rows", LARGE, "rows", |matrix| matrix.rows = 1 << 32),
        ("2^32 columns", LARGE, "columns", |matrix| matrix.columns = 1 << 32),
        ("2^32 terms", LARGE, "terms", |matrix| matrix.terms = 1 << 32),
        ("2^64 coefficients", LARGE, "coefficients", |matrix| matrix.coefficients = u64::MAX),
        ("a short upload id", LENGTH, "upload_id", |matrix| matrix.upload_id = vec![1; 15].into()),
        ("a short hash", LENGTH, "payload_hash", |matrix| matrix.payload_hash = vec![1].into()),
        ("a long label", LARGE, "label", |matrix| matrix.label = "x".repeat(129)),
        ("a label of two lines", "BAD_ENCODING", "label", |matrix| matrix.label = "a\nb".into()),
        ("65 streams", LARGE, "streams", |matrix| matrix.streams = 65),
        ("too few rows", LARGE, "chunk", |matrix| matrix.rows = 3),
    ];
    let matrix = messages::some_matrix();
    for (name, reason, field, spoil) in cases {
        let call = put(&matrix, |upload, _| spoil(upload));
        rows.push(invalid(format!("a matrix with {name}"), call, reason, field));
    }
    let huge = |upload: &mut v1::MatrixUpload| {
        let max = u64::from(u32::MAX);
        (upload.rows, upload.columns, upload.terms, upload.coefficients) = (max, max, max, max);
    };
    // 176 GiB: refused before anything is reserved.
    let call = put(&matrix, |upload, _| huge(upload));
    rows.push(refused("a huge matrix", call, Code::ResourceExhausted, "CONNECTION_BYTES"));
    let call = put(&matrix, |upload, _| upload.persist = true);
    let kind = Code::FailedPrecondition;
    rows.push(refused("a matrix, without a data directory", call, kind, "NO_DATA_DIR"));
    let call = put(&matrix, |upload, _| upload.payload_hash = vec![7; 32].into());
    rows.push(refused("a matrix with another hash", call, Code::Aborted, "HASH_MISMATCH"));
    rows.push(good("a matrix", put(&matrix, |_, _| ()), None));
}

fn payloads(rows: &mut Vec<Row>) {
    let [coefficients, terms, row_ends] =
        ["matrix.coefficients", "matrix.terms", "matrix.row_ends"];
    let small = "OUT_OF_RANGE";
    type Spoil = fn(&mut Vec<u8>);
    let cases: [(&str, &'static str, &'static str, u64, Spoil); 8] = [
        ("not canonical", "NOT_CANONICAL", coefficients, 1, |bytes| bytes[32..64].fill(0xff)),
        ("a column too large", LARGE, terms, 5, |bytes| bytes[TERMS + 5 * 8] = 5),
        ("no such coefficient", LARGE, terms, 0, |bytes| bytes[TERMS + 4] = 4),
        ("a far column", LARGE, terms, 2, |bytes| bytes[TERMS + 2 * 8 + 3] = 0x80),
        ("rows that descend", small, row_ends, 1, |bytes| bytes[ROW_ENDS + 4] = 1),
        ("rows beyond the terms", LARGE, row_ends, 0, |bytes| bytes[ROW_ENDS] = 7),
        ("a last row that ends early", small, row_ends, 3, |bytes| bytes[ROW_ENDS + 12] = 5),
        ("a last row that ends late", LARGE, row_ends, 3, |bytes| bytes[ROW_ENDS + 12] = 7),
    ];
    let matrix = messages::some_matrix();
    for (name, reason, field, index, spoil) in cases {
        let call = put(&matrix, |_, bytes| spoil(bytes));
        rows.push(invalid(format!("a matrix with {name}"), call, reason, field).at(index));
    }
}

fn lengths(rows: &mut Vec<Row>) {
    let matrix = messages::some_matrix();
    let call = put(&matrix, |_, bytes| bytes.truncate(bytes.len() - 1));
    rows.push(invalid("a truncated matrix", call, LENGTH, "chunk"));
    let call = put(&matrix, |_, bytes| bytes.push(0));
    rows.push(invalid("too many bytes of a matrix", call, LARGE, "chunk"));
    let call = put(&matrix, |_, bytes| bytes.clear());
    rows.push(invalid("a matrix without payload", call, LENGTH, "chunk"));
}
