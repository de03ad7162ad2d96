//! Binary files of points: arkworks' serialization, Zcash's encodings, Montgomery limbs; and
//! detection of a file's format.

use std::{fmt, str};

use bytes::{Buf, Bytes};

use super::{FormatError, PointSet, kzg};
use crate::{
    curve::{
        G1Affine, G2Affine, Group,
        points::{self, PointEncoding},
    },
    files::without_bom,
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
    let text_file = without_bom(&file);
    match format.or_else(|| text_format(text_file)) {
        Some(PointFormat::KzgJson) => kzg::parse_json(text_file),
        Some(PointFormat::KzgText) => {
            let text = str::from_utf8(text_file)
                .map_err(|_| FormatError::Text("it is not text".into()))?;
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
    let groups = group.map_or_else(|| vec![Group::G1, Group::G2], |group| vec![group]);
    let mut problem = None;
    let mut candidates = Vec::new();
    for &format in formats {
        for (&group, &encoding) in
            groups.iter().flat_map(|g| format.encodings().iter().map(move |e| (g, e)))
        {
            match interpret(file, format, group, encoding) {
                Ok(Some(points)) => candidates.push(Candidate { format, points }),
                Ok(None) => {}
                Err(error) => problem = Some(error),
            }
        }
    }
    // If the arguments leave one interpretation, the server reports invalid points.
    if formats.len() > 1 || candidates.len() > 1 {
        candidates.retain(|candidate| sample_is_valid(&candidate.points));
        problem = None;
    }
    match candidates.len() {
        0 => Err(problem.unwrap_or(FormatError::UnknownFormat)),
        1 => Ok(candidates.remove(0).points),
        _ => Err(FormatError::Ambiguous { candidates: describe(&candidates) }),
    }
}

/// An interpretation of a file.
struct Candidate {
    format: PointFormat,
    points: PointSet,
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

fn describe(candidates: &[Candidate]) -> String {
    let one = |Candidate { format, points }: &Candidate| {
        let encoding = match points.encoding {
            PointEncoding::Compressed => "compressed",
            PointEncoding::Uncompressed => "uncompressed",
            PointEncoding::Montgomery => "montgomery",
        };
        format!("{format} with {} {encoding} points of {}", points.count(), points.group)
    };
    candidates.iter().map(one).collect::<Vec<_>>().join(", or ")
}
