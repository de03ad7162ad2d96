//! Generates the code and the descriptors of `proto/` without protoc: protox compiles, tonic
//! generates. `scripts/generate` runs it.

use std::{env, error::Error, fs, path::PathBuf};

const PROTOS: [&str; 5] = [
    "capstan/v1/types.proto",
    "capstan/v1/program.proto",
    "capstan/v1/compute.proto",
    "capstan/v1/store.proto",
    "capstan/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or("usage: capstan-codegen FOLDER")?);
    fs::create_dir_all(&folder)?;
    let mut compiler = protox::Compiler::new([concat!(env!("CARGO_MANIFEST_DIR"), "/..")])?;
    compiler.include_imports(true).include_source_info(true).open_files(PROTOS)?;
    // One text for all features of the crate: each compiles the parts that it needs.
    tonic_prost_build::configure()
        .codec_path("crate::MessageCodec")
        .client_mod_attribute(".", r#"#[cfg(feature = "client")]"#)
        .server_mod_attribute(".", r#"#[cfg(feature = "server")]"#)
        // Payloads are slices of the receive buffer: no copy on decode.
        .bytes(".")
        // Payloads may be secret witnesses: the crate prints them redacted.
        .skip_debug([
            "capstan.v1.Chunk",
            "capstan.v1.InlineVector",
            "capstan.v1.OpenRegionResponse",
        ])
        .out_dir(&folder)
        .compile_fds(compiler.file_descriptor_set())?;
    // The descriptors for server reflection.
    fs::write(folder.join("capstan.bin"), compiler.encode_file_descriptor_set())?;
    Ok(())
}
