//! The check of a transform: its input and output as a polynomial, evaluated at a random point.

use ark_bls12_381::Fr;
use ark_ff::Field;
use capstan::ntt::TransformEnd;

use crate::rig::{NttRig, each_seed, edge_elements, every_transform, expected};

/// Evaluations of every row's input and output. `spoil` is the index of a wrong output element.
fn evaluate_ends(
    rig: &NttRig,
    lg_n: u32,
    kind: usize,
    rows: usize,
    spoil: Option<usize>,
) -> [Vec<Fr>; 2] {
    let transform = every_transform(lg_n).nth(kind).unwrap();
    let stream = rig.stream();
    let input = edge_elements(rows << lg_n, 77);
    let mut output = expected(&transform, input.clone());
    if let Some(index) = spoil {
        output[index] += Fr::ONE;
    }
    [(TransformEnd::Input, input), (TransformEnd::Output, output)].map(|(end, values)| {
        let evaluation = rig.transforms.evaluation_tables(&transform, end).unwrap();
        let data = rig.upload(&stream, &values);
        let sums = rig.transforms.evaluate(&stream, &evaluation, data.all()).unwrap();
        rig.download(&stream, &sums)
    })
}

#[test]
fn right_transforms_pass_the_check() {
    each_seed(64 << 20, |rig, seed| {
        for lg_n in [0, 1, 3, 7, 8, 10, 13, 14] {
            for kind in 0..16 {
                if lg_n > 8 && (kind + seed) % 3 != 0 {
                    continue;
                }
                let rows = if lg_n > 8 { 1 } else { 3 };
                let [input, output] = evaluate_ends(rig, lg_n, kind, rows, None);
                assert_eq!(input.len(), rows);
                assert_eq!(input, output, "2^{lg_n}, {kind}");
            }
        }
    });
}

#[test]
fn wrong_transforms_fail_the_check() {
    each_seed(64 << 20, |rig, _| {
        for (lg_n, at) in [(0, 1), (5, 40), (8, 511), (8, 256), (10, 1024 + 77)] {
            for kind in [0, 3, 5, 9, 14] {
                let [input, output] = evaluate_ends(rig, lg_n, kind, 2, Some(at));
                assert_eq!(input[0], output[0], "2^{lg_n}, {kind}: the other row");
                assert_ne!(input[1], output[1], "2^{lg_n}, {kind}");
            }
        }
    });
}
