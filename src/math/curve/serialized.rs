//! Field elements in messages between processes of one host: their Montgomery limbs.

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

/// Sums of MSMs, for `serde(with)`: their limbs in memory, since both processes run one binary.
pub mod sums {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::curve::{
        Group,
        layout::{sums_as_bytes, sums_from_bytes},
        points::MsmSums,
    };

    /// Writes the group of the sums, and their limbs.
    ///
    /// Errors: those of the serializer.
    pub fn serialize<S: Serializer>(sums: &MsmSums, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = match sums {
            MsmSums::G1(sums) => sums_as_bytes(sums),
            MsmSums::G2(sums) => sums_as_bytes(sums),
        };
        (sums.group(), bytes).serialize(serializer)
    }

    /// Reads sums. Does not check that they are on the curve: see [`MsmSums::are_on_curve`].
    ///
    /// Errors: those of the deserializer; not a whole number of sums.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MsmSums, D::Error> {
        let (group, bytes) = <(Group, &[u8])>::deserialize(deserializer)?;
        let sums = match group {
            Group::G1 => sums_from_bytes(bytes).map(MsmSums::G1),
            Group::G2 => sums_from_bytes(bytes).map(MsmSums::G2),
        };
        sums.ok_or_else(|| D::Error::custom("not a whole number of sums"))
    }
}
