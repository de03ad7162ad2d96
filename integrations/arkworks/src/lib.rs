//! Stock arkworks provers compute their MSMs over BLS12-381 on a Capstan server.
//!
//! ```no_run
//! # fn lesson(pk: ark_groth16::ProvingKey<ark_bls12_381::Bls12_381>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use capstan_arkworks::client::blocking::BlockingClient;
//!
//! let server = capstan_arkworks::install(BlockingClient::connect("http://127.0.0.1:7654")?)?;
//! let _pinned = server.pin(&pk)?; // sends the key; as long as this value lives, it is known
//! // Groth16::prove(&pk, circuit, &mut rng) now sends scalars and receives sums.
//! # Ok(()) }
//! ```
//!
//! The hook is in a patched copy of ark-ec, which `patch-ark-ec` makes: see the README next to this
//! crate. Without that patch, this crate does not compile.
//!
//! - `offload`: servers and their settings. `pins`: which ranges of memory are bases on a server.
//! - `hook`: where each MSM is computed. `counts`: how many MSMs were computed where.
//! - `keys`: the bases in a prover's key. `limbs`: the bytes of scalars.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

mod counts;
mod hook;
mod keys;
mod limbs;
mod offload;
mod pins;

pub use capstan::client;

pub use self::{
    counts::{Counts, counts},
    hook::{InstallError, install, install_with},
    keys::{BasesSlice, PinnedKey},
    offload::{Offload, OffloadError, OffloadOptions},
    pins::PinnedBases,
};
