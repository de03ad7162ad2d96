//! Writes the files of a circuit of arkworks as circom would: an `.r1cs` and a `.wtns`.
//!
//! `cargo run --release --example groth16_files -- FOLDER`
//!
//! Without an argument, the files are written into a temporary folder, read back, and removed.
//! Those in `tests/data` were written by this program.

use std::{env, fs, path::Path};

use ark_relations::{
    gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, Result as R1csResult},
    lc,
};
use capstan::{
    client::Fr,
    groth16::{
        files::{read_r1cs, read_wtns, write_r1cs, write_wtns},
        synthesize,
    },
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CONSTRAINTS: &str = "repeated_square.r1cs";
const WITNESS: &str = "repeated_square.wtns";
const SQUARINGS: usize = 16;

/// The prover knows an x such that squaring it 16 times gives y.
#[derive(Clone, Copy)]
struct RepeatedSquare {
    x: Fr,
}

impl ConstraintSynthesizer<Fr> for RepeatedSquare {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> R1csResult<()> {
        let y = (0..SQUARINGS).fold(self.x, |power, _| power * power);
        let y = system.new_input_variable(|| Ok(y))?;
        let (mut value, mut power) = (self.x, system.new_witness_variable(|| Ok(self.x))?);
        for index in 0..SQUARINGS {
            value *= value;
            let is_last = index == SQUARINGS - 1;
            let square = if is_last { y } else { system.new_witness_variable(|| Ok(value))? };
            system.enforce_r1cs_constraint(
                || lc!() + power,
                || lc!() + power,
                || lc!() + square,
            )?;
            power = square;
        }
        Ok(())
    }
}

/// Writes both files into a folder.
pub fn write_files(folder: &Path) -> Outcome {
    let synthesized = synthesize(RepeatedSquare { x: Fr::from(3) })?;
    fs::write(folder.join(CONSTRAINTS), write_r1cs(&synthesized.matrices)?)?;
    fs::write(folder.join(WITNESS), write_wtns(&synthesized.assignment)?)?;
    Ok(())
}

fn main() -> Outcome {
    if let Some(folder) = env::args().nth(1) {
        write_files(Path::new(&folder))?;
        println!("wrote {CONSTRAINTS} and {WITNESS} into {folder}");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    write_files(folder.path())?;
    let matrices = read_r1cs(&fs::read(folder.path().join(CONSTRAINTS))?)?;
    let assignment = read_wtns(&fs::read(folder.path().join(WITNESS))?)?;
    matrices.check(&assignment)?;
    println!("{} constraints hold, as read from {CONSTRAINTS}", matrices.constraints());
    Ok(())
}
