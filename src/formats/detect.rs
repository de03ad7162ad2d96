//! Binary files of points: arkworks' serialization, Zcash's encodings, Montgomery limbs; and
//! detection of a file's format.

use std::{fmt, str};

use bytes::{Buf, Bytes};

use super::{FormatError, PointSet, kzg};
use crate::curve::{
    G1Affine, G2Affine, Group,
    points::{self, PointEncoding},
};

/// The format of a file of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PointFormat {
    /// The consensus specifications' trusted setup.
    KzgJson,
    /// c-kzg's trusted setup.
    KzgText,
    /// arkworks' `Vec<G1Affine>` or `Vec<G2Affine>`: a little-endian 64-bit count, then points in
    /// Zcash's encoding, compressed or not.
    Ark,
    /// Compressed or uncompressed points back to back: 48, 96 or 192 bytes each.
    Zcash,
    /// Montgomery limbs back to back: 96 or 192 bytes each.
    Raw,
}

impl PointFormat {
    const BINARY: [Self; 3] = [Self::Ark, Self::Zcash, Self::Raw];

    /// The format's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KzgJson => "kzg-json",
            Self::KzgText => "kzg-text",
            Self::Ark => "ark",
            Self::Zcash => "zcash",
            Self::Raw => "raw",
        }
    }

    /// Point encodings that a binary format may use; empty for text formats.
    const fn encodings(self) -> &'static [PointEncoding] {
        match self {
            Self::KzgJson | Self::KzgText => &[],
            Self::Ark | Self::Zcash => &[PointEncoding::Compressed, PointEncoding::Uncompressed],
            Self::Raw => &[PointEncoding::Montgomery],
        }
    }
}

impl fmt::Display for PointFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads a file of points. Detects `format` and `group` if they are `None`.
///
/// Errors: `UnknownFormat` or `Ambiguous` if detection fails; otherwise those of the format.
pub fn parse(
    file: Bytes,
    format: Option<PointFormat>,
    group: Option<Group>,
) -> Result<Vec<PointSet>, FormatError> {
    if file.is_empty() {
        return Err(FormatError::Empty);
    }
    match format.or_else(|| text_format(&file)) {
        Some(PointFormat::KzgJson) => kzg::parse_json(&file),
        Some(PointFormat::KzgText) => {
            let text = str::from_utf8(&file)
                .map_err(|_| FormatError::Text("it is not text".to_owned()))?;
            kzg::parse_text(text)
        }
        Some(format) => Ok(vec![detect(&file, &[format], group)?]),
        None => Ok(vec![detect(&file, &PointFormat::BINARY, group)?]),
    }
}

/// Detects text formats: their first character is `{` or a digit, and the first 256 bytes are text.
fn text_format(file: &[u8]) -> Option<PointFormat> {
    let head = &file[..file.len().min(256)];
    if !head.is_ascii() {
        return None;
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace())?;
    let text = head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    match first {
        b'{' if text => Some(PointFormat::KzgJson),
        b'0'..=b'9' if text => Some(PointFormat::KzgText),
        _ => None,
    }
}

/// The only interpretation with valid points.
fn detect(
    file: &Bytes,
    formats: &[PointFormat],
    group: Option<Group>,
) -> Result<PointSet, FormatError> {
    let groups: &[_] = match group {
        Some(Group::G1) => &[Group::G1],
        Some(Group::G2) => &[Group::G2],
        None => &[Group::G1, Group::G2],
    };
    let mut problem = None;
    let mut shaped = Vec::new();
    for &format in formats {
        for (&group, &encoding) in
            groups.iter().flat_map(|g| format.encodings().iter().map(move |e| (g, e)))
        {
            match interpret(file, format, group, encoding) {
                Ok(Some(points)) => shaped.push((format, points)),
                Ok(None) => {}
                Err(error) => problem = Some(error),
            }
        }
    }
    // If the arguments leave one interpretation, the server reports invalid points.
    if let [(_, points)] = shaped.as_slice()
        && formats.len() == 1
    {
        return Ok(points.clone());
    }
    if shaped.is_empty() && formats.len() == 1 {
        return Err(problem.unwrap_or(FormatError::UnknownFormat));
    }
    let mut likely: Vec<_> =
        shaped.iter().filter(|(_, points)| sample_is_valid(points)).cloned().collect();
    match likely.len() {
        0 => Err(FormatError::UnknownFormat),
        1 => Ok(likely.remove(0).1),
        _ => Err(FormatError::Ambiguous { candidates: describe(&likely) }),
    }
}

/// The file as points of the given encoding; `None` if the first point's flags show another one.
///
/// Errors: a length that does not match the encoding.
fn interpret(
    file: &Bytes,
    format: PointFormat,
    group: Group,
    encoding: PointEncoding,
) -> Result<Option<PointSet>, FormatError> {
    let width = encoding.point_bytes(group);
    let mut data = file.clone();
    if format == PointFormat::Ark {
        let announced = if data.len() < 8 { u64::MAX } else { data.get_u64_le() };
        if announced.checked_mul(width as u64) != Some(data.len() as u64) {
            return Err(FormatError::CountMismatch { announced, bytes: data.len() });
        }
    }
    if data.is_empty() {
        return Err(FormatError::Empty);
    }
    let compressed = data[0] & 0x80 != 0;
    if encoding != PointEncoding::Montgomery
        && compressed != (encoding == PointEncoding::Compressed)
    {
        return Ok(None);
    }
    if !data.len().is_multiple_of(width) {
        return Err(FormatError::Length { bytes: data.len(), width, what: "points" });
    }
    Ok(Some(PointSet { list: None, group, encoding, data }))
}

/// Whether a sample of the file's points is valid.
fn sample_is_valid(set: &PointSet) -> bool {
    let width = set.encoding.point_bytes(set.group);
    let last = set.count() - 1;
    [0, last / 3, last / 2, last].into_iter().all(|index| {
        let point = &set.data[index * width..(index + 1) * width];
        match set.group {
            Group::G1 => points::decode::<G1Affine>(set.encoding, point).is_ok(),
            Group::G2 => points::decode::<G2Affine>(set.encoding, point).is_ok(),
        }
    })
}

fn describe(candidates: &[(PointFormat, PointSet)]) -> String {
    let one = |(format, points): &(PointFormat, PointSet)| {
        let encoding = match points.encoding {
            PointEncoding::Compressed => "compressed",
            PointEncoding::Uncompressed => "uncompressed",
            PointEncoding::Montgomery => "montgomery",
        };
        format!("{format} with {} {encoding} points of {}", points.count(), points.group)
    };
    candidates.iter().map(one).collect::<Vec<_>>().join(", or ")
}

#[cfg(test)]
mod tests {
    use ark_ec::CurveGroup;
    use ark_serialize::CanonicalSerialize;

    use super::*;
    use crate::curve::points::CurvePoint;

    fn some<A: CurvePoint>(n: u64) -> Vec<A> {
        (1..=n).map(|k| (A::generator() * crate::curve::Fr::from(k)).into_affine()).collect()
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
        let ceremony = include_bytes!("../../tests/data/trusted_setup_4096.json");
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
        let message = |file: Vec<u8>, format, group| {
            parse(file.into(), format, group).unwrap_err().to_string()
        };
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
        assert!(
            message(ark, Some(PointFormat::Ark), None).contains("announces 4 points, 144 bytes")
        );
        assert!(message(vec![1, 2], Some(PointFormat::Ark), None).contains("2 bytes follow"));
        assert!(message(zcash, Some(PointFormat::KzgText), None).contains("it is not text"));
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
}
