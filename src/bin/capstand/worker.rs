//! The process that uses one GPU. The daemon starts it as `capstand worker FORMAT LEVEL`, with a
//! socket as standard input. FORMAT and LEVEL are those of the daemon's log.

use std::{
    env,
    ffi::OsString,
    os::{fd::AsFd, unix::net::UnixStream},
    panic,
    process::ExitCode,
};

use capstan::{
    config::Config,
    server::{WorkerCommand, serve_worker},
    telemetry::{self, LogFormat},
};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, warn};

use super::{SOFTWARE, USAGE};

const NAME: &str = "worker";

/// The log's format and level, if this process was started as a worker.
pub fn arguments() -> Option<[String; 2]> {
    let mut arguments = env::args().skip(1);
    if arguments.next()? != NAME {
        return None;
    }
    Some([arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default()])
}

/// How to start workers of this daemon.
pub fn command(config: &Config) -> WorkerCommand {
    let arguments = [NAME, config.log_format.word(), &config.log_level];
    WorkerCommand {
        // This very program, even if the file has been replaced by an upgrade.
        program: "/proc/self/exe".into(),
        arguments: arguments.map(OsString::from).into(),
    }
}

pub fn run([format, level]: [String; 2]) -> ExitCode {
    let is_json = format == LogFormat::Json.word();
    let format = if is_json { LogFormat::Json } else { LogFormat::Human };
    if let Err(error) = telemetry::install_logs(format, &level, super::allows_colours(), None) {
        super::print_error(&format_args!("worker: {error}"));
        return USAGE.into();
    }
    panic::set_hook(Box::new(super::log_panic));
    super::disable_core_dumps();
    ignore_termination();
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    match socket.and_then(|socket| serve_worker(&socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "a worker lost its server");
            SOFTWARE.into()
        }
    }
}

/// A service manager may signal all processes of the service, but only the daemon drains. A worker
/// ends when the daemon has closed its socket.
fn ignore_termination() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let handled = runtime.and_then(|runtime| {
        let _entered = runtime.enter();
        // The handler stays when this is dropped.
        signal(SignalKind::terminate()).map(drop)
    });
    handled.unwrap_or_else(|error| warn!(%error, "SIGTERM ends this worker"));
}
