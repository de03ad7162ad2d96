//! Exit codes, and failures that say what to do.

use std::{fmt, io};

use serde_json::json;

use crate::{
    client::{self, Code},
    formats,
};

/// What scripts can tell apart; the numbers are those of sysexits.h where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The job failed, or gave a wrong result.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The input is wrong; the message has field and index.
    Data = 65,
    /// The input cannot be read.
    NoInput = 66,
    /// The server cannot be reached.
    Unavailable = 69,
    /// The output cannot be written.
    NoOutput = 73,
    /// Full for the moment, going down, or out of time.
    Later = 75,
    /// The server refuses this to this caller, or altogether.
    Refused = 77,
    /// Ctrl-C.
    Interrupted = 130,
}

/// For `--help`.
pub const HELP: &str = "\
Exit codes:
  0    done
  1    the job failed, or a result was wrong
  2    the command line is wrong
  65   the input is wrong (the message names the field and the index)
  66   the input cannot be read
  69   the server cannot be reached
  73   the output cannot be written
  75   try again later: the server is full or going down, or the deadline passed
  77   refused: not for this caller, or it can never fit the server's limits
  130  interrupted; the job is cancelled on the server, too";

/// Why the command ends without success.
#[derive(Debug)]
pub struct Failure {
    /// With which code.
    pub exit: Exit,
    /// What happened and what to do, in a line. Empty: nothing to say.
    pub message: String,
    /// The server's reason, such as `NOT_CANONICAL`.
    pub reason: String,
    /// The field that is wrong.
    pub field: Option<String>,
    /// Its first bad element.
    pub index: Option<u64>,
}

/// `Result` with [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// One without details.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), reason: String::new(), field: None, index: None }
    }

    /// `file` cannot be read.
    pub fn input(file: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(Exit::NoInput, format!("cannot read {file}: {error}"))
    }

    /// `file` cannot be written. A reader of a pipe that has gone is no failure of ours.
    pub fn output(file: impl fmt::Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::NoOutput, format!("cannot write {file}: {error}"))
    }

    /// Says in which file the bad data is.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// On standard error, as text or as JSON.
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

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let message = match &error {
            client::Error::Connect { target, problem } if problem.contains("certificate") => {
                format!(
                    "cannot trust {target}: {problem}: name the authority that signed its \
                     certificate with --ca-certificate"
                )
            }
            client::Error::Connect { target, problem } => format!(
                "cannot reach {target}: {problem}: is capstand running? start it with `capstand`, \
                 or name another with --server"
            ),
            // On whichever side it was noticed first.
            _ if error.reason() == "DEADLINE" => {
                "deadline passed: allow more time with --deadline, or send less".to_owned()
            }
            other => other.to_string(),
        };
        Self {
            exit: exit_of(&error),
            message,
            reason: error.reason().to_owned(),
            field: error.field().map(str::to_owned),
            index: error.index(),
        }
    }
}

fn exit_of(error: &client::Error) -> Exit {
    match error {
        client::Error::Setting { .. } => return Exit::Usage,
        client::Error::Connect { .. } | client::Error::Lost(_) => return Exit::Unavailable,
        _ => {}
    }
    match error.code() {
        Code::InvalidArgument => Exit::Data,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Refused,
        Code::ResourceExhausted | Code::Unavailable if error.is_retryable() => Exit::Later,
        Code::ResourceExhausted => Exit::Refused,
        Code::DeadlineExceeded => Exit::Later,
        _ => Exit::Failed,
    }
}

impl From<formats::Error> for Failure {
    fn from(error: formats::Error) -> Self {
        let mut failure = Self::new(Exit::Data, error.to_string());
        match error {
            formats::Error::Element { field, index, .. } => {
                failure.field = Some(field.to_owned());
                failure.index = Some(index as u64);
            }
            // The file may be fine: the command line does not say enough.
            formats::Error::Ambiguous { .. } | formats::Error::NoSuchSet(_) => {
                failure.exit = Exit::Usage;
            }
            _ => {}
        }
        failure
    }
}
