//! `capstan token`: makes bearer tokens and edits the file of their hashes. No server is involved.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    exit::{CliFailure, Exit, Result, fail, print_error},
    output::{Ui, table},
    pending_file::PendingFile,
};
use crate::identity::{
    BearerToken, TokenEntry, TokenFile, TokenFileProblem, add_token, can_be_written, remove_token,
    time_text,
};

/// Permission bits of a new file. Hashes are not secret; only their integrity matters.
const MODE: u32 = 0o644;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, print it on standard output, and add its hash to a file
    New(NewArgs),
    /// Show the names, tenants and expiry times in a file
    List {
        /// File of the server's setting auth_tokens
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Remove a token from a file; a running server notices within seconds
    Revoke {
        /// Name of the token
        #[arg(long)]
        name: String,
        /// File of the server's setting auth_tokens
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the caller, which appears in the server's log; each token has its own
    #[arg(long)]
    name: String,
    /// Tenant that the caller's calls count for [default: default]
    #[arg(long)]
    tenant: Option<String>,
    /// Time after which the token stops working, such as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    expires_in: Option<Duration>,
    /// File of the server's setting auth_tokens, which is created if it does not exist; without it,
    /// the entry is printed on standard error
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub fn run(ui: Ui, command: &TokenCommand) -> Result<()> {
    match command {
        TokenCommand::New(args) => new(ui, args),
        TokenCommand::List { file } => list(ui, file),
        TokenCommand::Revoke { name, file } => {
            edit(file, |text| {
                let text = text.ok_or(CliFailure::input(file.display(), &no_file()))?;
                remove_token(&text, name).map_err(|problem| in_file(file, &problem))
            })?;
            if ui.json {
                return ui.print_json(&json!({ "revoked": name }));
            }
            ui.note(&format!("revoked {name}"));
            Ok(())
        }
    }
}

fn new(ui: Ui, args: &NewArgs) -> Result<()> {
    let no_randomness = |error| CliFailure::new(Exit::Failed, format!("no randomness: {error}"));
    let token = BearerToken::generate().map_err(no_randomness)?;
    let expires = args.expires_in.map(|time| {
        let expires = SystemTime::now().checked_add(time).filter(|time| can_be_written(*time));
        let problem = "--expires-in ends after the year 9999: leave it out for a token without end";
        expires.ok_or_else(|| CliFailure::new(Exit::Usage, problem))
    });
    let entry = TokenEntry {
        name: args.name.clone(),
        tenant: args.tenant.clone(),
        hash: token.hash(),
        expires: expires.transpose()?,
    };
    match &args.file {
        Some(file) => edit(file, |text| {
            add_token(&text.unwrap_or_default(), &entry).map_err(|problem| in_file(file, &problem))
        })?,
        None => {
            let text = add_token("", &entry);
            let text = text.map_err(|problem| CliFailure::new(Exit::Usage, problem.to_string()))?;
            if !ui.json {
                print_error(text.trim_end());
            }
        }
    }
    if ui.json {
        let mut report = report(&entry);
        report["token"] = json!(token.text());
        return ui.print_json(&report);
    }
    let mut line = Zeroizing::new(String::with_capacity(token.text().len() + 1));
    line.push_str(token.text());
    line.push('\n');
    ui.print(&line)
}

fn list(ui: Ui, path: &Path) -> Result<()> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| CliFailure::input(path.display(), &error))?;
    let file = TokenFile::parse(&text).map_err(|problem| in_file(path, &problem))?;
    if ui.json {
        return ui.print_json(&file.entries().iter().map(report).collect::<Value>());
    }
    let mut rows = table(["name", "tenant", "expires"]);
    for TokenEntry { name, tenant, expires, .. } in file.entries() {
        let expires = expires.map_or_else(|| "never".to_owned(), time_text);
        rows.add_row([name, tenant.as_deref().unwrap_or("default"), &expires]);
    }
    ui.print(&format!("{rows}\n"))
}

fn report(entry: &TokenEntry) -> Value {
    let TokenEntry { name, tenant, hash, expires } = entry;
    let expires = expires.map(time_text);
    json!({ "name": name, "tenant": tenant, "sha256": hash.to_string(), "expires": expires })
}

fn no_file() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn in_file(path: &Path, problem: &TokenFileProblem) -> CliFailure {
    let exit = match problem {
        TokenFileProblem::NoSuchName => Exit::Usage,
        _ => Exit::Data,
    };
    CliFailure::new(exit, problem.to_string()).in_file(path.display())
}

/// Replaces the file's text, `None` if there is no file, by what `change` makes of it. The file is
/// replaced as a whole, so a server reads the old text or the new one. Edits by other processes
/// wait.
fn edit(path: &Path, change: impl FnOnce(Option<String>) -> Result<String>) -> Result<()> {
    // Of a link, the file behind it is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let unwritable = |error: io::Error| CliFailure::output(path.display(), &error);
    if path.file_name().is_none() {
        return fail(Exit::Usage, format!("{} is not a file", path.display()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let lock = File::open(folder).map_err(unwritable)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| unwritable(error.into()))?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(CliFailure::input(path.display(), &error)),
    };
    let text = change(text)?;
    let pending = PendingFile::create_with_mode(&path, MODE)?;
    pending.write(text.as_bytes())?;
    // A server that cannot read the file would keep the old tokens.
    pending.replace()?;
    lock.sync_all().map_err(unwritable)
}
