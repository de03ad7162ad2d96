//! Files of points: detection and errors.

use ark_ec::CurveGroup;
use ark_serialize::CanonicalSerialize;

use bytes::Bytes;
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine, Group,
        points::{self, CurvePoint, PointEncoding},
    },
    formats::{
        FileFormat, FormatError, PointSet,
        detect::{PointFormat, parse},
        kzg,
    },
};

fn some<A: CurvePoint>(n: u64) -> Vec<A> {
    (1..=n).map(|k| (A::generator() * Fr::from(k)).into_affine()).collect()
}

fn auto(file: Vec<u8>) -> Result<PointSet, FormatError> {
    parse(file.into(), None, None).map(|mut sets| sets.remove(0))
}

/// Every binary format is detected and read back.
fn every_format<A: CurvePoint + CanonicalSerialize>() {
    let points = some::<A>(5);
    let whole = |set: &PointSet| points::decode::<A>(set.encoding, &set.data).unwrap();
    for encoding in
        [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery]
    {
        let set = auto(points::encode(encoding, &points)).unwrap();
        assert_eq!((set.group, set.encoding, set.count()), (A::GROUP, encoding, 5));
        assert_eq!(whole(&set), points);
    }
    let mut file = Vec::new();
    points.serialize_compressed(&mut file).unwrap();
    let compressed = auto(file).unwrap();
    assert_eq!(compressed.encoding, PointEncoding::Compressed);
    assert_eq!(whole(&compressed), points);
    let mut file = Vec::new();
    points.serialize_uncompressed(&mut file).unwrap();
    let uncompressed = auto(file).unwrap();
    assert_eq!(uncompressed.encoding, PointEncoding::Uncompressed);
    assert_eq!(whole(&uncompressed), points);
}

#[test]
fn detects_every_format_of_g1() {
    every_format::<G1Affine>();
}

#[test]
fn detects_every_format_of_g2() {
    every_format::<G2Affine>();
}

#[test]
fn detects_text_formats() {
    let ceremony = include_bytes!("../data/trusted_setup_4096.json");
    let json = parse(Bytes::from_static(ceremony), None, None).unwrap();
    assert_eq!(json.len(), 3);
    let point = hex::encode(points::encode(PointEncoding::Compressed, &some::<G1Affine>(1)));
    let text = parse(format!("1 0 {point} {point}").into(), None, None).unwrap();
    assert_eq!(text.len(), 2);
    assert_eq!(text[0].list, Some(kzg::SetupList::G1Lagrange));
}

#[test]
fn refuses_ambiguous_files() {
    // Infinity in Montgomery limbs is all zero, in either group.
    let error = auto(vec![0; 192]).unwrap_err();
    assert!(matches!(error, FormatError::Ambiguous { .. }), "{error}");
    let both = "raw with 2 montgomery points of g1, or raw with 1 montgomery points of g2";
    assert!(error.to_string().contains(both), "{error}");
    assert_eq!(parse(vec![0; 192].into(), None, Some(Group::G2)).unwrap()[0].count(), 1);
}

#[test]
fn errors_describe_the_problem() {
    let message =
        |file: Vec<u8>, format, group| parse(file.into(), format, group).unwrap_err().to_string();
    let zcash = points::encode(PointEncoding::Compressed, &some::<G1Affine>(3));
    assert_eq!(message(vec![], None, None), "the file has no points");
    assert!(message(vec![7; 96], None, None).starts_with("not points in any known format"));
    let cut = zcash[..100].to_vec();
    assert_eq!(
        message(cut, Some(PointFormat::Zcash), Some(Group::G1)),
        "100 bytes are not a whole number of 48-byte points"
    );
    let mut ark = 4_u64.to_le_bytes().to_vec();
    ark.extend_from_slice(&zcash);
    assert!(message(ark, Some(PointFormat::Ark), None).contains("announces 4 points, 144 bytes"));
    assert!(message(vec![1, 2], Some(PointFormat::Ark), None).contains("2 bytes follow"));
    assert!(message(zcash, Some(PointFormat::KzgText), None).contains("it is not text"));
}

/// A count, and points in the encoding of arkworks 0.3: little-endian, with flags in the last byte.
fn old_ark<A: CurvePoint>(points: &[A]) -> Vec<u8> {
    let width = PointEncoding::Compressed.point_bytes(A::GROUP);
    let mut file = points::encode(PointEncoding::Compressed, points);
    for point in file.chunks_mut(width) {
        let is_greater = point[0] & 0x20 != 0;
        point[0] &= 0x1f;
        point[0] |= if is_greater { 0x80 } else { 0 };
        point.reverse();
    }
    [&(points.len() as u64).to_le_bytes()[..], &file].concat()
}

/// By their content, also under another name.
#[test]
fn files_that_are_not_read_are_named() {
    let (g1, g2) = (some::<G1Affine>(8), some::<G2Affine>(8));
    let compressed = points::encode(PointEncoding::Compressed, &g1);
    let uncompressed = points::encode(PointEncoding::Uncompressed, &g1);
    let counted = |count: [u8; 4], points: &[u8], rest: &[u8]| [&count[..], points, rest].concat();
    let count = 8_u32.to_be_bytes();
    let of_g2 = points::encode(PointEncoding::Compressed, &g2);
    let json = |text: &str| text.as_bytes().to_vec();
    let cases = [
        (counted(count, &compressed, &[]), FileFormat::GnarkOrBellmanPoints),
        (counted(count, &uncompressed, &[]), FileFormat::GnarkOrBellmanPoints),
        (counted(count, &of_g2, &of_g2), FileFormat::GnarkOrBellmanPoints),
        (counted(3_u32.to_le_bytes(), &uncompressed, &compressed), FileFormat::Halo2Setup),
        (old_ark(&g1), FileFormat::OldArk),
        (old_ark(&g2), FileFormat::OldArk),
        (json(r#"{"setup_G1": [], "setup_G2": []}"#), FileFormat::OldSetupJson),
        (json(r#"{"transcripts": [{"powersOfTau": {}}]}"#), FileFormat::CeremonyTranscript),
        (json(r#"{"protocol": "groth16", "vk_alpha_1": []}"#), FileFormat::SnarkjsVerifyingKey),
        (json(r#"{"vk_\u0061lpha_1": []}"#), FileFormat::SnarkjsVerifyingKey),
        (json("\u{feff}{\"pi_a\": []}"), FileFormat::SnarkjsProof),
        (json(r#"["1", "2"]"#), FileFormat::JsonList),
        // Their counts are written as `{` and `[`.
        (old_ark(&some::<G1Affine>(0x7b)), FileFormat::OldArk),
        (old_ark(&some::<G1Affine>(0x5b)), FileFormat::OldArk),
        (json("zkey and what follows"), FileFormat::Zkey),
    ];
    for (file, format) in cases {
        assert_eq!(FileFormat::detect(&file), Some(format));
        let refused = auto(file).unwrap_err();
        assert!(matches!(refused, FormatError::OtherFormat(got) if got == format), "{refused}");
        assert!(refused.to_string().ends_with(&format!("it is {format}")), "{refused}");
    }
    // A specified format that the length allows does not hide it.
    let refused = parse(old_ark(&g1).into(), Some(PointFormat::Ark), None).unwrap_err();
    assert!(matches!(refused, FormatError::OtherFormat(FileFormat::OldArk)), "{refused}");
    let other = [&7_u32.to_be_bytes()[..], &compressed[1..]].concat();
    for unknown in [&b""[..], b"\xff", b"{", b"text", &other] {
        assert_eq!(FileFormat::detect(unknown), None, "{unknown:?}");
    }
}

#[test]
fn leaves_invalid_points_of_a_known_format_to_the_server() {
    let mut zcash = points::encode(PointEncoding::Compressed, &some::<G1Affine>(2));
    zcash[47] ^= 1;
    let sets = parse(zcash.into(), Some(PointFormat::Zcash), Some(Group::G1)).unwrap();
    assert_eq!(sets[0].count(), 2);
}

#[test]
fn bit_reversal_moves_whole_points() {
    let points = some::<G1Affine>(8);
    let mut set = auto(points::encode(PointEncoding::Uncompressed, &points)).unwrap();
    set.bit_reverse().unwrap();
    let moved = points::decode::<G1Affine>(set.encoding, &set.data).unwrap();
    assert_eq!(moved, [0, 4, 2, 6, 1, 5, 3, 7].map(|index: usize| points[index]));
    let mut three = auto(points::encode(PointEncoding::Compressed, &points[..3])).unwrap();
    assert!(three.bit_reverse().is_err());
}
