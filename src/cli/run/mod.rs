//! `capstan run`.

mod args;
mod build;
mod checks;
mod elements;
pub mod file;
mod report;

pub use self::args::RunArgs;
use self::{
    build::{NamedProgram, name_step},
    elements::{FileElements, ProgramElements},
    file::ProgramFile,
    report::FileRunReport,
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
    checks::input_shapes(&file).map_err(|failure| failure.in_file(&name))?;
    let elements = ProgramElements::read(ui, args, &file).await?;
    let program = NamedProgram::build(client, &file, &elements.inputs).await;
    let program = program.map_err(|failure| failure.in_file(&name))?;
    report::check_encoding(args, &program)?;
    let mut run = ProgramRun::new(&program.program);
    for output in &file.outputs {
        run = program.values[output].send(run);
    }
    let verify = args.verify.unwrap_or_default();
    let explain = |error| name_step(&file, error).in_file(&name);
    if args.estimate {
        return report::estimate(ui, &client.estimate(&run, verify).await.map_err(explain)?);
    }
    let mut sent_bytes = 0;
    for (name, FileElements { scalars, .. }) in &elements.inputs {
        let ScalarBytes { encoding, bytes } = scalars;
        sent_bytes += bytes.len() as u64;
        let input = InputElements::from(ScalarInput::Bytes { encoding: *encoding, bytes });
        let input = if args.reduce { input.reduced() } else { input };
        if let Some(vector) = program.values[name].vector() {
            run = run.input(vector, input);
        }
    }
    let bar = TerminalProgress::bytes(ui, "sending and receiving", sent_bytes);
    let options = RunOptions { verify, deadline: None, progress: bar.callback() };
    let result = client.run_with(run, options).await;
    drop(bar);
    let report =
        FileRunReport { args, file: &file, program: &program, matrices: elements.matrices };
    report.print(ui, &result.map_err(explain)?)
}
