//! Files of bases: those of the data directory, and ranges of points that a worker maps.

use std::{cell::LazyCell, fs, path::PathBuf};

use capstan::{
    curve::{
        G1Affine, G2Affine, Group,
        layout::points_as_bytes,
        points::{Bases, CurvePoint, content_hash},
    },
    region::MappedFile,
    store::{ObjectData, ObjectStore},
    tenant::Tenants,
};
use capstan_math::text::is_hidden;
use tempfile::TempDir;

use super::credentials::with_file;
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

/// The name that the bytes after the header have as points, if they are any.
fn id_of(points: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("capstan v1 bases g1");
    hasher.update(points);
    hasher.finalize().into()
}

/// A file whose points match its name, as long as they are of G1.
fn check_file(input: &[u8]) {
    let points = input.get(HEADER_BYTES..).unwrap_or_default();
    let name = format!("bases/{}.bases", hex::encode(id_of(points)));
    let folder: PathBuf = FOLDER.with(|folder| folder.path().to_owned());
    let path = folder.join(name);
    fs::write(&path, input).expect("a file");
    let tenants = Tenants::default();
    let store = ObjectStore::open(1 << 30, 16, Some(&folder), &tenants).expect("a folder");
    store.load(&tenants, || false);
    assert!(!store.is_loading());
    let tenant = tenants.find(None, "").expect("the default tenant");
    for object in store.list(tenant.id) {
        let ObjectData::Bases(bases) = &object.data else { panic!("a file of bases") };
        assert_eq!(bases.points.as_bytes(), points);
        assert!(bases.points.len() * bases.points.group().affine_bytes() == points.len());
        assert!(bases.infinities <= bases.points.len() as u64, "more infinities than points");
        assert!(!object.label.chars().any(is_hidden), "a label that nobody can read");
    }
    drop(store);
    fs::remove_file(path).expect("the file");
}

fn file<A: CurvePoint>(label: &str) -> Vec<u8> {
    let mut points = messages::points::<A>(2);
    points.push(A::zero());
    let mut bytes = b"CAPSTAN\x01".to_vec();
    let group = if A::GROUP == Group::G1 { 1 } else { 2_u64 };
    for number in [group, points.len() as u64, 1, 1_700_000_000] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(content_hash(&points));
    bytes.extend([1, 0, 0, 0, 0, 0, 0, label.len() as u8]);
    bytes.extend(label.as_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend(points_as_bytes(&points));
    bytes
}

/// The file as later versions than 0.2.0 write it.
fn with_checksum(mut file: Vec<u8>) -> Vec<u8> {
    let checked = HEADER_BYTES - 32;
    let mut hasher = blake3::Hasher::new_derive_key("capstan v1 file header");
    hasher.update(&id_of(&file[HEADER_BYTES..])).update(&file[..checked]);
    file[checked..HEADER_BYTES].copy_from_slice(hasher.finalize().as_bytes());
    file
}

#[test]
fn stored_bases() {
    let checked = with_checksum(file::<G1Affine>("checked"));
    let old = [file::<G1Affine>("Ethereum"), file::<G1Affine>(""), file::<G2Affine>("x")];
    let seeds = old.into_iter().chain([checked]).collect();
    let words = &["\u{202e}", "\u{7f}", "\n", "CAPSTAN\x01"];
    let (name, check) = ("stored_bases", check_file as fn(&[u8]));
    Target { name, seeds, words, check, cases: 300, memory: MEMORY }.run();
}

/// The first 16 bytes are the first byte and the number of the bytes to map.
fn check_range(input: &[u8]) {
    let Some((offset, input)) = input.split_first_chunk::<8>() else { return };
    let Some((len, content)) = input.split_first_chunk::<8>() else { return };
    let (offset, len) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*len));
    for group in [Group::G1, Group::G2] {
        let mapped = with_file(content, |path| {
            let file = fs::File::open(path).expect("the file");
            MappedFile::map_range(file, offset, len).and_then(|file| file.into_bases(group))
        });
        let Ok(bases) = mapped else { continue };
        assert_eq!(bases.group(), group);
        let (start, end) = (offset as usize, (offset + len) as usize);
        assert_eq!(bases.as_bytes(), &content[start..end]);
        let points = match &bases {
            Bases::G1(points) => points.len(),
            Bases::G2(points) => points.len(),
        };
        assert_eq!(points * group.affine_bytes(), end - start);
    }
}

#[test]
fn mapped_ranges() {
    let content = points_as_bytes(&messages::points::<G1Affine>(4)).to_vec();
    let seed =
        |offset: u64, len: u64| [&offset.to_le_bytes()[..], &len.to_le_bytes(), &content].concat();
    let seeds = vec![seed(0, 384), seed(96, 192), seed(192, 192), seed(384, 0), seed(4, 96)];
    let (name, check) = ("mapped_ranges", check_range as fn(&[u8]));
    Target { name, seeds, words: &[], check, cases: 10_000, memory: MEMORY }.run();
}
