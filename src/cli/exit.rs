//! Exit codes, and failures with advice.

use std::{fmt, io};

use serde_json::json;

use crate::{
    client::{self, Code, Reason},
    formats,
};

/// Exit codes; those from 64 to 78 follow sysexits.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// The job failed, or gave a wrong result.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The input is invalid; the message names field and index.
    Data = 65,
    /// The input cannot be read.
    NoInput = 66,
    /// The server cannot be reached.
    Unavailable = 69,
    /// The output cannot be written.
    NoOutput = 73,
    /// The server is full or draining, or the deadline passed.
    TryLater = 75,
    /// The server refuses the request permanently.
    Refused = 77,
    /// Ctrl-C.
    Interrupted = 130,
}

/// For `--help`.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    the job failed, or a result is wrong
  2    the command line is invalid
  65   the input is invalid (the message names the field and the index)
  66   the input cannot be read
  69   the server cannot be reached
  73   the output cannot be written
  75   try again later: the server is full or draining, or the deadline passed
  77   refused: not permitted, or too large for the server's limits
  130  interrupted; the job is also cancelled on the server";

/// Why a command failed.
#[derive(Debug)]
pub struct CliFailure {
    /// The exit code.
    pub exit: Exit,
    /// What happened and what to do, in one line. Empty if there is nothing to print.
    pub message: String,
    /// The server's reason, such as `NOT_CANONICAL`.
    pub reason: String,
    /// The invalid field.
    pub field: Option<String>,
    /// Index of the field's first invalid element.
    pub index: Option<u64>,
}

/// `Result` with [`CliFailure`].
pub type Result<T, E = CliFailure> = std::result::Result<T, E>;

impl CliFailure {
    /// A failure without details.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), reason: String::new(), field: None, index: None }
    }

    /// `file` cannot be read.
    pub fn input(file: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(Exit::NoInput, format!("cannot read {file}: {error}"))
    }

    /// `file` cannot be written. A closed pipe is not a failure.
    pub fn output(file: impl fmt::Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::NoOutput, format!("cannot write {file}: {error}"))
    }

    /// Prefixes the message with the file of the invalid data.
    pub fn in_file(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Prints the failure on standard error, as text or as JSON.
    pub fn print(&self, as_json: bool) {
        if self.message.is_empty() {
            return;
        }
        if as_json {
            let error = json!({
                "message": self.message, "exit": self.exit as u8, "reason": self.reason,
                "field": self.field, "index": self.index,
            });
            eprintln!("{}", json!({ "error": error }));
        } else {
            eprintln!("capstan: {}", self.message);
        }
    }
}

impl From<client::ClientError> for CliFailure {
    fn from(error: client::ClientError) -> Self {
        let message = match &error {
            client::ClientError::CannotConnect { target, problem }
                if problem.contains("certificate") =>
            {
                format!(
                    "cannot trust {target}: {problem}: specify the authority that signed its \
                     certificate with --ca-certificate"
                )
            }
            client::ClientError::CannotConnect { target, problem } => format!(
                "cannot reach {target}: {problem}: is capstand running? start it with `capstand`, \
                 or specify another server with --server"
            ),
            // The client's deadline or the server's.
            _ if error.reason() == Some(Reason::Deadline) => {
                "deadline passed: allow more time with --deadline or send less".to_owned()
            }
            other if other.reason() == Some(Reason::NotCanonical) && is_about_scalars(other) => {
                format!("{other}: --reduce reduces scalars modulo r")
            }
            other => other.to_string(),
        };
        Self {
            exit: exit_for(&error),
            message,
            reason: error.reason_text().to_owned(),
            field: error.field().map(str::to_owned),
            index: error.index(),
        }
    }
}

fn is_about_scalars(error: &client::ClientError) -> bool {
    error.field().is_some_and(|field| field.starts_with("scalars"))
}

fn exit_for(error: &client::ClientError) -> Exit {
    match error {
        client::ClientError::InvalidSetting { .. } => return Exit::Usage,
        client::ClientError::CannotConnect { .. } | client::ClientError::ConnectionLost(_) => {
            return Exit::Unavailable;
        }
        _ => {}
    }
    match error.code() {
        Code::InvalidArgument => Exit::Data,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Refused,
        Code::ResourceExhausted | Code::Unavailable if error.is_retryable() => Exit::TryLater,
        Code::ResourceExhausted => Exit::Refused,
        Code::DeadlineExceeded => Exit::TryLater,
        _ => Exit::Failed,
    }
}

impl From<formats::FormatError> for CliFailure {
    fn from(error: formats::FormatError) -> Self {
        let mut failure = Self::new(Exit::Data, error.to_string());
        match error {
            formats::FormatError::Element { field, index, .. } => {
                failure.field = Some(field.to_owned());
                failure.index = Some(index as u64);
            }
            // The file may be valid: the command line does not match it.
            formats::FormatError::Ambiguous { .. } | formats::FormatError::NoSuchSet(_) => {
                failure.exit = Exit::Usage;
            }
            _ => {}
        }
        failure
    }
}
