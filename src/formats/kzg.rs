//! Ethereum's KZG trusted setups: the JSON of the consensus specifications and c-kzg's text.

use std::fmt;

use serde::Deserialize;

use super::{FormatError, PointSet};
use crate::curve::{Group, points::PointEncoding};

/// One list of a trusted setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetupList {
    /// `[L_i(tau)] G1`, natural order.
    G1Lagrange,
    /// `[tau^i] G1`.
    G1Monomial,
    /// `[tau^i] G2`.
    G2Monomial,
}

impl SetupList {
    /// All lists, in the order of the JSON.
    pub const ALL: [Self; 3] = [Self::G1Monomial, Self::G1Lagrange, Self::G2Monomial];

    /// The list's name in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::G1Lagrange => "g1_lagrange",
            Self::G1Monomial => "g1_monomial",
            Self::G2Monomial => "g2_monomial",
        }
    }

    /// The points' group.
    pub const fn group(self) -> Group {
        match self {
            Self::G1Lagrange | Self::G1Monomial => Group::G1,
            Self::G2Monomial => Group::G2,
        }
    }
}

impl fmt::Display for SetupList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Deserialize)]
struct SetupJson {
    g1_monomial: Option<Vec<String>>,
    g1_lagrange: Option<Vec<String>>,
    g2_monomial: Option<Vec<String>>,
}

/// Reads `{"g1_monomial": ["0x..", ..], "g1_lagrange": [..], "g2_monomial": [..]}`. Lists may be
/// absent, but at least one must have points.
///
/// Encoding: compressed points in hex, with or without `0x`.
/// Errors: `Json`; `Element` with list and index for hex of another length; `Empty`.
pub fn parse_json(bytes: &[u8]) -> Result<Vec<PointSet>, FormatError> {
    let json: SetupJson = serde_json::from_slice(bytes)?;
    let lists = [
        (SetupList::G1Monomial, json.g1_monomial),
        (SetupList::G1Lagrange, json.g1_lagrange),
        (SetupList::G2Monomial, json.g2_monomial),
    ];
    let sets: Vec<_> = lists
        .into_iter()
        .filter_map(|(set, points)| points.map(|points| (set, points)))
        .filter(|(_, points)| !points.is_empty())
        .map(|(set, points)| compressed_hex(set, points.iter().map(String::as_str)))
        .collect::<Result<_, _>>()?;
    if sets.is_empty() { Err(FormatError::Empty) } else { Ok(sets) }
}

/// Reads c-kzg's text: the number of G1 points, the number of G2 points, then one compressed point
/// in hex per line: G1 Lagrange, G2 monomial, G1 monomial (the last absent in older files).
///
/// Errors: `Text` for another number of lines; `Element` with list and index for hex of another
/// length; `Empty`.
pub fn parse_text(text: &str) -> Result<Vec<PointSet>, FormatError> {
    let mut words = text.split_ascii_whitespace();
    let mut count = |what| {
        let word: Option<usize> = words.next().and_then(|word| word.parse().ok());
        word.filter(|&count| count <= text.len())
            .ok_or_else(|| FormatError::Text(format!("expected the number of {what} points")))
    };
    let (g1, g2) = (count("G1")?, count("G2")?);
    let points: Vec<_> = words.collect();
    let order: &[_] = if points.len() == g1 + g2 {
        &[(SetupList::G1Lagrange, g1), (SetupList::G2Monomial, g2)]
    } else if points.len() == g1 + g2 + g1 {
        &[(SetupList::G1Lagrange, g1), (SetupList::G2Monomial, g2), (SetupList::G1Monomial, g1)]
    } else {
        let full = g1 + g2 + g1;
        let got = points.len();
        return Err(FormatError::Text(format!(
            "{g1} G1 and {g2} G2 points were announced, so {full} lines must follow, not {got}"
        )));
    };
    let mut rest = points.as_slice();
    let mut sets = Vec::with_capacity(order.len());
    for &(set, count) in order.iter().filter(|(_, count)| *count > 0) {
        let (these, others) = rest.split_at(count);
        sets.push(compressed_hex(set, these.iter().copied())?);
        rest = others;
    }
    if sets.is_empty() { Err(FormatError::Empty) } else { Ok(sets) }
}

fn compressed_hex<'a>(
    set: SetupList,
    points: impl ExactSizeIterator<Item = &'a str>,
) -> Result<PointSet, FormatError> {
    let encoding = PointEncoding::Compressed;
    let width = encoding.point_bytes(set.group());
    let mut data = vec![0; points.len() * width];
    for (index, (point, out)) in points.zip(data.chunks_exact_mut(width)).enumerate() {
        let digits = point.strip_prefix("0x").unwrap_or(point);
        hex::decode_to_slice(digits, out).map_err(|_| {
            let problem = format!("expected {} hex digits", 2 * width);
            FormatError::Element { field: set.name(), index, problem }
        })?;
    }
    Ok(PointSet { list: Some(set), group: set.group(), encoding, data: data.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEREMONY: &[u8] = include_bytes!("../../tests/data/trusted_setup_4096.json");

    fn as_text(sets: &[PointSet], order: &[SetupList]) -> String {
        let mut text = String::from("4096\n65\n");
        for set in order {
            let points = sets.iter().find(|points| points.list == Some(*set)).unwrap();
            for point in points.data.chunks(points.encoding.point_bytes(points.group)) {
                text += &hex::encode(point);
                text.push('\n');
            }
        }
        text
    }

    #[test]
    fn reads_the_setup_of_the_ceremony() {
        let sets = parse_json(CEREMONY).unwrap();
        let shape: Vec<_> = sets.iter().map(|set| (set.list, set.count())).collect();
        assert_eq!(
            shape,
            [
                (Some(SetupList::G1Monomial), 4096),
                (Some(SetupList::G1Lagrange), 4096),
                (Some(SetupList::G2Monomial), 65),
            ]
        );
        // tau^0 is the generator.
        let generator = "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac58\
                         6c55e83ff97a1aeffb3af00adb22c6bb";
        assert_eq!(hex::encode(&sets[0].data[..48]), generator);
    }

    #[test]
    fn text_and_json_have_the_same_points() {
        let json = parse_json(CEREMONY).unwrap();
        let order = [SetupList::G1Lagrange, SetupList::G2Monomial, SetupList::G1Monomial];
        let text = parse_text(&as_text(&json, &order)).unwrap();
        assert_eq!(text.len(), 3);
        assert!(text.iter().all(|set| json.contains(set)));
        // Files from before EIP-7594 end after the G2 points.
        let old = parse_text(&as_text(&json, &order[..2])).unwrap();
        assert_eq!(old, text[..2]);
    }

    #[test]
    fn c_kzg_reads_the_same_points_from_the_text() {
        let json = parse_json(CEREMONY).unwrap();
        let order = [SetupList::G1Lagrange, SetupList::G2Monomial, SetupList::G1Monomial];
        let settings =
            c_kzg::KzgSettings::parse_kzg_trusted_setup(&as_text(&json, &order), 0).unwrap();
        let blob = c_kzg::Blob::from_bytes(&[7; c_kzg::BYTES_PER_BLOB]).unwrap();
        let ours = settings.blob_to_kzg_commitment(&blob).unwrap();
        let theirs = c_kzg::ethereum_kzg_settings(0).blob_to_kzg_commitment(&blob).unwrap();
        assert_eq!(ours.to_bytes(), theirs.to_bytes());
    }

    #[test]
    fn errors_name_the_list_and_the_index() {
        let message = |text: &str| parse_json(text.as_bytes()).unwrap_err().to_string();
        let good = "97".repeat(48);
        let json = |second: &str| format!(r#"{{"g1_lagrange": ["0x{good}", "{second}"]}}"#);
        let expected = "g1_lagrange[1]: expected 96 hex digits";
        assert_eq!(message(&json("0x97")), expected);
        assert_eq!(message(&json(&"zz".repeat(48))), expected);
        assert_eq!(message("{}"), "the file has no points");
        assert!(message("{").starts_with("not a KZG trusted setup: EOF"));
    }

    #[test]
    fn refuses_a_wrong_number_of_lines() {
        let message = |text: &str| parse_text(text).unwrap_err().to_string();
        assert!(message("").contains("expected the number of G1 points"));
        assert!(message("1\n1\n97").contains("3 lines must follow, not 1"));
        assert!(message("99999999999\n1\n").contains("expected the number of G1 points"));
        assert_eq!(message("1\n0\n97"), "g1_lagrange[0]: expected 96 hex digits");
    }
}
