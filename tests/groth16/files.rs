//! Files of circom and keys of arkworks: what is read, and what is refused.

use ark_ff::{BigInteger, PrimeField};
use ark_groth16::{Proof, prepare_verifying_key};
use ark_serialize::CanonicalSerialize;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Fr, G1Affine},
    groth16::{
        ConstraintMatrices, Groth16Error, MatricesCircuit, SynthesizedCircuit,
        files::{
            read_proof, read_proving_key, read_r1cs, read_verifying_key, read_wtns, write_r1cs,
            write_wtns,
        },
        synthesize,
    },
};

use crate::groth16::{ArkProver, Powers, proving_key};

/// The constraint -a * b = -c of `signal output c; signal input a; signal input b; c <== a * b;`,
/// in a file whose constraints precede its header.
fn product_r1cs() -> Vec<u8> {
    let minus_one = (-Fr::from(1)).into_bigint().to_bytes_le();
    let one = Fr::from(1).into_bigint().to_bytes_le();
    let term = |wire: u32, coefficient: &[u8]| [&wire.to_le_bytes(), coefficient].concat();
    let row =
        |terms: &[Vec<u8>]| [&(terms.len() as u32).to_le_bytes()[..], &terms.concat()].concat();
    let constraints =
        [row(&[term(2, &minus_one)]), row(&[term(3, &one)]), row(&[term(1, &minus_one)])].concat();
    let numbers: Vec<_> = [4_u32, 1, 0, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
    let prime = Fr::MODULUS.to_bytes_le();
    let header =
        [&32_u32.to_le_bytes(), &prime[..], &numbers, &4_u64.to_le_bytes(), &1_u32.to_le_bytes()]
            .concat();
    let labels: Vec<_> = [0_u64, 1, 2, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    container(b"r1cs", 1, &[(2, constraints), (1, header), (3, labels)])
}

fn container(magic: &[u8], version: u32, sections: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = [magic, &version.to_le_bytes(), &(sections.len() as u32).to_le_bytes()].concat();
    for (number, content) in sections {
        file.extend_from_slice(&number.to_le_bytes());
        file.extend_from_slice(&(content.len() as u64).to_le_bytes());
        file.extend_from_slice(content);
    }
    file
}

fn message<T, E: ToString>(refused: Result<T, E>) -> String {
    refused.err().map_or("accepted".to_owned(), |error| error.to_string())
}

#[test]
fn constraint_systems_and_witnesses_survive_their_files() {
    for circuit in [Powers::new(7, 1, 0), Powers::new(3, 40, 5)] {
        let SynthesizedCircuit { matrices, assignment } = synthesize(circuit).unwrap();
        assert_eq!(read_r1cs(&write_r1cs(&matrices).unwrap()).unwrap(), matrices);
        assert_eq!(read_wtns(&write_wtns(&assignment).unwrap()).unwrap(), assignment);
    }
}

#[test]
fn sections_may_come_in_any_order_with_unknown_ones_between() {
    let matrices = read_r1cs(&product_r1cs()).unwrap();
    assert_eq!((matrices.constraints(), matrices.public_variables()), (1, 2));
    assert_eq!(matrices.variables(), 4);
    let one = Fr::from(1);
    let row = |coefficient: Fr, wire: usize| vec![(coefficient, wire)];
    assert_eq!(matrices.constraint(0), [row(-one, 2), row(one, 3), row(-one, 1)]);
    let values = [1, 6, 2, 3].map(Fr::from);
    matrices.check(&values).unwrap();
    let unknown = container(b"r1cs", 1, &[(77, vec![1, 2, 3])]);
    let mut file = product_r1cs();
    file.splice(12..12, unknown[12..].iter().copied());
    file[8] += 1;
    assert_eq!(read_r1cs(&file).unwrap(), matrices);
}

#[test]
fn a_circuit_of_matrices_has_these_matrices() {
    let SynthesizedCircuit { matrices, assignment } = synthesize(Powers::new(3, 9, 2)).unwrap();
    // With terms in descending order, a repeated wire, and an empty row, as arkworks makes none.
    let rows: Vec<_> = (0..matrices.constraints()).map(|at| matrices.constraint(at)).collect();
    let [mut a, mut b, mut c] = [0, 1, 2].map(|matrix| -> Vec<_> {
        rows.iter().map(|constraint| constraint[matrix].clone()).collect()
    });
    a.push(vec![(Fr::from(5), 4), (Fr::from(2), 1), (-Fr::from(5), 4)]);
    b.push(vec![]);
    c.push(vec![]);
    let (public, variables) = (matrices.public_variables(), matrices.variables());
    let matrices = ConstraintMatrices::new([a, b, c], public, variables).unwrap();
    let circuit = MatricesCircuit::new(&matrices).with_assignment(&assignment);
    let again = synthesize(circuit).unwrap();
    assert_eq!(again.matrices, matrices);
    assert_eq!(again.assignment, assignment);
    assert!(synthesize(MatricesCircuit::new(&matrices)).is_err(), "without values");
}

/// The keys of the file's circuit are those of the original one.
#[test]
fn keys_of_a_file_equal_those_of_its_circuit() {
    let circuit = Powers::new(3, 9, 2);
    let matrices = read_r1cs(&write_r1cs(&synthesize(circuit).unwrap().matrices).unwrap()).unwrap();
    let random = || StdRng::seed_from_u64(9);
    let key = ArkProver::generate_random_parameters_with_reduction(
        MatricesCircuit::new(&matrices),
        &mut random(),
    );
    assert_eq!(key.unwrap(), proving_key(circuit, &mut random()));
}

#[test]
fn malformed_constraint_systems_are_refused() {
    let file = product_r1cs();
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        message(read_r1cs(&file))
    };
    assert_eq!(changed(0, b"r2cs"), "not a .r1cs file: its first four bytes are not \"r1cs\"");
    assert_eq!(changed(0, b"wtns"), "not a .r1cs file: it is a .wtns file");
    assert_eq!(changed(4, &[2]), "version 2 of the format; only version 1 is supported");
    // The section of constraints begins at 12; its first row at 24, the wire at 28.
    let expected = "constraint 0, matrix a: wire 4 does not exist: the circuit has 4 wires";
    assert_eq!(changed(28, &[4]), expected);
    let expected =
        "constraint 0, matrix a: the value of wire 2, at byte 32, is not below the prime";
    assert_eq!(changed(32, &Fr::MODULUS.to_bytes_le()), expected);
    assert!(changed(24, &[0xff; 4]).starts_with("constraint 0, matrix a: truncated: "));
    let expected = "truncated: section of constraints ends too early";
    assert!(changed(16, &[0xff; 8]).starts_with(expected), "{}", changed(16, &[0xff; 8]));
    let prime = 12 + 12 + 120 + 12 + 4;
    let bn254 = bn254_prime();
    let refused = changed(prime, &bn254);
    assert!(refused.contains("that of BN254's scalar field, circom's default"), "{refused}");
    assert!(refused.contains("0x73eda753"), "{refused}");
    // The number of constraints is the last of the header's numbers.
    let refused = changed(prime + 32 + 24, &[0xff; 4]);
    assert!(refused.starts_with("truncated: section of constraints ends too early"), "{refused}");
    let refused = changed(prime + 32, &[0xff; 4]);
    let expected = "the header announces 4294967295 wires, but a file of this length has at most ";
    assert!(refused.starts_with(expected), "{refused}");
    let mut longer = file.clone();
    longer.push(0);
    let expected = format!(
        "longer than its header says: section 3 of 3 ends at byte {}, and 1 bytes follow",
        file.len()
    );
    assert_eq!(message(read_r1cs(&longer)), expected);
    // At the end of the constraints and the header, the file may end.
    let without_labels = file.len() - 12 - 4 * 8;
    for length in (0..file.len()).filter(|length| *length != without_labels) {
        let refused = message(read_r1cs(&file[..length]));
        assert!(refused.contains("truncated") || length < 4, "{length}: {refused}");
    }
}

/// BN254's, little-endian.
fn bn254_prime() -> Vec<u8> {
    let hex = "30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";
    hex::decode(hex).unwrap().into_iter().rev().collect()
}

#[test]
fn repeated_and_missing_sections_and_custom_gates_are_refused() {
    let sections = |extra: &[(u32, Vec<u8>)]| {
        let mut file = product_r1cs();
        file[8] += extra.len() as u8;
        file.extend_from_slice(&container(b"r1cs", 1, extra)[12..]);
        message(read_r1cs(&file))
    };
    assert_eq!(sections(&[(4, vec![0; 4]), (5, vec![])]), "accepted");
    assert_eq!(
        sections(&[(4, vec![1, 0, 0, 0, b'g', 0])]),
        "the circuit has custom gates; only rank-1 constraints are supported"
    );
    assert_eq!(sections(&[(1, vec![0; 32])]), "the header appears twice");
    // Such a file might have lost its custom gates.
    let mut cut = product_r1cs();
    cut[8] = 5;
    assert_eq!(
        message(read_r1cs(&cut)),
        "truncated: the header announces 5 sections, but the file ends after 3"
    );
    assert_eq!(message(read_r1cs(&container(b"r1cs", 1, &[]))), "the file has no header");
    assert_eq!(message(read_wtns(&container(b"wtns", 2, &[]))), "the file has no header");
}

#[test]
fn the_map_from_wires_to_labels_may_have_any_form_or_be_missing() {
    let matrices = read_r1cs(&product_r1cs()).unwrap();
    let file = product_r1cs();
    let without = &file[..file.len() - 12 - 4 * 8];
    for labels in [vec![], vec![0; 4 * 4], vec![0; 3], vec![0; 64]] {
        let file = [without, &container(b"r1cs", 1, &[(3, labels)])[12..]].concat();
        assert_eq!(read_r1cs(&file).unwrap(), matrices);
    }
    let mut two_sections = without.to_vec();
    two_sections[8] = 2;
    for file in [without, &two_sections] {
        assert_eq!(read_r1cs(file).unwrap(), matrices);
    }
}

/// The Python client's tests read the same list.
#[test]
fn each_file_of_the_list_of_witnesses_gets_its_verdict() {
    #[derive(serde::Deserialize)]
    struct Verdict {
        file: String,
        hex: String,
        refused: Option<String>,
    }
    let verdicts = include_str!("../data/wtns_verdicts.json");
    let verdicts: Vec<Verdict> = serde_json::from_str(verdicts).unwrap();
    for Verdict { file, hex, refused } in verdicts {
        let read = read_wtns(&hex::decode(hex).unwrap());
        assert_eq!(read.err().map(|error| error.to_string()), refused, "{file}");
    }
}

#[test]
fn malformed_witnesses_are_refused_without_their_values() {
    let secret = Fr::from(0x5ec2_e75e_c2e7_u64);
    let file = write_wtns(&[Fr::from(1), secret]).unwrap();
    for length in 0..file.len() {
        assert_ne!(message(read_wtns(&file[..length])), "accepted", "{length}");
    }
    let values = file.len() - 64;
    let mut wrong = file.clone();
    wrong[values + 32..].copy_from_slice(&Fr::MODULUS.to_bytes_le());
    let expected = format!("the value of wire 1, at byte {}, is not below the prime", values + 32);
    assert_eq!(message(read_wtns(&wrong)), expected);
    let mut fewer = file.clone();
    fewer[values - 16] = 1;
    assert_eq!(
        message(read_wtns(&fewer)),
        format!("section of values has 32 bytes too many, from byte {}", values + 32) + " on"
    );
    let matrices = read_r1cs(&product_r1cs()).unwrap();
    let refused = message(matrices.check_assignment(&read_wtns(&file).unwrap()));
    assert_eq!(refused, "the assignment has 2 elements, but the constraint system needs 4");
}

#[test]
fn keys_and_proofs_are_read_compressed_and_uncompressed() {
    let (circuit, mut random) = (Powers::new(3, 5, 1), StdRng::seed_from_u64(4));
    let key = proving_key(circuit, &mut random);
    let proof = ArkProver::create_random_proof_with_reduction(circuit, &key, &mut random).unwrap();
    type Write<T> = fn(&T, &mut Vec<u8>);
    fn both<T: CanonicalSerialize>() -> [Write<T>; 2] {
        [
            |value, file| value.serialize_compressed(file).unwrap(),
            |value, file| value.serialize_uncompressed(file).unwrap(),
        ]
    }
    fn written<T>(value: &T, write: Write<T>) -> Vec<u8> {
        let mut file = Vec::new();
        write(value, &mut file);
        file
    }
    for write in both() {
        assert_eq!(read_proving_key(&written(&key, write)).unwrap(), key);
    }
    for write in both() {
        assert_eq!(read_verifying_key(&written(&key.vk, write)).unwrap(), key.vk);
    }
    for write in both::<Proof<_>>() {
        let read = read_proof(&written(&proof, write)).unwrap();
        let verifying_key = prepare_verifying_key(&key.vk);
        assert!(ArkProver::verify_proof(&verifying_key, &read, &[circuit.y()]).unwrap());
    }
}

#[test]
fn malformed_keys_are_refused() {
    let (circuit, mut random) = (Powers::new(3, 5, 1), StdRng::seed_from_u64(4));
    let key = proving_key(circuit, &mut random);
    let mut file = Vec::new();
    key.serialize_uncompressed(&mut file).unwrap();
    for length in (0..file.len()).step_by(7) {
        let refused = message(read_proving_key(&file[..length]));
        assert!(refused.starts_with("truncated: the proving key ends too early"), "{refused}");
    }
    // The count of gamma_abc_g1.
    let mut wrong = file.clone();
    wrong[96 + 3 * 192..][..8].copy_from_slice(&[0xff; 8]);
    assert!(message(read_proving_key(&wrong)).starts_with("truncated: the proving key"));
    let outside = point_outside_the_subgroup();
    let mut bytes = Vec::new();
    outside.serialize_uncompressed(&mut bytes).unwrap();
    let mut wrong = file.clone();
    wrong[..96].copy_from_slice(&bytes);
    assert_eq!(message(read_proving_key(&wrong)), "alpha_g1[0], at byte 0, is not a valid point");
    let after_key = 96 + 3 * 192 + 8 + 2 * 96;
    let mut wrong = file.clone();
    wrong[after_key + 96..][..96].copy_from_slice(&bytes);
    let expected = format!("delta_g1[0], at byte {}, is not a valid point", after_key + 96);
    assert_eq!(message(read_proving_key(&wrong)), expected);
    file.push(0);
    assert!(message(read_proving_key(&file)).starts_with("the proving key has 1 bytes too many"));
    assert!(message(read_proof(&[])).starts_with("truncated: the proof"));
}

/// Each reader gets each of the other files.
#[test]
fn a_file_in_the_wrong_place_is_named() {
    let (circuit, mut random) = (Powers::new(3, 5, 1), StdRng::seed_from_u64(4));
    let key = proving_key(circuit, &mut random);
    let proof = ArkProver::create_random_proof_with_reduction(circuit, &key, &mut random).unwrap();
    let SynthesizedCircuit { matrices, assignment } = synthesize(circuit).unwrap();
    let [mut key_file, mut verifying_key, mut proof_file] = [(); 3].map(|()| Vec::new());
    key.serialize_uncompressed(&mut key_file).unwrap();
    key.vk.serialize_uncompressed(&mut verifying_key).unwrap();
    proof.serialize_uncompressed(&mut proof_file).unwrap();
    let mut compressed = Vec::new();
    key.vk.serialize_compressed(&mut compressed).unwrap();
    let of_ark = |what| format!("a {what} in arkworks' serialization");
    let files = [
        (key_file, of_ark("proving key")),
        (verifying_key, of_ark("verifying key")),
        (compressed, of_ark("verifying key")),
        (proof_file, of_ark("proof")),
        (write_r1cs(&matrices).unwrap(), "a .r1cs file".to_owned()),
        (write_wtns(&assignment).unwrap().to_vec(), "a .wtns file".to_owned()),
        (b"zkey".to_vec(), "a .zkey file of snarkjs".to_owned()),
        (br#"{"protocol": "groth16", "pi_a": []}"#.to_vec(), "a proof in snarkjs' JSON".to_owned()),
        (vec![b'a'; 384], "text of hex digits".to_owned()),
    ];
    type Read = fn(&[u8]) -> String;
    let readers: [(Read, String); 5] = [
        (|file| message(read_proving_key(file)), of_ark("proving key")),
        (|file| message(read_verifying_key(file)), of_ark("verifying key")),
        (|file| message(read_proof(file)), of_ark("proof")),
        (|file| message(read_r1cs(file)), "a .r1cs file".to_owned()),
        (|file| message(read_wtns(file)), "a .wtns file".to_owned()),
    ];
    for (read, expected) in &readers {
        for (file, got) in &files {
            let verdict = read(file);
            if got == expected {
                assert_eq!(verdict, "accepted");
            } else {
                assert_eq!(verdict, format!("not {expected}: it is {got}"));
            }
        }
    }
}

/// On the curve, with a small x.
fn point_outside_the_subgroup() -> G1Affine {
    let points = (1_u64..).filter_map(|x| G1Affine::get_point_from_x_unchecked(x.into(), false));
    let mut outside = points.filter(|point| !point.is_in_correct_subgroup_assuming_on_curve());
    outside.next().unwrap()
}

/// Any change of a few bytes is read or refused.
#[test]
fn changed_files_do_not_panic() {
    let SynthesizedCircuit { matrices, assignment } = synthesize(Powers::new(3, 3, 1)).unwrap();
    let (r1cs, wtns) = (write_r1cs(&matrices).unwrap(), write_wtns(&assignment).unwrap());
    let mut refused = 0;
    for at in 0..r1cs.len() {
        for bit in [0, 7] {
            let mut changed = r1cs.clone();
            changed[at] ^= 1 << bit;
            refused += usize::from(matches!(read_r1cs(&changed), Err(Groth16Error::File(_))));
            let mut changed = wtns.clone();
            let at = at % wtns.len();
            changed[at] ^= 1 << bit;
            refused += usize::from(read_wtns(&changed).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
}
