//! Reads a program from JSON, in which values have names. A step is an [`Operation`]; kinds that
//! need more than the values that they read are in [`StepParts`].

use std::{collections::HashMap, slice};

use capstan_math::{
    field::FieldId,
    operation::{Gf2ReduceStep, Operation, PointwiseOperation},
    program::ValueId,
    text::without_bom,
};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

use crate::client::{Constant, NttTransform};

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
    /// The names of the values that the step reads.
    pub inputs: Vec<String>,
    /// The field that the step names.
    pub field: Option<FieldId>,
    /// What the file has of the step, if it is an input.
    pub input: Option<InputText>,
    /// Members that are not null, among them the names of its values.
    members: Map<String, Value>,
}

/// The shape of an input, as far as the program has it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputText {
    #[serde(default, deserialize_with = "FieldId::of_text")]
    pub field: FieldId,
    pub length: Option<u64>,
    pub rows: Option<u32>,
    pub columns: Option<u64>,
}

/// What a step is made of, in addition to the values that it reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepParts {
    Input(InputText),
    Ntt(NttTransform<Constant>),
    Msm {
        bases: String,
        #[serde(default)]
        offset: u64,
    },
    SparseProduct {
        matrix: String,
    },
    /// Any other kind.
    #[serde(skip)]
    Whole(Operation),
}

/// What the values that a step reads decide.
#[derive(Default)]
pub struct StepContext {
    /// The values, in the order of their names in the step.
    pub ids: Vec<ValueId>,
    /// The field in which the step computes.
    pub field: FieldId,
    /// The columns of the matrices of bits.
    pub columns: u64,
}

/// The names of values in the members of a step.
fn value_names<'a>(
    kind: &str,
    members: &'a mut Map<String, Value>,
) -> impl Iterator<Item = &'a mut Value> {
    let reads_rows = kind == "gf2_reduce";
    let is_value = move |(member, _): &(&String, &mut Value)| match member.as_str() {
        "input" | "inputs" | "pivots" => true,
        member => reads_rows && member == "rows",
    };
    members.iter_mut().filter(is_value).flat_map(|(_, value)| match value {
        Value::Array(names) => names.iter_mut(),
        name => slice::from_mut(name).iter_mut(),
    })
}

/// Adds a member that an operation has and a step of the file must not have.
fn put(members: &mut Map<String, Value>, name: &str, value: Value) -> serde_json::Result<()> {
    match members.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(serde_json::Error::custom(format!("unknown field `{name}`"))),
    }
}

impl NamedStep {
    /// A number that the step has.
    pub fn number(&self, member: &str) -> Option<u64> {
        self.members.get(member)?.as_u64()
    }

    /// Reads the step from its members, in which ids replace the names of values.
    pub fn parts(&self, context: &StepContext) -> serde_json::Result<StepParts> {
        let mut members = self.members.clone();
        let mut ids = context.ids.iter();
        for name in value_names(&self.kind, &mut members) {
            *name = ids.next().map_or(0, |id| id.0).into();
        }
        let missing = |member| serde_json::Error::missing_field(member);
        let mut kind = self.kind.as_str();
        match kind {
            "ntt" | "msm" | "sparse_product" => {
                members.remove("input").filter(Value::is_number).ok_or(missing("input"))?;
            }
            "scale" => {
                kind = "linear_combination";
                for (one, all) in [("input", "inputs"), ("factor", "factors")] {
                    let value = members.remove(one).ok_or(missing(one))?;
                    put(&mut members, all, vec![value].into())?;
                }
            }
            "poly_mul" => {
                let modulus = ["cyclic", "negacyclic"].map(|sign| members.remove_entry(sign));
                let modulus: Map<_, _> = modulus.into_iter().flatten().collect();
                if modulus.len() > 1 {
                    let problem = "has both cyclic and negacyclic: remove one of them";
                    return Err(serde_json::Error::custom(problem));
                }
                let whole = modulus.is_empty().then(|| "none".into());
                put(&mut members, "reduction", whole.unwrap_or(modulus.into()))?;
            }
            "gf2_reduce" | "gf2_echelon" => {
                if kind == "gf2_reduce" {
                    let ids = Gf2ReduceStep::INPUT_NAMES.map(|name| members.remove(name));
                    put(&mut members, "inputs", ids.into_iter().flatten().collect())?;
                }
                put(&mut members, "columns", context.columns.into())?;
            }
            "pointwise" => {
                let problem = "unknown variant `pointwise`, expected its operation, such as `add`";
                return Err(serde_json::Error::custom(problem));
            }
            _ if PointwiseOperation::deserialize(&Value::from(kind)).is_ok() => {
                put(&mut members, "operation", kind.into())?;
                kind = "pointwise";
            }
            _ => {}
        }
        let step = Value::Object(Map::from_iter([(kind.to_owned(), members.into())]));
        Constant::in_text_over(context.field, || match kind {
            "input" | "ntt" | "msm" | "sparse_product" => StepParts::deserialize(step),
            _ => Operation::deserialize(step).map(StepParts::Whole),
        })
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
        let members = fields.remove(kind).unwrap_or_default();
        let field = members.get("field").and_then(Value::as_str).and_then(FieldId::of_name);
        let over = field.map(|field| format!(" over {field}")).unwrap_or_default();
        let read = || {
            let mut members = Map::deserialize(members)?;
            members.retain(|_, value| !value.is_null());
            let inputs = value_names(kind, &mut members).map(|name| String::deserialize(&*name));
            let inputs = inputs.collect::<serde_json::Result<_>>()?;
            let mut step = Self {
                name: name.clone(),
                kind: kind.clone(),
                inputs,
                field,
                input: None,
                members,
            };
            // What is wrong with the text is told before the files of inputs are read.
            let field = field.unwrap_or_default();
            if let StepParts::Input(text) =
                step.parts(&StepContext { field, ..Default::default() })?
            {
                step.input = Some(text);
            }
            Ok(step)
        };
        read().map_err(|error: serde_json::Error| {
            D::Error::custom(format!("step '{name}'{over}: {error}"))
        })
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
        let parts = file.steps[0].parts(&StepContext::default()).unwrap();
        let StepParts::Whole(Operation::Constant(step)) = parts else { panic!("{parts:?}") };
        let expected = [7, 31, -1, 12, -2].map(|value: i64| Constant::Fr(value.into()));
        assert_eq!((step.field, &step.elements[..]), (FieldId::Bls12381Fr, &expected[..]));
        assert_eq!((file.steps[1].kind.as_str(), file.steps[1].name.as_str()), ("ntt", "b"));
        assert_eq!(file.steps[1].inputs, ["a"]);
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
        let id = step(r#"{"name": "x", "add": {"inputs": ["a", 0]}}"#);
        assert!(id.contains("step 'x': invalid type: integer `0`, expected a string"), "{id}");
        let input = step(r#"{"name": "x", "ntt": {"inputs": ["a"]}}"#);
        assert!(input.contains("step 'x': missing field `input`"), "{input}");
        let rows = step(r#"{"name": "x", "reshape": {"input": "a", "rows": "a"}}"#);
        assert!(rows.contains("step 'x': invalid type: string \"a\", expected u32"), "{rows}");
        let rows = step(r#"{"name": "x", "input": {"rows": "a"}}"#);
        assert!(rows.contains("step 'x': invalid type: string \"a\", expected u32"), "{rows}");
        let rows = step(r#"{"name": "x", "gf2_reduce": {"pivots": "a", "rows": 1}}"#);
        assert!(rows.contains("step 'x': invalid type: integer `1`, expected a string"), "{rows}");
        let whole = r#"{"name": "x", "pointwise": {"operation": "add", "inputs": ["a", "a"]}}"#;
        assert!(step(whole).contains("step 'x': unknown variant `pointwise`"), "{}", step(whole));
        let moduli = step(r#"{"name": "x", "poly_mul": {"cyclic": 4, "negacyclic": 4}}"#);
        assert!(moduli.contains("step 'x': has both cyclic and negacyclic"), "{moduli}");
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
