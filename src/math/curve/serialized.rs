//! Field elements and sums in messages between processes of one host, which run one binary: their
//! limbs in memory. In files that people write, elements are text.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{
    Group,
    layout::{sums_as_bytes, sums_from_bytes},
    points::MsmSums,
};

/// A field element, for `serde(with)`.
pub mod fr {
    use std::fmt;

    use ark_ff::{BigInt, PrimeField};
    use serde::{
        Deserializer, Serializer,
        de::{Error, Visitor},
    };

    use super::frs;
    use crate::curve::{Fr, scalars::Notation};

    /// Writes an element: 32 bytes.
    ///
    /// Errors: those of the serializer.
    pub fn serialize<S: Serializer>(element: &Fr, serializer: S) -> Result<S::Ok, S::Error> {
        frs::serialize(std::slice::from_ref(element), serializer)
    }

    /// Reads an element: in formats that people read, a number, or a string in hex or decimal.
    ///
    /// Errors: those of the deserializer; not exactly one element, or not canonical.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fr, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(ElementText);
        }
        let elements = frs::deserialize(deserializer)?;
        let [element] = elements.as_slice() else { return Err(D::Error::custom("one element")) };
        Ok(*element)
    }

    struct ElementText;

    impl Visitor<'_> for ElementText {
        type Value = Fr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a field element: a number, or a string in hex with 0x, or in decimal")
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Fr, E> {
            Ok(value.into())
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Fr, E> {
            Ok(value.into())
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Fr, E> {
            let notation = if text.starts_with("0x") { Notation::Hex } else { Notation::Decimal };
            let limbs = notation.limbs(text).ok();
            limbs.and_then(|limbs| Fr::from_bigint(BigInt(limbs))).ok_or_else(|| {
                E::custom(format!("{text:?} is not a number below the order of the field"))
            })
        }
    }
}

/// Field elements, for `serde(with)`.
pub mod frs {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::curve::{
        Fr, layout,
        scalars::{ScalarEncoding, decode_fr},
    };

    /// Writes elements, 32 bytes each.
    ///
    /// Errors: those of the serializer.
    pub fn serialize<S: Serializer>(elements: &[Fr], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(layout::fr_as_bytes(elements))
    }

    /// Reads elements.
    ///
    /// Errors: those of the deserializer; not a whole number of elements, or not canonical.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fr>, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        if !bytes.len().is_multiple_of(size_of::<Fr>()) {
            return Err(D::Error::custom("not a whole number of elements"));
        }
        let mut elements = vec![Fr::default(); bytes.len() / size_of::<Fr>()];
        decode_fr(ScalarEncoding::Montgomery, bytes, false, &mut elements)
            .map_err(|_| D::Error::custom("not canonical"))?;
        Ok(elements)
    }
}

impl Serialize for MsmSums {
    /// Writes the group of the sums, and their limbs in memory.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = match self {
            Self::G1(sums) => sums_as_bytes(sums),
            Self::G2(sums) => sums_as_bytes(sums),
        };
        (self.group(), bytes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MsmSums {
    /// Does not check that the sums are on the curve: see [`MsmSums::are_on_curve`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (group, bytes) = <(Group, &[u8])>::deserialize(deserializer)?;
        let sums = match group {
            Group::G1 => sums_from_bytes(bytes).map(Self::G1),
            Group::G2 => sums_from_bytes(bytes).map(Self::G2),
        };
        sums.ok_or_else(|| D::Error::custom("not a whole number of sums"))
    }
}
