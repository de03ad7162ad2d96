//! Matrices: files of the data directory, and the bytes of uploads.

use std::{cell::LazyCell, fs, sync::Arc};

use capstan::{
    sparse::{MatrixChecker, SparseMatrix, SparseShape, check, content_hash},
    store::{ObjectData, ObjectStore},
    tenant::Tenants,
};
use capstan_math::text::is_hidden;
use tempfile::TempDir;

use crate::{
    driver::{MemoryBound, Target},
    rig::messages,
};

const HEADER_BYTES: usize = 256;
const MEMORY: MemoryBound = MemoryBound { per_byte: 64, always: 1 << 20 };

thread_local! {
    static FOLDER: LazyCell<TempDir> = LazyCell::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("bases")).expect("a folder");
        folder
    });
}

/// The name of a file: the hash of the shape in its header and of the bytes after the header.
fn id_of(file: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("capstan v1 matrix");
    hasher.update(file.get(8..40).unwrap_or_default());
    hasher.update(file.get(HEADER_BYTES..).unwrap_or_default());
    hasher.finalize().into()
}

/// Whatever its name says, a matrix that was loaded is valid.
fn check_file(input: &[u8]) {
    let name = format!("bases/{}.matrix", hex::encode(id_of(input)));
    let folder = FOLDER.with(|folder| folder.path().to_owned());
    let path = folder.join(name);
    fs::write(&path, input).expect("a file");
    let tenants = Tenants::default();
    let store = ObjectStore::open(1 << 30, 16, Some(&folder), &tenants).expect("a folder");
    store.load(&tenants, || false);
    assert!(!store.is_loading());
    let tenant = tenants.find(None, "").expect("the default tenant");
    for object in store.list(tenant.id) {
        let ObjectData::Matrix(matrix) = &object.data else { panic!("a file of a matrix") };
        assert_eq!(matrix.as_bytes(), &input[HEADER_BYTES..]);
        assert_eq!(content_hash(matrix), object.id.0);
        check(matrix).expect("checked when it was loaded");
        assert!(matrix.shape().rows > 0 && matrix.shape().columns > 0);
        assert!(!object.label.chars().any(is_hidden), "a label that nobody can read");
    }
    drop(store);
    fs::remove_file(path).expect("the file");
}

fn file(label: &str) -> Vec<u8> {
    let matrix = messages::some_matrix();
    let SparseShape { rows, columns, terms, coefficients } = matrix.shape();
    let mut bytes = b"CAPSMTX\x01".to_vec();
    for number in [rows, columns, terms, coefficients, 1_700_000_000] {
        bytes.extend(u64::from(number).to_le_bytes());
    }
    bytes.extend(blake3::hash(matrix.as_bytes()).as_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, label.len() as u8]);
    bytes.extend(label.as_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend(matrix.as_bytes());
    bytes
}

#[test]
fn stored_matrices() {
    let seeds = vec![file("constraints"), file("")];
    let store_holds_it = |bytes: &[u8]| {
        assert_eq!(&bytes[..8], b"CAPSMTX\x01");
        id_of(bytes) == content_hash(&messages::some_matrix())
    };
    assert!(seeds.iter().all(|seed| store_holds_it(seed)), "a seed is not valid");
    let words = &["\u{202e}", "\u{7f}", "\n", "CAPSMTX\x01"];
    let (name, check) = ("stored_matrices", check_file as fn(&[u8]));
    Target { name, seeds, words, check, cases: 300, memory: MEMORY }.run();
}

/// Bytes that are aligned to limbs.
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut limbs = vec![0_u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut limbs)[..bytes.len()].copy_from_slice(bytes);
    limbs
}

/// The first 16 bytes are the shape. A matrix that passes its checks can be used, and its pieces
/// have the answer of the whole.
fn check_bytes(input: &[u8]) {
    let Some((numbers, bytes)) = input.split_first_chunk::<16>() else { return };
    let number = |at: usize| u32::from_le_bytes(numbers[4 * at..][..4].try_into().expect("four"));
    let [rows, columns, terms, coefficients] = [0, 1, 2, 3].map(number);
    let shape = SparseShape { rows, columns, terms, coefficients };
    if (bytes.len() as u64) < shape.bytes() {
        return;
    }
    let matrix = SparseMatrix::unchecked(shape, Arc::new(aligned(bytes))).expect("enough bytes");
    let checked = check(&matrix);
    if checked.is_ok() {
        let used: usize = (0..matrix.rows()).map(|row| matrix.row(row).count()).sum();
        assert_eq!(used, terms as usize);
        assert!((0..matrix.rows()).all(|row| matrix.row(row).all(|(_, at)| at < columns as usize)));
    }
    if rows == 0 {
        return;
    }
    let mut checker = MatrixChecker::new(shape, 64);
    let pieces = loop {
        let piece = checker.next_piece();
        if piece.is_empty() {
            break Ok(());
        }
        let piece = aligned(&bytes[piece.start as usize..piece.end as usize]);
        let len = checker.next_piece().end - checker.next_piece().start;
        if let Err(bad) = checker.check_next(&bytemuck::cast_slice(&piece)[..len as usize]) {
            break Err(bad);
        }
    };
    assert_eq!(pieces, checked);
}

#[test]
fn matrix_bytes() {
    let matrix = messages::some_matrix();
    let SparseShape { rows, columns, terms, coefficients } = matrix.shape();
    let mut seed: Vec<u8> = Vec::new();
    for number in [rows, columns, terms, coefficients] {
        seed.extend(number.to_le_bytes());
    }
    seed.extend(matrix.as_bytes());
    let (name, check) = ("matrix_bytes", check_bytes as fn(&[u8]));
    let words = &["\0\0\0\0", "\u{1}\0\0\0"];
    Target { name, seeds: vec![seed], words, check, cases: 10_000, memory: MEMORY }.run();
}
