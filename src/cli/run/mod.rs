//! `capstan run`.

mod args;
mod build;
#[cfg(not(feature = "internals"))]
mod file;
#[cfg(feature = "internals")]
pub mod file;
mod report;

use std::collections::HashMap;

pub use self::args::RunArgs;
use self::{
    args::NamedPath,
    build::{NamedProgram, NamedValue, name_step},
    file::ProgramFile,
};
use super::{
    exit::{CliFailure, Exit, Result},
    input::{self, ScalarBytes},
    output::Ui,
    progress::TerminalProgress,
};
use crate::client::{Client, InputElements, ProgramRun, RunOptions, ScalarInput};

pub async fn run(ui: Ui, client: &Client, args: &RunArgs) -> Result<()> {
    let name = args.file.display();
    let text = input::read(ui, &args.file)?;
    let file = ProgramFile::parse(&text)
        .map_err(|problem| CliFailure::new(Exit::Data, format!("{name}: {problem}")))?;
    args.check_names(&file)?;
    let mut elements = HashMap::new();
    for NamedPath { name, path } in &args.input {
        let scalars = input::read_scalars(ui, path, args.encoding, args.reduce)?;
        elements.insert(name.clone(), scalars);
    }
    let program = NamedProgram::build(client, &file, &elements).await;
    let program = program.map_err(|failure| failure.in_file(&name))?;
    let mut run = ProgramRun::new(&program.program);
    for output in &file.outputs {
        run = program.values[output].send(run);
    }
    let verify = args.verify.unwrap_or_default();
    let explain = |error| name_step(&file, error).in_file(&name);
    if args.estimate {
        return report::estimate(ui, &client.estimate(&run, verify).await.map_err(explain)?);
    }
    for (name, ScalarBytes { encoding, bytes }) in &elements {
        let input = ScalarInput::Bytes { encoding: *encoding, bytes };
        let reduce = args.reduce;
        let input = InputElements { reduce, ..input.into() };
        if let NamedValue::Vector(vector) = program.values[name] {
            run = run.input(vector, input);
        }
    }
    let bytes = elements.values().map(|scalars| scalars.bytes.len() as u64).sum();
    let bar = TerminalProgress::bytes(ui, "sending and receiving", bytes);
    let options = RunOptions { verify, deadline: None, progress: bar.callback() };
    let result = client.run_with(run, options).await;
    drop(bar);
    report::result(ui, args, &file, &program, &result.map_err(explain)?)
}
