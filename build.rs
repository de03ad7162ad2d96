//! Generates the messages and services of `proto/` without protoc: protox compiles, tonic
//! generates. Compiles the kernels of `kernels/` if nvcc is found.

#[path = "build/archs.rs"]
mod archs;
#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/nvcc.rs"]
mod nvcc;

use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 5] = [
    "capstan/v1/types.proto",
    "capstan/v1/program.proto",
    "capstan/v1/compute.proto",
    "capstan/v1/store.proto",
    "capstan/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    if env::var_os("CARGO_FEATURE_CUDA").is_some() {
        kernels::embed()?;
    }
    if env::var_os("CARGO_FEATURE_WIRE").is_none() {
        return Ok(());
    }
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files(PROTOS)?;
    let has_server = env::var_os("CARGO_FEATURE_SERVER").is_some();
    let codec = if has_server { "crate::wire::CheckedCodec" } else { "tonic_prost::ProstCodec" };
    tonic_prost_build::configure()
        .codec_path(codec)
        .build_server(has_server)
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        // Payloads are slices of the receive buffer: no copy on decode.
        .bytes(".")
        // Payloads may be secret witnesses: `wire` prints them redacted.
        .skip_debug([
            "capstan.v1.Chunk",
            "capstan.v1.InlineVector",
            "capstan.v1.OpenRegionResponse",
        ])
        .compile_fds(compiler.file_descriptor_set())?;
    // The descriptors for server reflection.
    let set = PathBuf::from(env::var("OUT_DIR")?).join("capstan.bin");
    fs::write(set, compiler.encode_file_descriptor_set())?;
    Ok(())
}
