//! Field elements and sums in messages between processes of one host, which run one binary: their
//! limbs in memory.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{
    Group,
    layout::{sums_as_bytes, sums_from_bytes},
    points::MsmSums,
};

/// A field element, for `serde(with)`.
pub mod fr {
    use serde::{Deserializer, Serializer, de::Error};

    use super::frs;
    use crate::curve::Fr;

    /// Writes an element: 32 bytes.
    ///
    /// Errors: those of the serializer.
    pub fn serialize<S: Serializer>(element: &Fr, serializer: S) -> Result<S::Ok, S::Error> {
        frs::serialize(std::slice::from_ref(element), serializer)
    }

    /// Reads an element.
    ///
    /// Errors: those of the deserializer; not exactly one element, or not canonical.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fr, D::Error> {
        let elements = frs::deserialize(deserializer)?;
        let [element] = elements.as_slice() else { return Err(D::Error::custom("one element")) };
        Ok(*element)
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
