//! `capstan doctor`: what is wrong with this host, the server and its configuration, and how to fix
//! it. Each check turns facts into findings, so that tests need no broken host.

mod clock;
mod files;
mod finding;
#[cfg(feature = "server")]
mod host;
mod report;
mod server_answer;

use clap::Args;

use self::{
    files::{CheckedFile, Secrecy},
    finding::{DoctorFinding, Severity},
};
use super::{
    args::GlobalArgs,
    exit::{Exit, Result, fail},
    output::Ui,
};

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Do not ask a server: check this host before its daemon is started
    #[arg(long)]
    no_server: bool,
    #[command(flatten)]
    host: host::HostArgs,
}

#[cfg(not(feature = "server"))]
mod host {
    pub use NoHostArgs as HostArgs;

    #[derive(Debug, clap::Args)]
    pub struct NoHostArgs {}

    pub async fn check(_args: &HostArgs) -> Vec<super::DoctorFinding> {
        let text =
            "this program is built without the server, so it checks nothing else of this host";
        vec![super::DoctorFinding::ok("host", text)]
    }
}

pub async fn run(ui: Ui, global: &GlobalArgs, args: &DoctorArgs) -> Result<()> {
    let mut findings = Vec::new();
    if !args.no_server {
        findings.extend(server_answer::check(global).await);
    }
    findings.extend(own_files(global));
    findings.push(clock::check());
    findings.extend(host::check(&args.host).await);
    if ui.json {
        ui.print_json(&report::as_json(&findings))?;
    } else {
        ui.print(&report::as_text(&findings))?;
    }
    // The report has said everything.
    if report::count(&findings, Severity::Problem) > 0 { fail(Exit::Failed, "") } else { Ok(()) }
}

/// Checks the files with secrets that the command line names.
fn own_files(global: &GlobalArgs) -> Vec<DoctorFinding> {
    let files = [("--token-file", &global.token_file), ("--tls-key", &global.tls_key)];
    let named = files.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)));
    let checked = named.map(|(name, path)| CheckedFile { name, path, secrecy: Secrecy::Secret });
    checked.map(|file| file.check(None)).collect()
}
