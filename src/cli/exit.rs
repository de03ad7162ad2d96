//! Exit codes, and failures with advice.

use std::{
    fmt,
    io::{self, Write as _},
};

use capstan_proofs::groth16::{Groth16Error, RunnerError};
use serde_json::json;

use super::plain_text::without_controls;
use crate::{
    client::{ClientError, Code, ConnectCause, Reason},
    error::{EngineError, InputError},
    formats::FormatError,
};

/// Exit codes, explained by [`HELP`]; those from 64 to 78 follow sysexits.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotVerified = 3,
    Data = 65,
    NoInput = 66,
    Unavailable = 69,
    NoOutput = 73,
    RetryLater = 75,
    Refused = 77,
    Interrupted = 130,
    Terminated = 143,
}

pub const HELP: &str = "\
Exit codes:
  0    success
  1    the job failed, or a result is wrong
  2    the command line is invalid
  3    a proof does not verify
  65   the input is invalid (the message names the field and the index)
  66   the input cannot be read
  69   the server cannot be reached
  73   the output cannot be written
  75   retry later: the server is full or draining, or the deadline passed
  77   refused: not permitted, or too large for the server's limits
  130  interrupted; the job is also cancelled on the server
  143  terminated by SIGTERM; the job is also cancelled on the server";

#[derive(Debug)]
pub struct CliFailure {
    pub exit: Exit,
    /// What happened and what to do, in one line. Empty if there is nothing to print.
    pub message: String,
    /// The server's reason as sent, such as `NOT_CANONICAL`; empty if it sent none.
    pub reason_text: String,
    /// The request's invalid field.
    pub field: Option<String>,
    /// Index of the field's first invalid element.
    pub index: Option<u64>,
    /// The call's id in the server's logs.
    pub request_id: Option<String>,
}

/// Prints a line on standard error. If that fails, the line is lost, and not the result.
pub fn print_error(line: &str) {
    let _lost = writeln!(io::stderr(), "{line}");
}

/// Prints what went wrong, like [`print_error`].
pub fn print_problem(problem: &str) {
    print_error(&format!("capstan: {problem}"));
}

pub type Result<T, E = CliFailure> = std::result::Result<T, E>;

pub fn fail<T>(exit: Exit, message: impl Into<String>) -> Result<T> {
    Err(CliFailure::new(exit, message))
}

impl CliFailure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        let (reason_text, field, index, request_id) = Default::default();
        Self { exit, message: message.into(), reason_text, field, index, request_id }
    }

    /// The arguments are invalid: the part of clap's text before the usage and its advice,
    /// in one line.
    pub fn usage(text: &str) -> Self {
        let end = ["\n\nUsage:", "\n\nFor more information"];
        let end = end.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
        let problem = &text[..end];
        // Without arguments, clap's text is the help.
        let problem = problem.strip_prefix("error: ").unwrap_or("a command is missing: see --help");
        let words: Vec<_> = problem.split_whitespace().collect();
        Self::new(Exit::Usage, words.join(" "))
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
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.message = format!("{file}: {}", self.message);
        self
    }

    /// Prints the failure on standard error, as text or as JSON.
    pub fn print(&self, as_json: bool) {
        if self.message.is_empty() {
            return;
        }
        if as_json {
            let error = json!({
                "message": self.message, "exit": self.exit as u8, "reason": self.reason_text,
                "field": self.field, "index": self.index, "request_id": self.request_id,
            });
            print_error(&json!({ "error": error }).to_string());
        } else {
            print_problem(&without_controls(&self.message));
        }
    }
}

impl From<ClientError> for CliFailure {
    fn from(error: ClientError) -> Self {
        let is_about_scalars = error
            .field()
            .is_some_and(|field| field.starts_with("scalars") || field.ends_with(".elements"));
        let message = match &error {
            ClientError::CannotConnect { target, problem, cause } => {
                cannot_connect(target, problem, *cause)
            }
            _ if error.reason() == Some(Reason::CredentialsMissing) => format!(
                "{error}: specify --token-file, the variable CAPSTAN_TOKEN, or --tls-cert and \
                 --tls-key"
            ),
            // The client's deadline or the server's.
            _ if error.reason() == Some(Reason::Deadline) => {
                "the deadline passed: allow more time with --deadline, or send less".to_owned()
            }
            _ if error.reason() == Some(Reason::NotCanonical) && is_about_scalars => {
                format!("{error}: --reduce reduces scalars modulo r")
            }
            _ => error.to_string(),
        };
        Self {
            exit: exit_for(&error),
            message,
            reason_text: error.reason_text().to_owned(),
            field: error.field().map(str::to_owned),
            index: error.index(),
            request_id: error.request_id().map(str::to_owned),
        }
    }
}

/// Why there is no connection, and which option helps.
fn cannot_connect(target: &str, problem: &str, cause: ConnectCause) -> String {
    use ConnectCause as Cause;
    let untrusted = format!("cannot trust {target}: {problem}");
    let unreachable = format!("cannot reach {target}: {problem}");
    match cause {
        Cause::UnknownAuthority => format!(
            "{untrusted}: specify the authority that signed its certificate with --ca-certificate"
        ),
        Cause::CertificateName => {
            format!("{untrusted}: use a name that its certificate has in --server")
        }
        Cause::CertificateTime | Cause::CertificateInvalid => format!("{untrusted}: {cause}"),
        Cause::ClientCertificate => format!(
            "{target} requires a client certificate that it trusts: specify one with --tls-cert \
             and --tls-key"
        ),
        Cause::ClosedAfterHandshake => format!(
            "{target} closed the connection after the TLS handshake: if it requires a client \
             certificate, specify one with --tls-cert and --tls-key"
        ),
        Cause::NeedsTls => format!("{target} uses TLS: specify https:// in --server"),
        Cause::WithoutTls => format!("{target} does not use TLS: specify http:// in --server"),
        Cause::PermissionDenied => format!(
            "{unreachable}: run this as a user of the socket's group (unix_mode), or as root"
        ),
        // Other causes, and those that this version does not know.
        _ => format!(
            "{unreachable}: is capstand running? start it with `capstand`, or specify another \
             server with --server"
        ),
    }
}

fn exit_for(error: &ClientError) -> Exit {
    match error {
        ClientError::InvalidSetting { .. } => Exit::Usage,
        ClientError::CannotConnect { .. } | ClientError::ConnectionLost(_) => Exit::Unavailable,
        _ => match error.code() {
            Code::InvalidArgument => Exit::Data,
            Code::ResourceExhausted | Code::Unavailable if error.is_retryable() => Exit::RetryLater,
            Code::DeadlineExceeded => Exit::RetryLater,
            Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted => {
                Exit::Refused
            }
            _ => Exit::Failed,
        },
    }
}

impl From<EngineError> for CliFailure {
    /// A failure of the engine in this process.
    fn from(error: EngineError) -> Self {
        let reason_text = error.reason().text().to_owned();
        let failure = match error {
            EngineError::Input(error @ InputError::Invalid { .. }) => {
                ClientError::from(error).into()
            }
            EngineError::Exhausted { .. } => Self::new(Exit::Refused, error.to_string()),
            _ => Self::new(Exit::Failed, error.to_string()),
        };
        Self { reason_text, ..failure }
    }
}

impl CliFailure {
    /// A failure of a client or of the engine in this process.
    fn of_runner(error: RunnerError) -> Self {
        let error = match error.downcast::<ClientError>() {
            Ok(error) => return Self::from(*error),
            Err(error) => error,
        };
        match error.downcast::<EngineError>() {
            Ok(error) => Self::from(*error),
            Err(error) => Self::new(Exit::Failed, error.to_string()),
        }
    }
}

impl From<FormatError> for CliFailure {
    fn from(error: FormatError) -> Self {
        let mut failure = Self::new(Exit::Data, error.to_string());
        match error {
            FormatError::Element { field, index, .. } => {
                failure.field = Some(field.to_owned());
                failure.index = Some(index as u64);
            }
            // The file may be valid: the command line does not match it.
            FormatError::Ambiguous { .. } | FormatError::NoSuchSet(_) => {
                failure.exit = Exit::Usage;
            }
            _ => {}
        }
        failure
    }
}

impl From<Groth16Error> for CliFailure {
    fn from(error: Groth16Error) -> Self {
        match error {
            Groth16Error::Run(error) => Self::of_runner(error),
            Groth16Error::Part { part, error } => Self::of_runner(error).in_file(part),
            Groth16Error::Unsatisfied { index } => {
                Self { index: Some(index as u64), ..Self::new(Exit::Data, error.to_string()) }
            }
            _ => Self::new(Exit::Data, error.to_string()),
        }
    }
}
