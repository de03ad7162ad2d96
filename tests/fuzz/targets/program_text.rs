//! Files that the command line reads: programs, and points.

use ark_ec::AffineRepr;
use bytes::Bytes;
use capstan::{
    cli::run::file::ProgramFile,
    curve::{
        G1Affine, G2Affine, Group,
        points::{PointEncoding, encode},
    },
    formats::{SetupList, detect},
};

use super::SECRET;
use crate::{
    driver::{MemoryBound, Target},
    rig::messages,
};

fn check_program(input: &[u8]) {
    match ProgramFile::parse(input) {
        Ok(file) => {
            let is_step = |name: &String| file.steps.iter().any(|step| step.name == *name);
            assert!(file.outputs.iter().all(is_step));
        }
        Err(problem) => assert!(!problem.is_empty()),
    }
}

#[test]
fn program_file() {
    let text = r#"{"steps": [
        {"name": "f", "input": {"length": 8, "rows": 2}},
        {"name": "c", "constant": {"elements": [7, "0x1F", "-1", "12", -2]}},
        {"name": "p", "powers": {"base": 3, "length": 8, "first": "0x2"}},
        {"ntt": {"input": "f", "direction": "inverse", "output_order": "bit-reversed"},
         "name": "b"},
        {"name": "s", "multiply_add": {"inputs": ["f", "b", "f"]}},
        {"name": "l", "linear_combination": {"inputs": ["f", "b"], "factors": [1, "2"]}},
        {"name": "e", "evaluate": {"input": "b", "point": "5"}},
        {"name": "m", "msm": {"input": "b", "bases": "ab12", "offset": 3}}],
        "outputs": ["b", "m"]}"#;
    let seeds = vec![text.as_bytes().to_vec(), br#"{"steps":[],"outputs":[]}"#.to_vec()];
    let words = &["\"name\":", "\"ntt\":{}", "{\"name\":\"x\",", "[[[[", "1e999", "0x", "\\ud800"];
    let memory = MemoryBound { per_byte: 1024, always: 256 << 10 };
    let (name, check) = ("program_file", check_program as fn(&[u8]));
    Target { name, seeds, words, check, cases: 10_000, memory }.run();
}

/// The first byte selects the group that the caller expects.
fn check_points(input: &[u8]) {
    let Some((group, bytes)) = input.split_first() else { return };
    let group = [None, Some(Group::G1), Some(Group::G2)][usize::from(*group) % 3];
    let Ok(sets) = detect::parse(Bytes::copy_from_slice(bytes), None, group) else { return };
    for mut set in sets {
        let width = set.encoding.point_bytes(set.group);
        assert_eq!(set.count() * width, set.data.len());
        assert!(set.list.map(SetupList::group).is_none_or(|group| group == set.group));
        let data = set.data.clone();
        if set.bit_reverse().is_ok() {
            set.bit_reverse().expect("as many points");
            assert_eq!(set.data, data);
        }
    }
}

#[test]
fn point_files() {
    let (g1, g2) = (messages::points::<G1Affine>(2), messages::points::<G2Affine>(2));
    let hex_of = |point: &[u8]| format!("\"0x{}\"", hex::encode(point));
    let [g1_text, g2_text] = [
        encode(PointEncoding::Compressed, &g1).chunks(48).map(hex_of).collect::<Vec<_>>(),
        encode(PointEncoding::Compressed, &g2).chunks(96).map(hex_of).collect::<Vec<_>>(),
    ];
    let [g1_text, g2_text] = [g1_text, g2_text].map(|texts| texts.join(","));
    let json = format!(
        r#"{{"g1_lagrange":[{g1_text}],"g1_monomial":[{g1_text}],"g2_monomial":[{g2_text}]}}"#
    );
    let text = format!("2\n2\n{}", format!("{g1_text},{g2_text}").replace("\"0x", ""));
    let text = text.replace("\",", "\n").replace('"', "\n");
    // Of one point each, lists are what their names say.
    let one = encode(PointEncoding::Compressed, &[G1Affine::generator()]);
    let one = hex_of(&one);
    let whole = format!(r#"{{"g1_lagrange":[{one}],"g1_monomial":[{one}]}}"#);
    let mut seeds = [json, text, whole].map(String::into_bytes).to_vec();
    seeds.push(SECRET.into());
    for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
        seeds.extend([encode(encoding, &g1), encode(encoding, &g2)]);
    }
    let counted = [&2_u64.to_le_bytes()[..], &encode(PointEncoding::Uncompressed, &g1)].concat();
    seeds.push(counted);
    seeds.iter_mut().for_each(|seed| seed.insert(0, 0));
    let words = &["0x", "4096\n65\n", "\"g1_monomial\":[", "\n"];
    let memory = MemoryBound { per_byte: 256, always: 256 << 10 };
    let (name, check) = ("point_files", check_points as fn(&[u8]));
    Target { name, seeds, words, check, cases: 2_000, memory }.run();
}
