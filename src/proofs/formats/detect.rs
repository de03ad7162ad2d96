//! Binary files of points: arkworks' serialization, Zcash's encodings, Montgomery limbs; and
//! detection of a file's format, also if nothing here reads it.

use std::{
    borrow::{Borrow, Cow},
    collections::BTreeMap,
    fmt, str,
};

use bytes::{Buf, Bytes};
use capstan_math::text::without_bom;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    FileFormat, FormatError, PointSet, kzg,
    layout::{
        BinaryLayout, GNARK_KEY, GNARK_PROOF,
        LayoutPart::{List, Rest},
        PROOF, PROVING_KEY, VERIFYING_KEY,
    },
};
use crate::curve::{
    G1Affine, G2Affine,
    Group::{self, G1, G2},
    points::{self, PointEncoding},
};

/// A key of a JSON object that only this format has.
struct JsonMark {
    format: FileFormat,
    key: &'static str,
}

/// A key of a JSON object: copied only if it has escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
struct JsonKey<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for JsonKey<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

struct KnownLayout {
    format: FileFormat,
    layout: BinaryLayout,
}

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

impl FileFormat {
    const MAGIC: [(&[u8; 4], Self); 4] = [
        (b"r1cs", Self::R1cs),
        (b"wtns", Self::Wtns),
        (b"zkey", Self::Zkey),
        (b"ptau", Self::Ptau),
    ];

    const JSON: [JsonMark; 10] = [
        JsonMark { format: Self::SetupJson, key: "g1_monomial" },
        JsonMark { format: Self::SetupJson, key: "g1_lagrange" },
        JsonMark { format: Self::SetupJson, key: "g2_monomial" },
        JsonMark { format: Self::OldSetupJson, key: "setup_G1" },
        JsonMark { format: Self::OldSetupJson, key: "setup_G1_lagrange" },
        JsonMark { format: Self::CeremonyTranscript, key: "transcripts" },
        JsonMark { format: Self::CeremonyTranscript, key: "powersOfTau" },
        JsonMark { format: Self::SnarkjsVerifyingKey, key: "vk_alpha_1" },
        JsonMark { format: Self::SnarkjsProof, key: "pi_a" },
        JsonMark { format: Self::KeyDescription, key: "public_variables" },
    ];

    /// The format of a file; `None` if it is not known. Of the file, at most keys of JSON are
    /// copied.
    pub fn detect(file: &[u8]) -> Option<Self> {
        let magic = Self::MAGIC.iter().find(|(magic, _)| file.starts_with(*magic));
        if let Some((_, format)) = magic {
            return Some(*format);
        }
        let of_layout = || {
            let known = LAYOUTS.iter().find(|known| known.layout.matches(file));
            known.map(|known| known.format)
        };
        Self::of_text(without_bom(file)).or_else(of_layout)
    }

    fn of_text(file: &[u8]) -> Option<Self> {
        let head = &file[..file.len().min(256)];
        let is_hex = |byte: &u8| byte.is_ascii_hexdigit() || b"x\r\n ".contains(byte);
        match head.iter().find(|byte| !byte.is_ascii_whitespace())? {
            b'{' => {
                let keys: BTreeMap<JsonKey<'_>, IgnoredAny> = serde_json::from_slice(file).ok()?;
                let mark = Self::JSON.iter().find(|mark| keys.contains_key(mark.key));
                Some(mark.map_or(Self::JsonObject, |mark| mark.format))
            }
            b'[' => serde_json::from_slice::<Vec<IgnoredAny>>(file).ok().map(|_| Self::JsonList),
            _ if head.iter().all(is_hex) => Some(Self::HexText),
            _ => None,
        }
    }

    /// Whether a reader of points tells more about such a file than its format.
    fn may_be_read_as_points(self) -> bool {
        matches!(
            self,
            Self::SetupJson
                | Self::JsonObject
                | Self::HexText
                | Self::ArkPoints
                | Self::ZcashPoints
        )
    }
}

const LAYOUTS: [KnownLayout; 17] = [
    KnownLayout { format: FileFormat::ArkProof, layout: BinaryLayout::ark(PROOF) },
    KnownLayout { format: FileFormat::ArkVerifyingKey, layout: BinaryLayout::ark(VERIFYING_KEY) },
    KnownLayout { format: FileFormat::ArkProvingKey, layout: BinaryLayout::ark(PROVING_KEY) },
    KnownLayout { format: FileFormat::ArkPoints, layout: BinaryLayout::ark(&[List(G1)]) },
    KnownLayout { format: FileFormat::ArkPoints, layout: BinaryLayout::ark(&[List(G2)]) },
    KnownLayout { format: FileFormat::OldArk, layout: BinaryLayout::old_ark(PROOF) },
    KnownLayout { format: FileFormat::OldArk, layout: BinaryLayout::old_ark(VERIFYING_KEY) },
    KnownLayout { format: FileFormat::OldArk, layout: BinaryLayout::old_ark(PROVING_KEY) },
    KnownLayout { format: FileFormat::OldArk, layout: BinaryLayout::old_ark(&[List(G1)]) },
    KnownLayout { format: FileFormat::OldArk, layout: BinaryLayout::old_ark(&[List(G2)]) },
    KnownLayout { format: FileFormat::GnarkProof, layout: BinaryLayout::gnark(GNARK_PROOF) },
    KnownLayout { format: FileFormat::GnarkOrBellmanKey, layout: BinaryLayout::gnark(GNARK_KEY) },
    KnownLayout {
        format: FileFormat::GnarkOrBellmanPoints,
        layout: BinaryLayout::gnark(&[List(G1)]),
    },
    KnownLayout {
        format: FileFormat::GnarkOrBellmanPoints,
        layout: BinaryLayout::gnark(&[List(G2)]),
    },
    KnownLayout { format: FileFormat::Halo2Setup, layout: BinaryLayout::HALO2_SETUP },
    KnownLayout { format: FileFormat::ZcashPoints, layout: BinaryLayout::ark(&[Rest(G1)]) },
    KnownLayout { format: FileFormat::ZcashPoints, layout: BinaryLayout::ark(&[Rest(G2)]) },
];

/// Reads a file of points. Detects `format` and `group` if they are `None`.
///
/// Errors: `UnknownFormat` or `Ambiguous` if detection fails; `OtherFormat` if the file has a known
/// format that is not read here; otherwise those of the format.
pub fn parse(
    file: Bytes,
    format: Option<PointFormat>,
    group: Option<Group>,
) -> Result<Vec<PointSet>, FormatError> {
    if file.is_empty() {
        return Err(FormatError::Empty);
    }
    let text_file = without_bom(&file);
    let parsed = match format.or_else(|| text_format(text_file)) {
        Some(PointFormat::KzgJson) => kzg::parse_json(text_file),
        Some(PointFormat::KzgText) => {
            let text = str::from_utf8(text_file);
            let text = text.map_err(|_| FormatError::Text("it is not text".into()));
            text.and_then(kzg::parse_text)
        }
        Some(format) => detect(&file, &[format], group).map(|points| vec![points]),
        None => detect(&file, &PointFormat::BINARY, group).map(|points| vec![points]),
    };
    if parsed.as_ref().is_ok_and(|sets| sets.iter().all(sample_is_valid)) {
        return parsed;
    }
    match FileFormat::detect(&file) {
        Some(format) if !format.may_be_read_as_points() => Err(FormatError::OtherFormat(format)),
        _ => parsed,
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
