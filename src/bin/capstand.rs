//! The daemon: configuration, then logs and metrics, then the engine, then the server.
#![deny(unsafe_code, clippy::unwrap_used)]

#[path = "capstand/gpu.rs"]
mod gpu;

use std::{
    panic::{self, PanicHookInfo},
    process::ExitCode,
    sync::Arc,
};

use capstan::{
    config::{self, Config, Problem, Size, Values},
    engine::cpu::ArkworksEngine,
    server::{Drainer, Engines, ServeError, Server, Settings},
    telemetry,
};
use gpu::Lifeline;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing::{error, field, info, warn};

/// Wrong flags (EX_USAGE).
const USAGE: u8 = 64;
/// An address cannot be bound (EX_UNAVAILABLE).
const UNAVAILABLE: u8 = 69;
/// A fault of ours (EX_SOFTWARE).
const SOFTWARE: u8 = 70;
/// Wrong configuration (EX_CONFIG).
const CONFIG: u8 = 78;
/// Stopped at once by a second signal.
const INTERRUPTED: i32 = 130;
/// Open files beside connections: listeners, the runtime's, mapped bases while they load.
const FILES_BESIDES: u64 = 64;

fn main() -> ExitCode {
    let flags = match config::command().try_get_matches() {
        Ok(flags) => flags,
        Err(error) => {
            // Help and version are errors to clap, too. Nothing is left to do if printing fails.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let values = match Values::read(&flags, std::env::vars_os()) {
        Ok(values) => values,
        Err(problems) => return refuse(&problems),
    };
    if flags.get_flag("print-config") {
        print!("{}", values.to_toml());
        return ExitCode::SUCCESS;
    }
    match values.check() {
        Ok(_) if flags.get_flag("check-config") => {
            println!("the configuration is valid");
            ExitCode::SUCCESS
        }
        Ok(config) => run(config).map_or_else(ExitCode::from, |()| ExitCode::SUCCESS),
        Err(problems) => refuse(&problems),
    }
}

/// Prints every problem: logs are not set up yet.
fn refuse(problems: &[Problem]) -> ExitCode {
    for problem in problems {
        eprintln!("capstand: {problem}");
    }
    ExitCode::from(CONFIG)
}

/// Serves until drained.
///
/// Errors: the exit code; the cause is in the log.
fn run(config: Config) -> Result<(), u8> {
    telemetry::install_logs(config.log_format, &config.log_level).map_err(|error| {
        eprintln!("capstand: {error}");
        CONFIG
    })?;
    panic::set_hook(Box::new(log_panic));
    harden(config.server.connections_max);
    if let Some(address) = config.metrics_listen {
        // Its own thread, so that metrics answer while the runtime does not.
        telemetry::install_metrics(address).map_err(logged(UNAVAILABLE))?;
        info!(%address, "metrics are served");
    }
    let lifeline = Lifeline::default();
    let engines = engines(&config, &lifeline)?;
    let runtime = Runtime::new().map_err(logged(SOFTWARE))?;
    let served = runtime.block_on(serve(config.server, engines, &lifeline));
    // Blocking tasks that are left must not hold the exit.
    runtime.shutdown_background();
    served.and_then(|()| lifeline.ended())
}

/// Makes the engines, and says which and why.
fn engines(config: &Config, lifeline: &Lifeline) -> Result<Engines, u8> {
    let (engine, reason) = gpu::engine(config, lifeline)?;
    let oracle = ArkworksEngine::new(config.verify_threads).map_err(logged(SOFTWARE))?;
    for device in engine.devices() {
        let self_test = device.gpu.map(|gpu| gpu.self_test);
        info!(kind = device.kind, name = device.name, self_test, "device");
    }
    let about = engine.description();
    info!(engine = about.name, device = about.device, reason, "engine chosen");
    telemetry::running(about.name, &about.device);
    Ok(Engines { engine, oracle: Arc::new(oracle), reason })
}

async fn serve(settings: Settings, engines: Engines, lifeline: &Lifeline) -> Result<(), u8> {
    let [term, int] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let signals = (term.map_err(logged(SOFTWARE))?, int.map_err(logged(SOFTWARE))?);
    log_limits(&settings);
    let unix = settings.unix_socket.as_ref().map(|path| path.display().to_string());
    let server = Server::bind(settings, engines).await.map_err(|error| {
        logged(if matches!(error, ServeError::Listen(_)) { UNAVAILABLE } else { SOFTWARE })(error)
    })?;
    tokio::spawn(heed(signals, server.drainer()));
    lifeline.arm(server.drainer());
    info!(tcp = server.tcp_address().map(field::display), unix, "ready");
    server.serve().await.map_err(logged(SOFTWARE))?;
    info!("drained");
    Ok(())
}

fn log_limits(settings: &Settings) {
    let Settings { listen, unix_socket, data_dir, tls, .. } = settings;
    info!(
        ?listen,
        ?unix_socket,
        tls = tls.is_some(),
        ?data_dir,
        bytes_in_flight_max = %Size(settings.bytes_in_flight_max),
        store_bytes_max = %Size(settings.store_bytes_max),
        jobs_max = settings.jobs_max,
        workers = settings.workers,
        connections_max = settings.connections_max,
        "limits"
    );
    if listen.is_some_and(|address| !address.ip().is_loopback()) && tls.is_none() {
        warn!("scalars cross the network in plain text: set tls_certificate and tls_key");
    }
    if listen.is_some() && settings.admin_over_tcp {
        warn!("whoever reaches the TCP address may drain this server: admin_over_tcp is on");
    }
}

/// Drains on the first SIGTERM or SIGINT, ends the process on the second.
async fn heed((mut term, mut int): (Signal, Signal), drainer: Drainer) {
    let name = next(&mut term, &mut int).await;
    info!(signal = name, "draining: a second signal exits at once");
    drainer.drain(None);
    let name = next(&mut term, &mut int).await;
    warn!(signal = name, "exiting at once");
    std::process::exit(INTERRUPTED);
}

async fn next(term: &mut Signal, int: &mut Signal) -> &'static str {
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}

/// No core dumps, since memory holds witness; and as many files as the system allows.
fn harden(connections_max: u32) {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let dumps = rustix::process::setrlimit(Resource::Core, none)
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable));
    if let Err(error) = dumps {
        warn!(%error, "core dumps stay on");
    }
    let files = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: files.maximum, maximum: files.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        warn!(%error, "the limit of open files stays as it is");
    }
    let wanted = u64::from(connections_max) + FILES_BESIDES;
    if files.maximum.is_some_and(|most| most < wanted) {
        warn!(files_max = files.maximum, wanted, "connections_max is more than files may be open");
    }
}

/// Where a panic was, in the log's own form. Not its text, which may quote data.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    error!(place, thread = std::thread::current().name(), "panic");
}

/// For `map_err`: logs the error and gives the exit code.
fn logged<E: std::fmt::Display>(code: u8) -> impl Fn(E) -> u8 {
    move |error| {
        error!(%error, "cannot go on");
        code
    }
}
