//! `capstan ntt --field`: rows over a field of a prime below 2^31.

use std::{path::Path, str};

use ark_ff::PrimeField;
use capstan_math::text::without_bom;
use clap::builder::PossibleValue;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    args::{ScalarFormat, Words},
    exit::{CliFailure, Exit, Result, fail},
    input::{self, ScalarBytes},
    ntt::{NttArgs, lg_n, options},
    output::{OutputTarget, Ui, with_timings},
    progress::TerminalProgress,
};
use crate::{
    client::{Client, EncodedNttResult, Fr, NttReport, Prime31, ScalarEncoding},
    formats::scalars::Notation,
};

impl Words for Prime31 {
    fn words() -> Vec<(Self, PossibleValue)> {
        Self::ALL.iter().map(|prime| (*prime, PossibleValue::new(prime.name()))).collect()
    }
}

pub async fn run(ui: Ui, client: &Client, args: &NttArgs, field: Prime31) -> Result<()> {
    let rows = read(ui, &args.file, args.encoding, args.reduce)?;
    let coset = args.coset.map(word_of).transpose()?;
    let lg_n = lg_n(args, &rows).map_err(|failure| failure.in_file(args.file.display()))?;
    let bar = TerminalProgress::bytes(ui, "sending and receiving", rows.bytes.len() as u64);
    let options = options(args, lg_n, coset, &bar);
    let result = client.ntt31_bytes(field, rows.encoding, &rows.bytes, options).await;
    drop(bar);
    let EncodedNttResult { bytes, report: NttReport { timing, execution } } =
        result.map_err(|error| CliFailure::from(error).in_file(args.file.display()))?;
    ui.timings(&format!("ntt 2^{lg_n}"), &timing, &execution);
    write(&OutputTarget::new(args.out.as_deref()), args.encoding, &bytes)?;
    if ui.json {
        let report = json!({ "lg_n": lg_n, "batch": args.batch, "field": field.name() });
        ui.print_json(&with_timings(report, &timing, &execution))?;
    }
    Ok(())
}

/// The coset's generator.
fn word_of(generator: Fr) -> Result<u32> {
    match generator.into_bigint().0 {
        [low, 0, 0, 0] if u32::try_from(low).is_ok() => Ok(low as u32),
        _ => fail(Exit::Usage, "the coset's generator must be less than the prime"),
    }
}

/// Reads elements of 4 bytes.
pub(super) fn read(ui: Ui, path: &Path, format: ScalarFormat, reduce: bool) -> Result<ScalarBytes> {
    let encoding = match format {
        ScalarFormat::Binary(ScalarEncoding::Canonical) => ScalarEncoding::Canonical31,
        ScalarFormat::Binary(ScalarEncoding::Montgomery) => ScalarEncoding::Montgomery31,
        ScalarFormat::Text(radix) => {
            let bytes = input::read(ui, path)?;
            let file = path.display();
            let text = str::from_utf8(without_bom(&bytes))
                .map_err(|_| CliFailure::new(Exit::Data, format!("{file}: not text")))?;
            let bytes = parse(radix, text)
                .map_err(|problem| CliFailure::new(Exit::Data, format!("{file}: {problem}")))?;
            return Ok(ScalarBytes { encoding: ScalarEncoding::Canonical31, bytes });
        }
        ScalarFormat::Binary(_) | ScalarFormat::BigEndian => {
            let message = "fields of a prime below 2^31 take the encodings canonical, montgomery, \
                           hex and decimal";
            return fail(Exit::Usage, message);
        }
    };
    input::read_scalars(ui, path, ScalarFormat::Binary(encoding), reduce)
}

/// Reads integers below 2^32 separated by white space.
///
/// Errors: a message that names the first invalid word by its index.
fn parse(radix: Notation, text: &str) -> Result<Zeroizing<Vec<u8>>, String> {
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

/// Writes elements of 4 bytes.
pub(super) fn write(output: &OutputTarget, format: ScalarFormat, bytes: &[u8]) -> Result<()> {
    let radix = match format {
        ScalarFormat::Text(radix) => radix,
        // Montgomery form is shown unconverted, because the user chose this encoding.
        _ if output.is_terminal() => Notation::Hex,
        _ => return output.write(bytes),
    };
    output.write(text(radix, bytes).as_bytes())
}

/// Elements of 4 bytes, one per line.
pub(super) fn text(radix: Notation, bytes: &[u8]) -> Zeroizing<String> {
    // Enough for the longest: 10 decimal digits and a line feed.
    let mut text = Zeroizing::new(String::with_capacity(bytes.len() / 4 * 11));
    for word in bytes.as_chunks().0 {
        let word = u32::from_le_bytes(*word);
        let line = match radix {
            Notation::Hex => format!("{word:#010x}\n"),
            Notation::Decimal => format!("{word}\n"),
        };
        text.push_str(&Zeroizing::new(line));
    }
    text
}

/// The Montgomery form of a value, with the factor 2^32.
pub(super) fn montgomery(field: Prime31, value: u32) -> u32 {
    ((u64::from(value) << 32) % u64::from(field.modulus())) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_words_and_names_the_first_wrong_one() {
        let words = |radix, text| parse(radix, text).map(|bytes| bytes.to_vec());
        assert_eq!(words(Notation::Decimal, "1 256\n"), Ok(vec![1, 0, 0, 0, 0, 1, 0, 0]));
        assert_eq!(words(Notation::Hex, "0xff ff"), Ok(vec![255, 0, 0, 0, 255, 0, 0, 0]));
        for wrong in ["1 x", "1 4294967296", "1 -1"] {
            let problem = words(Notation::Decimal, wrong).unwrap_err();
            assert!(problem.starts_with("scalars[1]"), "{problem}");
        }
    }

    #[test]
    fn coset_generators_have_32_bits() {
        assert_eq!(word_of(Fr::from(u32::MAX)).ok(), Some(u32::MAX));
        assert!(word_of(Fr::from(1_u64 << 32)).is_err() && word_of(-Fr::from(1)).is_err());
    }
}
