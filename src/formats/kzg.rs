//! Ethereum's KZG trusted setups: the JSON of the consensus specifications and c-kzg's text.

use serde::Deserialize;

pub use super::SetupList;
use super::{FormatError, PointSet};
use crate::{curve::points::PointEncoding, files::without_bom};

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
    let json: SetupJson = serde_json::from_slice(without_bom(bytes))?;
    point_sets([
        HexPoints {
            list: SetupList::G1Monomial,
            points: json.g1_monomial.as_deref().unwrap_or_default(),
        },
        HexPoints {
            list: SetupList::G1Lagrange,
            points: json.g1_lagrange.as_deref().unwrap_or_default(),
        },
        HexPoints {
            list: SetupList::G2Monomial,
            points: json.g2_monomial.as_deref().unwrap_or_default(),
        },
    ])
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
    let full = g1 + g2 + g1;
    if points.len() != full && points.len() != g1 + g2 {
        let got = points.len();
        return Err(FormatError::Text(format!(
            "{g1} G1 and {g2} G2 points were announced, so {full} lines must follow, not {got}"
        )));
    }
    let (lagrange, rest) = points.split_at(g1);
    let (g2_monomial, g1_monomial) = rest.split_at(g2);
    point_sets([
        HexPoints { list: SetupList::G1Lagrange, points: lagrange },
        HexPoints { list: SetupList::G2Monomial, points: g2_monomial },
        HexPoints { list: SetupList::G1Monomial, points: g1_monomial },
    ])
}

/// Compressed points in hex.
struct HexPoints<'a, S> {
    list: SetupList,
    points: &'a [S],
}

/// The lists that have points; `Empty` if none has.
fn point_sets<S: AsRef<str>>(lists: [HexPoints<'_, S>; 3]) -> Result<Vec<PointSet>, FormatError> {
    let sets = lists.into_iter().filter(|list| !list.points.is_empty()).map(decode_list);
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    if sets.is_empty() { Err(FormatError::Empty) } else { Ok(sets) }
}

fn decode_list<S: AsRef<str>>(
    HexPoints { list, points }: HexPoints<'_, S>,
) -> Result<PointSet, FormatError> {
    let encoding = PointEncoding::Compressed;
    let width = encoding.point_bytes(list.group());
    let mut data = vec![0; points.len() * width];
    for (index, (point, out)) in points.iter().zip(data.chunks_exact_mut(width)).enumerate() {
        let point = point.as_ref();
        let digits = point.strip_prefix("0x").unwrap_or(point);
        hex::decode_to_slice(digits, out).map_err(|_| {
            let problem = format!("expected {} hex digits", 2 * width);
            FormatError::Element { field: list.name(), index, problem }
        })?;
    }
    Ok(PointSet { list: Some(list), group: list.group(), encoding, data: data.into() })
}
