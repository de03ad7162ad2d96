//! Reads files and standard input into memory that is wiped.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    str,
};

use ark_ff::PrimeField;
use capstan_math::text::without_bom;
use zeroize::Zeroizing;

use super::{
    args::ScalarFormat,
    exit::{CliFailure, Exit, Result, fail},
    output::Ui,
    progress::TerminalProgress,
};
use crate::{
    client::{Fr, Prime31, ScalarEncoding},
    formats::scalars::{self, Notation},
};

/// Bytes read between two updates of the progress bar.
const CHUNK_BYTES: usize = 4 << 20;

/// Reads all of `path`; `-` is standard input. The data is wiped when dropped.
pub fn read(ui: Ui, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let fail = |error: io::Error| CliFailure::input(path.display(), &error);
    if path.as_os_str() == "-" {
        return read_all(ui, "standard input", io::stdin().lock(), 0).map_err(fail);
    }
    let file = File::open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    read_all(ui, &path.display().to_string(), file, length).map_err(fail)
}

fn read_all(
    ui: Ui,
    name: &str,
    mut from: impl Read,
    expected: u64,
) -> io::Result<Zeroizing<Vec<u8>>> {
    let bar = TerminalProgress::bytes(ui, format!("reading {name}"), expected);
    // One byte more than expected, so that the end of the file is found without growing.
    let expected = usize::try_from(expected).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = Zeroizing::new(vec![0; (expected + 1).max(64 << 10)]);
    let mut length = 0;
    loop {
        if length == bytes.len() {
            // Not `reserve`, which would leave the old copy behind.
            let mut larger = Zeroizing::new(vec![0; 2 * length]);
            larger[..length].copy_from_slice(&bytes);
            bytes = larger;
        }
        let end = bytes.len().min(length + CHUNK_BYTES);
        match from.read(&mut bytes[length..end]) {
            Ok(0) => break,
            Ok(read) => {
                length += read;
                bar.add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Scalars in an encoding of the protocol, one after another.
pub struct ScalarBytes {
    pub encoding: ScalarEncoding,
    pub bytes: Zeroizing<Vec<u8>>,
}

impl ScalarBytes {
    pub fn count(&self) -> u64 {
        (self.bytes.len() / self.encoding.width()) as u64
    }
}

/// Reads a whole number of scalars from `path`: elements of Fr, of 32 bytes unless they are narrow
/// integers, or elements of 4 bytes over the `field` of a prime below 2^31.
pub fn read_scalars(
    ui: Ui,
    path: &Path,
    field: Option<Prime31>,
    format: ScalarFormat,
    reduce: bool,
) -> Result<ScalarBytes> {
    use ScalarEncoding::{Canonical, Canonical31, Montgomery, Montgomery31};
    let encoding = match (field, format) {
        (None, ScalarFormat::Binary(encoding)) => encoding,
        (None, _) => Canonical,
        (Some(_), ScalarFormat::Binary(Canonical) | ScalarFormat::Text(_)) => Canonical31,
        (Some(_), ScalarFormat::Binary(Montgomery)) => Montgomery31,
        (Some(_), ScalarFormat::Binary(_) | ScalarFormat::BigEndian) => {
            let message = "fields of a prime below 2^31 take the encodings canonical, montgomery, \
                           hex and decimal";
            return fail(Exit::Usage, message);
        }
    };
    let mut bytes = read(ui, path)?;
    let file = path.display();
    let invalid = |error| CliFailure::from(error).in_file(&file);
    match format {
        ScalarFormat::Binary(_) => {
            let (length, width) = (bytes.len(), encoding.width());
            if length % width != 0 {
                let message = format!(
                    "{file}: {length} bytes are not a whole number of {width}-byte scalars: is \
                     --encoding correct?"
                );
                return fail(Exit::Data, message);
            }
        }
        ScalarFormat::BigEndian => scalars::reverse_scalars(&mut bytes).map_err(invalid)?,
        ScalarFormat::Text(radix) => {
            let _spinner = TerminalProgress::spinner(ui, "parsing scalars");
            let text = str::from_utf8(without_bom(&bytes))
                .map_err(|_| CliFailure::new(Exit::Data, format!("{file}: not text")))?;
            bytes = match field {
                None => scalars::parse(radix, text, reduce).map_err(invalid)?,
                Some(_) => parse_words(radix, text)
                    .map_err(|problem| CliFailure::new(Exit::Data, format!("{file}: {problem}")))?,
            };
        }
    }
    Ok(ScalarBytes { encoding, bytes })
}

/// Reads integers below 2^32 separated by white space.
///
/// Errors: a message that names the first invalid word by its index.
fn parse_words(radix: Notation, text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    // Counted first: a vector that grows leaves copies behind.
    let count = text.split_ascii_whitespace().count();
    let mut out = Zeroizing::new(Vec::with_capacity(4 * count));
    for (index, word) in text.split_ascii_whitespace().enumerate() {
        let value = match radix {
            Notation::Hex => u32::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16),
            Notation::Decimal => word.parse(),
        };
        let value = value.map_err(|_| format!("scalars[{index}]: expected a number below 2^32"))?;
        out.extend_from_slice(&value.to_le_bytes());
    }
    Ok(out)
}

pub fn fr_from_hex(text: &str) -> Result<Fr, String> {
    let bytes = scalars::parse(Notation::Hex, text, false).map_err(|error| error.to_string())?;
    if bytes.len() != scalars::SCALAR_BYTES {
        return Err("expected one number in hex".to_owned());
    }
    Ok(Fr::from_le_bytes_mod_order(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Ui = Ui { json: false, quiet: true, verbose: false };

    #[test]
    fn reads_inputs_of_any_length() {
        for length in [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 300_000] {
            let content: Vec<u8> = (0..length).map(|index| index as u8).collect();
            for expected in [0, length as u64] {
                let read = read_all(QUIET, "test", content.as_slice(), expected).unwrap();
                assert_eq!(*read, content, "{length}");
            }
        }
    }

    #[test]
    fn refuses_hex_arguments_that_are_not_one_number() {
        assert_eq!(fr_from_hex("0x7"), Ok(Fr::from(7)));
        assert!(fr_from_hex("7 7").is_err());
        assert!(fr_from_hex("").is_err());
        assert!(fr_from_hex(&"f".repeat(64)).is_err());
    }

    #[test]
    fn parses_words_and_names_the_first_wrong_one() {
        let words = |radix, text| parse_words(radix, text).map(|bytes| bytes.to_vec());
        assert_eq!(words(Notation::Decimal, "1 256\n"), Ok(vec![1, 0, 0, 0, 0, 1, 0, 0]));
        assert_eq!(words(Notation::Hex, "0xff ff"), Ok(vec![255, 0, 0, 0, 255, 0, 0, 0]));
        for wrong in ["1 x", "1 4294967296", "1 -1"] {
            let problem = words(Notation::Decimal, wrong).unwrap_err();
            assert!(problem.starts_with("scalars[1]"), "{problem}");
        }
    }
}
