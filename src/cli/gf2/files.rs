//! Reads files of matrices, and runs eliminations with a progress bar. Errors name the file.

use std::path::Path;

use capstan_math::gf2::{
    BitMatrix, EliminationProgress,
    files::{FileLayout, MatrixFile, MatrixFileError},
};

use crate::{
    exit::{CliFailure, Exit, Result},
    input,
    output::Ui,
    progress::TerminalProgress,
    random::blocking,
};

/// For the help of commands.
pub const FORMATS: &str = "\
Files of matrices are text or packed bits.
  text         a row per line: the columns in which it is 1, from 0 on, separated by blanks, in
               descending or ascending order; the first one leads; an empty line is a row of zeros
  packed bits  the bytes GF2BITS1, the numbers of rows and columns (64 bits each), and for each row
               words of 64 bits, column 0 in the lowest bit; little-endian; the lowest column leads
A result is written in the format of the file that it comes from.";

/// Reads a file on a thread that may block.
pub async fn read(ui: Ui, path: &Path) -> Result<MatrixFile> {
    let path = path.to_owned();
    blocking(move || {
        let bytes = input::read(ui, &path)?;
        MatrixFile::parse(&bytes).map_err(|error| failure(&path, error))
    })
    .await
}

/// Makes the matrix of a file, which may be much larger than text.
pub async fn matrix(path: &Path, file: MatrixFile, layout: FileLayout) -> Result<BitMatrix> {
    let matrix = blocking(move || file.into_matrix(layout)).await;
    matrix.map_err(|error| failure(path, error))
}

/// The content of the file is wrong.
fn failure(path: &Path, error: MatrixFileError) -> CliFailure {
    CliFailure::new(Exit::Data, error.to_string()).in_file(path.display())
}

/// Runs an elimination on a thread that may block; `work` gets the callback that shows how far it
/// is.
pub async fn eliminate<T: Send + 'static>(
    ui: Ui,
    work: impl FnOnce(&(dyn Fn(EliminationProgress) -> bool + Sync)) -> T + Send + 'static,
) -> T {
    let bar = TerminalProgress::steps(ui, "eliminating columns", 0);
    let set = bar.setter();
    let result = blocking(move || {
        work(&|progress| {
            set(progress.columns, progress.of);
            true
        })
    });
    result.await
}
