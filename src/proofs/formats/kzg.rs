//! Ethereum's KZG trusted setups: the JSON of the consensus specifications and c-kzg's text.

use ark_bls12_381::Bls12_381;
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM, pairing::Pairing};
use ark_ff::{FftField, One};
use capstan_math::text::without_bom;
use serde::Deserialize;

pub use super::SetupList;
use super::{FormatError, PointSet};
use crate::curve::{
    Fr, G1Affine, G1Projective, G2Affine,
    points::{self, CurvePoint, PointEncoding},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupJson {
    g1_monomial: Option<Vec<String>>,
    g1_lagrange: Option<Vec<String>>,
    g2_monomial: Option<Vec<String>>,
}

/// Reads `{"g1_monomial": ["0x..", ..], "g1_lagrange": [..], "g2_monomial": [..]}`. Lists may be
/// absent, but at least one must have points.
///
/// Encoding: compressed points in hex, with or without `0x`.
/// Errors: `Json`, also for other keys; `Element` with list and index for hex of another length;
/// `Empty`; `WrongList` if a list is not what its name says.
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
/// length; `Empty`; `WrongList` if a list is not what its place says.
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

/// The lists that have points, which are what their names say; `Empty` if none has.
fn point_sets<S: AsRef<str>>(lists: [HexPoints<'_, S>; 3]) -> Result<Vec<PointSet>, FormatError> {
    let sets = lists.into_iter().filter(|list| !list.points.is_empty()).map(decode_list);
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    if sets.is_empty() {
        return Err(FormatError::Empty);
    }
    SetupPoints::read(&sets).check()?;
    Ok(sets)
}

/// The points that are compared. Empty if one of them is invalid: the server reports that point.
#[derive(Default)]
struct SetupPoints {
    /// At most two points.
    g1_monomial: Vec<G1Affine>,
    /// All points.
    g1_lagrange: Vec<G1Affine>,
    /// At most two points.
    g2_monomial: Vec<G2Affine>,
}

impl SetupPoints {
    fn read(sets: &[PointSet]) -> Self {
        let mut setup = Self::default();
        for set in sets {
            match set.list {
                Some(SetupList::G1Monomial) => setup.g1_monomial = first_points(set, 2),
                Some(SetupList::G1Lagrange) => setup.g1_lagrange = first_points(set, set.count()),
                Some(SetupList::G2Monomial) => setup.g2_monomial = first_points(set, 2),
                None => {}
            }
        }
        setup
    }

    /// Errors: `WrongList`.
    fn check(&self) -> Result<(), FormatError> {
        let wrong = |list, problem| Err(FormatError::WrongList { list, problem });
        let not_powers = "its first point is not the generator, as that of powers of tau is";
        if self.g1_monomial.first().is_some_and(|first| *first != G1Affine::generator()) {
            return wrong(SetupList::G1Monomial, not_powers);
        }
        if self.g2_monomial.first().is_some_and(|first| *first != G2Affine::generator()) {
            return wrong(SetupList::G2Monomial, not_powers);
        }
        if let Some(tau) = self.g1_monomial.get(1)
            && !self.has_tau(*tau)
        {
            return wrong(SetupList::G2Monomial, "it has another tau than g1_monomial");
        }
        self.check_lagrange().or_else(|problem| wrong(SetupList::G1Lagrange, problem))
    }

    fn check_lagrange(&self) -> Result<(), &'static str> {
        let points = &self.g1_lagrange;
        if points.is_empty() {
            return Ok(());
        }
        // There are also roots of unity of other orders.
        if !points.len().is_power_of_two() {
            return Err("its length is not a power of two");
        }
        let root = Fr::get_root_of_unity(points.len() as u64);
        let root = root.ok_or("it is longer than 2^32")?;
        // The sum of the Lagrange polynomials L_i is 1, and that of root^i L_i is X.
        let sum: G1Projective = points.iter().sum();
        if sum != G1Affine::generator() {
            return Err("its points do not sum to the generator, as Lagrange points do");
        }
        if points.len() == 1 {
            return Ok(());
        }
        let powers: Vec<_> = std::iter::successors(Some(Fr::one()), |power| Some(*power * root))
            .take(points.len())
            .collect();
        let tau = G1Projective::msm_unchecked(points, &powers).into_affine();
        let is_of_monomial = self.g1_monomial.get(1).is_none_or(|expected| *expected == tau);
        match is_of_monomial && self.has_tau(tau) {
            true => Ok(()),
            false => Err("it has another tau than the other lists, or is not in natural order"),
        }
    }

    /// Whether the points in G2 are powers of the same tau, as far as there are any.
    fn has_tau(&self, tau: G1Affine) -> bool {
        self.g2_monomial.get(1).is_none_or(|in_g2| {
            Bls12_381::pairing(tau, G2Affine::generator())
                == Bls12_381::pairing(G1Affine::generator(), *in_g2)
        })
    }
}

/// At most `count` points from the beginning of a list; none if one of them is invalid.
fn first_points<A: CurvePoint>(set: &PointSet, count: usize) -> Vec<A> {
    let bytes = set.encoding.point_bytes(set.group) * count.min(set.count());
    points::decode(set.encoding, &set.data[..bytes]).unwrap_or_default()
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
