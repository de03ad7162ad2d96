//! Elements of inputs and outputs in files, in the format of their field.

use std::collections::HashMap;

use capstan_math::{
    field::FieldId,
    gf2::files::{ColumnOrder, FileLayout, MatrixFilesError},
};
use zeroize::Zeroizing;

use super::{
    args::{NamedPath, RunArgs},
    file::{InputText, ProgramFile},
};
use crate::{
    client::{BitMatrix, ScalarEncoding},
    exit::{CliFailure, Exit, Result, fail},
    gf2::files,
    input::{self, ScalarBytes},
    integers::digits,
    output::Ui,
};

/// Limbs of all integers of a file, each as long as the longest: 4 GiB.
const FILE_LIMBS_MAX: usize = 1 << 30;

/// The elements of an input, and the shape that its file has.
pub struct FileElements {
    pub scalars: ScalarBytes,
    /// The rows of a matrix, or the number of integers.
    pub rows: Option<u64>,
    /// The columns of a matrix of bits.
    pub columns: Option<u64>,
}

/// How matrices of bits are written: like the first one that was read.
#[derive(Clone, Copy)]
pub struct MatrixStyle {
    pub order: ColumnOrder,
    pub write: fn(&BitMatrix, ColumnOrder) -> Vec<u8>,
}

/// What the files of the inputs hold.
#[derive(Default)]
pub struct ProgramElements {
    pub inputs: HashMap<String, FileElements>,
    /// `None` without a matrix.
    pub matrices: Option<MatrixStyle>,
}

impl ProgramElements {
    /// Reads the files of all inputs.
    pub async fn read(ui: Ui, args: &RunArgs, file: &ProgramFile) -> Result<Self> {
        let mut all = Self::default();
        for given in &args.input {
            let step = file.steps.iter().find(|step| step.name == given.name);
            let Some(text) = step.and_then(|step| step.input) else { continue };
            let InputText { field, length, columns, .. } = text;
            let of_field = |field| -> Result<FileElements> {
                let scalars =
                    input::read_scalars(ui, &given.path, field, args.encoding, args.reduce)?;
                Ok(FileElements { scalars, rows: None, columns: None })
            };
            let elements = match field {
                FieldId::Bls12381Fr => of_field(None)?,
                FieldId::Prime31(field) => of_field(Some(field))?,
                FieldId::Gf2 => all.matrix(ui, given, columns).await?,
                FieldId::Integers => integers(ui, given, length)?,
            };
            all.inputs.insert(given.name.clone(), elements);
        }
        Ok(all)
    }

    /// Reads a matrix of `columns` columns, or of as many as its file has.
    async fn matrix(
        &mut self,
        ui: Ui,
        given: &NamedPath,
        columns: Option<u64>,
    ) -> Result<FileElements> {
        let file = files::read(ui, &given.path).await?;
        let FileLayout { columns: in_file, order } = FileLayout::of(&file);
        let columns = columns.unwrap_or(in_file);
        if columns < in_file {
            let message = format!(
                "{}: {in_file} columns, but the program has {columns}",
                given.path.display()
            );
            return fail(Exit::Data, message);
        }
        let first = *self.matrices.get_or_insert(MatrixStyle { order, write: file.writer() });
        if order != first.order {
            let message = format!("{}: {}", given.path.display(), MatrixFilesError::Orders);
            return fail(Exit::Data, message);
        }
        let matrix = files::matrix(&given.path, file, FileLayout { columns, order }).await?;
        let bytes = Zeroizing::new(bytemuck::cast_slice(matrix.words()).to_vec());
        let scalars = ScalarBytes { encoding: ScalarEncoding::PackedBits64, bytes };
        let (rows, columns) = (matrix.rows() as u64, matrix.columns() as u64);
        Ok(FileElements { scalars, rows: Some(rows), columns: Some(columns) })
    }
}

/// Reads an integer per line. Each gets `length` limbs, at most `PRODUCT_LIMBS_MAX`, or as many as
/// the largest needs.
fn integers(ui: Ui, given: &NamedPath, length: Option<u64>) -> Result<FileElements> {
    let bytes = input::read(ui, &given.path)?;
    let file = given.path.display();
    let wrong = |index: usize, problem: String| CliFailure {
        index: Some(index as u64),
        ..CliFailure::new(Exit::Data, format!("{file}: integers[{index}]: {problem}"))
    };
    let parse = |(index, line): (usize, &[u8])| {
        let parsed = digits::parse(line).map_err(|error| error.in_line(index + 1));
        let parsed = parsed.map_err(|error| wrong(index, error.to_string()))?;
        let (limbs, max) = (digits::limbs(&parsed.value), length.unwrap_or(u64::MAX));
        let got = limbs.len() as u64;
        if got > max {
            return Err(wrong(index, format!("too long in limbs: at most {max}, got {got}")));
        }
        Ok(limbs)
    };
    let lines = bytes.trim_ascii_end().split(|byte| *byte == b'\n').enumerate();
    let rows = lines.map(parse).collect::<Result<Vec<_>>>()?;
    let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let length = length.map_or(longest, |length| length as usize);
    let (count, max) = (rows.len(), FILE_LIMBS_MAX);
    let limbs = count.checked_mul(length).filter(|limbs| *limbs <= max).ok_or_else(|| {
        let problem = format!("{count} integers of {length} limbs: at most {max} limbs in all");
        CliFailure::new(Exit::Data, format!("{file}: {problem}"))
    })?;
    let mut limbs = Zeroizing::new(vec![0_u8; 4 * limbs]);
    for (row, out) in rows.iter().zip(limbs.chunks_mut(4 * length)) {
        out[..4 * row.len()].copy_from_slice(bytemuck::cast_slice(row));
    }
    let scalars = ScalarBytes { encoding: ScalarEncoding::Limbs32, bytes: limbs };
    Ok(FileElements { scalars, rows: Some(rows.len() as u64), columns: None })
}
