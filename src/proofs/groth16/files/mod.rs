//! Files of constraint systems, witnesses, keys and proofs.
//!
//! `.r1cs` (version 1) and `.wtns` (version 2) are iden3's binary formats, which circom writes for
//! `--prime bls12381`. Keys and proofs are arkworks' serialization, compressed or uncompressed.
//!
//! Readers take the bytes of a whole file. They allocate no more than a multiple of its length,
//! whatever its header announces. If a file has another format, the error names it.
//!
//! - `reader`: numbers and bytes of a part of a file. `sections`: the container of iden3's formats.
//!   `field`: its prime and its elements.
//! - `r1cs`, `wtns`: the two formats. `keys`: keys and proofs.
//! - `error`: what is wrong with a file.

mod error;
mod field;
mod keys;
mod r1cs;
mod reader;
mod sections;
mod wtns;

pub use self::{
    error::ProofFileError,
    keys::{read_proof, read_proving_key, read_verifying_key},
    r1cs::{read_r1cs, write_r1cs},
    wtns::{read_wtns, write_wtns},
};
