//! Proving keys, which take far longer to make than proofs.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter},
    path::Path,
    time::Instant,
};

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, ProvingKey};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use ark_std::rand::{SeedableRng, rngs::StdRng};

use crate::merkle::MerklePath;

/// The key of a circuit, from `folder` if it is there. The random numbers are known, so proofs are
/// worth nothing.
pub fn proving_key(circuit: MerklePath, folder: Option<&Path>) -> ProvingKey<Bls12_381> {
    let name = format!("{:?}-{}.key", circuit.hash, circuit.levels);
    let path = folder.map(|folder| folder.join(name));
    if let Some(file) = path.as_ref().and_then(|path| File::open(path).ok()) {
        let key = ProvingKey::deserialize_uncompressed_unchecked(BufReader::new(file));
        return key.expect("a key that an earlier run has written");
    }
    let begun = Instant::now();
    let mut random = StdRng::seed_from_u64(1);
    type ArkProver = Groth16<Bls12_381>;
    let key = ArkProver::generate_random_parameters_with_reduction(circuit, &mut random);
    let key = key.expect("a circuit");
    println!("  generated a key in {:.1} s", begun.elapsed().as_secs_f64());
    if let Some(path) = path {
        // Under another name until it is complete.
        let unfinished = path.with_extension("part");
        let file = File::create(&unfinished).expect("a folder for keys");
        key.serialize_uncompressed(BufWriter::new(file)).expect("space for a key");
        fs::rename(unfinished, path).expect("the same folder");
    }
    key
}
