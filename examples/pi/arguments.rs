//! The command line.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
};

use clap::{Parser, value_parser};

use super::{Outcome, sizes::DIGITS_MAX};

/// Computes pi by products of integers on a Capstan server.
#[derive(Parser)]
pub struct Arguments {
    /// Digits after the point.
    #[arg(default_value_t = 100_000, value_parser = value_parser!(u64).range(1..=DIGITS_MAX))]
    pub digits: u64,
    /// The server: http://host:port, https://host:port or unix:/path. By default, one that computes
    /// on the CPU is started in this process.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File that the digits are written to.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The file for the digits.
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens the file before the long work begins. Its content stays until the digits are known.
    pub fn open(path: PathBuf) -> Outcome<Self> {
        let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        match options {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(format!("cannot write to {}: {error}", path.display()).into()),
        }
    }

    pub fn write(mut self, digits: &str) -> Outcome<()> {
        let written = self.write_all(digits);
        written.map_err(|error| format!("cannot write to {}: {error}", self.path.display()).into())
    }

    fn write_all(&mut self, digits: &str) -> std::io::Result<()> {
        self.file.write_all(b"3.")?;
        self.file.write_all(digits.as_bytes())?;
        self.file.write_all(b"\n")?;
        // The file may have been longer.
        self.file.set_len(digits.len() as u64 + 3)
    }
}
