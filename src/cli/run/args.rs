//! The arguments of `capstan run`.

use std::{path::PathBuf, str::FromStr};

use clap::Args;

use super::file::{self, ProgramFile};
use crate::{
    args::{SCALAR_FORMATS, ScalarFormat, word},
    client::Verification,
    exit::{Exit, Result, fail},
};

#[derive(Debug, Args)]
#[command(after_help = format!("{}\n\n{SCALAR_FORMATS}", file::FORMAT))]
pub struct RunArgs {
    /// File with the program, see below; - for standard input
    pub file: PathBuf,
    /// File with the elements of an input, see below; - for standard input; can be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub input: Vec<NamedPath>,
    /// Write an output to a file: points in compressed form; can be repeated [default: hex on
    /// standard output]
    #[arg(long, value_name = "NAME=FILE")]
    pub output: Vec<NamedPath>,
    /// Encoding of field elements in inputs, and in vectors that are written to files, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    pub encoding: ScalarFormat,
    /// Reduce elements modulo the order of their field instead of refusing those that are not below
    /// it
    #[arg(long)]
    pub reduce: bool,
    /// Make the server check the steps before returning the outputs
    ///
    /// A probabilistic check is made of the steps ntt, msm, poly_mul and int_mul only.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "full")]
    pub verify: Option<Verification>,
    /// Show what the program would take on the server, without running it
    #[arg(long)]
    pub estimate: bool,
}

/// A value of the program, and the file that holds its elements.
#[derive(Debug, Clone)]
pub struct NamedPath {
    pub name: String,
    pub path: PathBuf,
}

impl FromStr for NamedPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(Self { name: name.to_owned(), path: path.into() })
            }
            _ => Err("expected NAME=FILE".to_owned()),
        }
    }
}

impl RunArgs {
    /// Checks that `--input` and `--output` name inputs and outputs of the program.
    pub fn check_names(&self, file: &ProgramFile) -> Result<()> {
        let inputs: Vec<_> =
            file.steps.iter().filter(|step| step.input.is_some()).map(|step| &step.name).collect();
        let outputs: Vec<_> = file.outputs.iter().collect();
        for (option, given, known) in
            [("--input", &self.input, &inputs), ("--output", &self.output, &outputs)]
        {
            for (index, NamedPath { name, .. }) in given.iter().enumerate() {
                if !known.contains(&name) {
                    let kind = option.trim_start_matches('-');
                    let message =
                        format!("{option} {name}: the program has no {kind} of this name");
                    return fail(Exit::Usage, message);
                }
                if given[..index].iter().any(|other| other.name == *name) {
                    return fail(Exit::Usage, format!("{option} {name} is given twice"));
                }
            }
        }
        let missing =
            inputs.iter().find(|name| !self.input.iter().any(|input| input.name == ***name));
        if let Some(name) = missing.filter(|_| !self.estimate) {
            let message = format!("input '{name}': specify its elements with --input {name}=FILE");
            return fail(Exit::Usage, message);
        }
        let files = self.input.iter().map(|input| &input.path).chain([&self.file]);
        if files.filter(|path| path.as_os_str() == "-").count() > 1 {
            return fail(Exit::Usage, "only one file can be standard input");
        }
        Ok(())
    }
}
