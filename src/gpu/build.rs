//! Compiles the kernels of `kernels/` if nvcc is found.

#[path = "build/archs.rs"]
mod archs;
#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/nvcc.rs"]
mod nvcc;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    kernels::embed()
}
