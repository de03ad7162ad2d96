//! Reads a program from JSON, in which values have names.

use std::{collections::HashMap, fmt};

use ark_ff::PrimeField;
use capstan_math::field::FieldId;
use capstan_math::text::without_bom;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::{Map, Value};

use crate::{
    client::{Direction, Fr, Order, Prime31},
    formats::scalars::{self, Notation},
};

/// Help for the file.
pub const FORMAT: &str = "\
The program is JSON: a list of steps, each with the name of the value that it makes, and the names
of the values to return.

  {\"steps\": [
     {\"name\": \"f\", \"input\": {}},
     {\"name\": \"y\", \"evaluate\": {\"input\": \"f\", \"point\": \"0x1f\"}},
     {\"name\": \"q\", \"divide_by_linear\": {\"input\": \"f\", \"point\": \"0x1f\"}},
     {\"name\": \"proof\", \"msm\": {\"bases\": \"g1_monomial\", \"input\": \"q\"}}],
   \"outputs\": [\"y\", \"proof\"]}

Steps and their fields; fields in brackets can be left out:
  input                [field], [length], [rows], [columns]: by default the shape of its elements
                       in the file of --input, which are one row over a prime field
  constant             elements, [field]
  powers               base, length, [first], [field]: first, first * base, first * base^2, ...
  ntt                  input, [lg_n], [direction], [coset_generator], [input_order],
                       [output_order]: forward or inverse; natural or bit-reversed
  add, subtract, multiply, multiply_add, multiply_subtract, invert
                       inputs: a + b, a - b, a b, a b + c, a b - c, 1 / a
  scale                input, factor
  linear_combination   inputs, factors
  slice                input, offset, length
  concat               inputs
  pad                  input, length
  reshape              input, rows: all elements, in order, in another number of rows
  evaluate             input, point
  prefix_product       input: the products of the elements up to each, in each row
  divide_by_linear     input, point
  divide_by_vanishing  input, lg_n, coset_generator
  poly_mul             inputs, [cyclic], [negacyclic]: the product of two polynomials; with the
                       degree n of cyclic or negacyclic, modulo X^n - 1 or X^n + 1
  msm                  input, bases, [offset]: bases by id, prefix of an id, or label
  sparse_product       input, matrix: a stored matrix by id, prefix of an id, or label
  gf2_reduce           pivots, rows: rows of bits, reduced by pivot rows
  gf2_echelon          input: the reduced row echelon form of a matrix of bits
  int_mul              inputs: the products of two vectors of integers, row by row
  int_sum              inputs, factors, length: the sum of factors times integers, row by row,
                       modulo 2^(32 length)
Field elements are numbers, or strings in hex with 0x, or in decimal.

Fields: bls12-381-fr (the default), 7340033, 104857601, 469762049, 998244353, 1811939329, babybear,
koalabear, gf2 and integers. A step computes in the field of its inputs. Files of inputs and
outputs of a prime field have the encoding of --encoding; elements of primes below 2^31 have 4
bytes. Files of gf2 are matrices of bits, as `capstan gf2` has them; all list their columns in the
same order, and outputs have the format of the first one. Inputs over gf2 have no length. A matrix
in text ends with the highest column that it lists: specify columns if zero columns follow it. In
slice and pad, offset and length count words of 64 columns, and must be whole rows. Files of
integers have one per line, in decimal, or in hex after 0x; length is the number of limbs of 32
bits, by default that of the largest; outputs are decimal with --encoding decimal, else hex.";

/// A program as people write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramFile {
    pub steps: Vec<NamedStep>,
    pub outputs: Vec<String>,
}

/// A step, and the name of the value that it makes.
#[derive(Debug)]
pub struct NamedStep {
    pub name: String,
    /// The only key except `name`, such as `ntt`.
    pub kind: String,
    pub inputs: Vec<StepInput>,
    pub text: StepText,
}

/// A value that a step reads.
#[derive(Debug)]
pub struct StepInput {
    pub name: String,
    /// The member of the step that has the name, such as `pivots`.
    pub member: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[rustfmt::skip]
pub enum StepText {
    Input {
        #[serde(default)] field: FieldText,
        length: Option<u64>, rows: Option<u32>, columns: Option<u64>,
    },
    Constant { elements: Vec<FrText>, #[serde(default)] field: FieldText },
    Powers {
        base: FrText, length: u64, first: Option<FrText>, #[serde(default)] field: FieldText,
    },
    Ntt {
        input: String, lg_n: Option<u32>, coset_generator: Option<FrText>,
        #[serde(default, with = "DirectionText")] direction: Direction,
        #[serde(default, with = "OrderText")] input_order: Order,
        #[serde(default, with = "OrderText")] output_order: Order,
    },
    Add { inputs: [String; 2] },
    Subtract { inputs: [String; 2] },
    Multiply { inputs: [String; 2] },
    MultiplyAdd { inputs: [String; 3] },
    MultiplySubtract { inputs: [String; 3] },
    Invert { inputs: [String; 1] },
    Scale { input: String, factor: FrText },
    LinearCombination { inputs: Vec<String>, factors: Vec<FrText> },
    Slice { input: String, offset: u64, length: u64 },
    Concat { inputs: Vec<String> },
    Pad { input: String, length: u64 },
    Reshape { input: String, rows: u32 },
    Evaluate { input: String, point: FrText },
    PrefixProduct { input: String },
    DivideByLinear { input: String, point: FrText },
    DivideByVanishing { input: String, lg_n: u32, coset_generator: FrText },
    Msm { input: String, bases: String, #[serde(default)] offset: u64 },
    SparseProduct { input: String, matrix: String },
    PolyMul { inputs: [String; 2], cyclic: Option<u64>, negacyclic: Option<u64> },
    Gf2Reduce { pivots: String, rows: String },
    Gf2Echelon { input: String },
    IntMul { inputs: [String; 2] },
    IntSum { inputs: Vec<String>, factors: Vec<i64>, length: u64 },
}

#[derive(Deserialize)]
#[serde(remote = "Direction", rename_all = "kebab-case")]
enum DirectionText {
    Forward,
    Inverse,
}

#[derive(Deserialize)]
#[serde(remote = "Order", rename_all = "kebab-case")]
enum OrderText {
    Natural,
    BitReversed,
}

/// The field of a vector, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldText(pub FieldId);

impl Default for FieldText {
    fn default() -> Self {
        Self(FieldId::Bls12381Fr)
    }
}

impl FieldText {
    fn of_name(name: &str) -> Option<Self> {
        let primes = Prime31::ALL.iter().map(|prime| FieldId::from(*prime));
        let fields = [FieldId::Bls12381Fr, FieldId::Gf2, FieldId::Integers];
        fields.into_iter().chain(primes).find(|field| field.name() == name).map(Self)
    }
}

impl<'de> Deserialize<'de> for FieldText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let unknown = || D::Error::custom(format!("unknown field '{name}'"));
        Self::of_name(&name).ok_or_else(unknown)
    }
}

/// A field element: a number, or a string in hex or decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrText(pub Fr);

impl<'de> Deserialize<'de> for FrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FrVisitor)
    }
}

impl FrText {
    /// The element of the field of a prime below 2^31: below the prime, or minus such a number.
    pub fn word(self, field: Prime31) -> Option<u32> {
        let small = |value: Fr| match value.into_bigint().0 {
            [low, 0, 0, 0] => u32::try_from(low).ok().filter(|word| *word < field.modulus()),
            _ => None,
        };
        small(self.0).or_else(|| small(-self.0).map(|word| field.modulus() - word))
    }
}

struct FrVisitor;

impl Visitor<'_> for FrVisitor {
    type Value = FrText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field element: a number, or a string in hex with 0x, or in decimal")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<FrText, E> {
        Ok(FrText(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<FrText, E> {
        Ok(FrText(value.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FrText, E> {
        let notation = if text.starts_with("0x") { Notation::Hex } else { Notation::Decimal };
        match scalars::parse(notation, text, false) {
            Ok(bytes) if bytes.len() == scalars::SCALAR_BYTES => {
                Ok(FrText(Fr::from_le_bytes_mod_order(&bytes)))
            }
            _ => {
                let problem = "is not a number below the order of the field";
                Err(E::custom(format!("{text:?} {problem}")))
            }
        }
    }
}

/// The members of a step that name values, in the order of the step's inputs.
const VALUE_MEMBERS: [&str; 4] = ["input", "inputs", "pivots", "rows"];

/// The values that the step reads. Numbers in these members, such as the rows of an input, are not
/// names.
fn step_inputs(members: &Value) -> Vec<StepInput> {
    let mut inputs = Vec::new();
    for member in VALUE_MEMBERS {
        let names = match &members[member] {
            Value::String(name) => vec![name.clone()],
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        inputs.extend(names.into_iter().map(|name| StepInput { name, member }));
    }
    inputs
}

impl NamedStep {
    pub fn is_input(&self) -> bool {
        matches!(self.text, StepText::Input { .. })
    }

    /// The field that the step names, or its default, if the step reads no value.
    pub fn field(&self) -> Option<FieldId> {
        match &self.text {
            StepText::Input { field, .. }
            | StepText::Constant { field, .. }
            | StepText::Powers { field, .. } => Some(field.0),
            _ => None,
        }
    }
}

impl ProgramFile {
    /// Errors: a message for people; it names the step if a step is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let file: Self =
            serde_json::from_slice(without_bom(text)).map_err(|error| error.to_string())?;
        let mut names = HashMap::new();
        for (index, NamedStep { name, .. }) in file.steps.iter().enumerate() {
            if let Some(first) = names.insert(name, index) {
                return Err(format!("steps[{first}] and steps[{index}] have the name '{name}'"));
            }
        }
        let unknown = file.outputs.iter().find(|name| !names.contains_key(name));
        match unknown {
            Some(name) => Err(format!("outputs: no step has the name '{name}'")),
            None => Ok(file),
        }
    }
}

impl<'de> Deserialize<'de> for NamedStep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(from)?;
        let Some(Value::String(name)) = fields.remove("name") else {
            return Err(D::Error::custom("a step has no \"name\", which must be a string"));
        };
        let kinds: Vec<_> = fields.keys().cloned().collect();
        let [kind] = kinds.as_slice() else {
            let keys = kinds.join(", ");
            let problem = "needs one more key, the kind of step";
            return Err(D::Error::custom(format!("step '{name}' {problem}: it has [{keys}]")));
        };
        let field = fields[kind].get("field").and_then(Value::as_str);
        let field = field.and_then(FieldText::of_name);
        let over = field.map(|field| format!(" over {}", field.0)).unwrap_or_default();
        let inputs = step_inputs(&fields[kind]);
        let text = StepText::deserialize(Value::Object(fields));
        let wrong =
            |error: serde_json::Error| D::Error::custom(format!("step '{name}'{over}: {error}"));
        let text = text.map_err(wrong)?;
        Ok(Self { name, kind: kind.clone(), inputs, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        ProgramFile::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn reads_steps_and_field_elements() {
        let text = r#"{"steps": [
            {"name": "a", "constant": {"elements": [7, "0x1F", "-1", "12", -2]}},
            {"ntt": {"input": "a", "direction": "inverse", "output_order": "bit-reversed"},
             "name": "b"}], "outputs": ["b"]}"#;
        let file = ProgramFile::parse(text.as_bytes()).unwrap();
        let StepText::Constant { elements, .. } = &file.steps[0].text else { panic!("a constant") };
        let expected = [7, 31, -1, 12, -2].map(|value: i64| FrText(value.into()));
        assert_eq!(*elements, expected);
        assert_eq!((file.steps[1].kind.as_str(), file.steps[1].name.as_str()), ("ntt", "b"));
        assert_eq!(file.steps[1].inputs[0].name, "a");
    }

    #[test]
    fn field_elements_are_of_the_field_of_their_step() {
        let prime = Prime31::BabyBear;
        let word = |value: i64| FrText(value.into()).word(prime);
        let modulus = i64::from(prime.modulus());
        assert_eq!([word(0), word(7), word(-1)], [0, 7, prime.modulus() - 1].map(Some));
        assert_eq!([word(modulus - 1), word(1 - modulus)], [prime.modulus() - 1, 1].map(Some));
        assert_eq!([word(modulus), word(-modulus), word(i64::MAX)], [None; 3]);
    }

    #[test]
    fn refuses_what_it_does_not_know_and_names_the_step() {
        let step = |step: &str| refused(&format!(r#"{{"steps": [{step}], "outputs": []}}"#));
        let unknown = step(r#"{"name": "x", "nttt": {"input": "a"}}"#);
        assert!(unknown.contains("step 'x': unknown variant `nttt`"), "{unknown}");
        let field = step(r#"{"name": "x", "slice": {"input": "a", "length": 1, "offest": 2}}"#);
        assert!(field.contains("step 'x': unknown field `offest`"), "{field}");
        let number = step(r#"{"name": "x", "evaluate": {"input": "a", "point": "0xzz"}}"#);
        assert!(number.contains("step 'x': \"0xzz\" is not a number below"), "{number}");
        let constant = r#"{"name": "x", "constant": {"elements": ["q"], "field": "babybear"}}"#;
        let number = step(constant);
        assert!(number.contains("step 'x' over babybear: \"q\" is not a number"), "{number}");
        let field = step(r#"{"name": "x", "input": {"field": "goldilocks"}}"#);
        assert!(field.contains("step 'x': unknown field 'goldilocks'"), "{field}");
        let arity = step(r#"{"name": "x", "add": {"inputs": ["a"]}}"#);
        assert!(arity.contains("step 'x': invalid length 1"), "{arity}");
        let two = step(r#"{"name": "x", "pad": {}, "slice": {}}"#);
        assert!(two.contains("it has [pad, slice]"), "{two}");
        assert!(step(r#"{"pad": {}}"#).contains("a step has no \"name\""));
        assert!(refused(r#"{"steps": [], "outputs": [], "output": []}"#).contains("`output`"));
        assert!(refused(r#"{"steps": [], "outputs": ["q"]}"#).contains("'q'"));
        let input = r#"{"name": "f", "input": {}}"#;
        let twice = step(&format!("{input}, {input}"));
        assert!(twice.contains("steps[0] and steps[1] have the name 'f'"), "{twice}");
    }
}
