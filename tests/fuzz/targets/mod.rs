//! The decoders.

mod credentials;
mod digits;
mod elements31;
mod frames;
mod gf2_files;
mod groth16_files;
mod header_blocks;
mod matrices;
mod messages;
mod points;
mod program_text;
mod scalars;
mod settings;
mod stored_bases;
mod worker_messages;

/// A part of payloads and credentials of valid inputs that no error may quote.
const SECRET: &str = "WITNESS!";

/// Asserts that an error quotes no payload, and is short.
fn assert_harmless(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.contains(SECRET), "an error quotes a payload: {text}");
    assert!(!text.contains(&hex::encode(SECRET)), "an error quotes a payload: {text}");
    assert!(text.len() <= 4096, "an error of {} bytes", text.len());
}
