//! The daemon: reads the configuration, then starts logs and metrics, the engine and the server.
#![deny(unsafe_code, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod engine;
mod worker;

use std::{
    fmt::Display,
    io::{self, Write as _},
    panic::{self, PanicHookInfo},
    process::{self, ExitCode},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use capstan::{
    config::{self, ByteSize, Config, ConfigProblem, SettingValues},
    server::{
        Drainer, Engines, ListeningSockets, MetricsCertificate, Reloader, ServeError, Server,
        ServerSettings, StatusReporter, outlive_signals,
    },
    telemetry::{self, MetricsTls, StatusAnswer},
};
use engine::GpuLossHandler;
use futures_util::future::ready;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sd_notify::NotifyState;
use tokio::{
    runtime::{Handle, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};
use tracing::{error, field, info, warn};

/// Invalid flags (EX_USAGE).
const USAGE: u8 = 64;
/// A later start may succeed: an address cannot be resolved or bound, or data_dir cannot be used
/// now (EX_UNAVAILABLE).
const UNAVAILABLE: u8 = 69;
/// An internal error or a lost GPU (EX_SOFTWARE).
const SOFTWARE: u8 = 70;
/// The output cannot be written (EX_CANTCREAT).
const NO_OUTPUT: u8 = 73;
/// Invalid configuration (EX_CONFIG).
const CONFIG: u8 = 78;
/// Stopped by a second signal.
const INTERRUPTED: i32 = 130;

/// Time for the exit after a drain, until which a service manager should wait.
const EXIT_MARGIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    if let Some(arguments) = worker::arguments() {
        return worker::run(arguments);
    }
    // Workers inherit it.
    outlive_signals();
    let flags = match config::command().try_get_matches() {
        Ok(flags) => flags,
        Err(error) => {
            // clap reports --help and --version as errors, too. A failure to print is ignored.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let values = match SettingValues::read(&flags, std::env::vars_os()) {
        Ok(values) => values,
        Err(problems) => return print_problems(&problems),
    };
    if flags.get_flag("print-config") {
        return print(&values.to_toml());
    }
    let is_check = flags.get_flag("check-config");
    let checked = if is_check { values.check_all() } else { values.check() };
    match checked {
        Ok(_) if is_check => print("the configuration is valid\n"),
        Ok(config) => run(config).map_or_else(ExitCode::from, |()| ExitCode::SUCCESS),
        Err(problems) => print_problems(&problems),
    }
}

/// Prints to standard output. A closed pipe is not a failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_error(&format_args!("cannot write standard output: {error}"));
            ExitCode::from(NO_OUTPUT)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints to standard error: logs are not set up yet. If that fails, the line is lost.
fn print_error(problem: &dyn Display) {
    let _lost = writeln!(io::stderr(), "capstand: {problem}");
}

/// Prints every problem.
fn print_problems(problems: &[ConfigProblem]) -> ExitCode {
    for problem in problems {
        print_error(problem);
    }
    // A start leaves out entries that cannot be used, so they do not prevent a later one.
    let is_transient =
        problems.iter().filter(|problem| !problem.is_left_out()).all(ConfigProblem::is_transient);
    ExitCode::from(if is_transient { UNAVAILABLE } else { CONFIG })
}

/// Whether the user allows colours in the log (no-color.org).
fn allows_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

/// Errors: the exit code; the cause is logged.
fn run(config: Config) -> Result<(), u8> {
    let refused = |error| {
        print_error(&error);
        CONFIG
    };
    let otlp_endpoint = config.otlp_endpoint.as_deref();
    let format = config.log_format;
    let level = &config.log_level;
    let logs = telemetry::install_logs(format, level, allows_colours(), otlp_endpoint);
    // Dropped after the server has ended: it exports the last spans.
    let _logs = logs.map_err(refused)?;
    let audit_log = config.audit_log.as_deref().map(telemetry::install_audit_log);
    // Dropped after the server has ended: it writes what calls have queued.
    let _audit_log = audit_log.transpose().map_err(refused)?;
    panic::set_hook(Box::new(log_panic));
    disable_core_dumps();
    raise_file_limit(&config.server);
    let reporter = Arc::<OnceLock<StatusReporter>>::default();
    let tls = config.server.tls.as_ref().filter(|_| config.metrics_tls);
    let metrics_tls = tls.map(MetricsCertificate::read).transpose();
    let metrics_tls = metrics_tls.map_err(log_and_exit(CONFIG))?;
    let served_by = Arc::<OnceLock<Handle>>::default();
    if let Some(address) = config.metrics_listen {
        let started = reporter.clone();
        let check = move || match started.get() {
            Some(reporter) => reporter.check_readiness(),
            None => Err("starting".into()),
        };
        let started = reporter.clone();
        let report = move |authorization| match started.get() {
            Some(reporter) => reporter.answer(authorization),
            None => Box::pin(ready(StatusAnswer::Unavailable("starting".into()))),
        };
        // On a separate thread, so that metrics are served even if the runtime hangs.
        let tls = metrics_tls.clone().map(|tls| Arc::new(tls) as Arc<dyn MetricsTls>);
        let (check, report) = (Arc::new(check), Arc::new(report));
        let installed = telemetry::install_metrics(address, check, report, served_by.clone(), tls);
        let address = installed.map_err(log_and_exit(UNAVAILABLE))?;
        info!(%address, tls = metrics_tls.is_some(), "serving metrics");
    }
    let loss_handler = Arc::<GpuLossHandler>::default();
    let runtime = Runtime::new().map_err(log_and_exit(SOFTWARE))?;
    served_by.get_or_init(|| runtime.handle().clone());
    let served = start_and_serve(config, &loss_handler, &reporter, metrics_tls);
    let served = runtime.block_on(served);
    // Remaining blocking tasks must not delay the exit.
    runtime.shutdown_background();
    served.and_then(|()| loss_handler.exit_status())
}

/// Listens, opens the engines, which takes seconds with GPUs, and serves. Calls wait meanwhile, and
/// a signal ends the process.
async fn start_and_serve(
    config: Config,
    loss_handler: &Arc<GpuLossHandler>,
    reporter: &OnceLock<StatusReporter>,
    metrics_tls: Option<MetricsCertificate>,
) -> Result<(), u8> {
    let gpus_min = config.cuda.devices_min;
    let mut signals = StopSignals::listen().map_err(log_and_exit(SOFTWARE))?;
    let hangups = signal(SignalKind::hangup()).map_err(log_and_exit(SOFTWARE))?;
    log_limits(&config.server);
    let sockets = ListeningSockets::bind(config.server.clone()).await.map_err(exit_status)?;
    let unix = config.server.unix_socket.as_ref().map(|path| path.display().to_string());
    let tcp = sockets.tcp_address();
    info!(tcp = tcp.map(field::display), unix, "listening");
    let handler = loss_handler.clone();
    let opening = spawn_blocking(move || engines(&config, &handler));
    let engines = tokio::select! {
        engines = opening => engines.map_err(log_and_exit(SOFTWARE))??,
        signal = signals.next() => {
            info!(signal, "stopped during the start");
            return Ok(());
        }
    };
    let signals = ProcessSignals { stop: signals, hangups };
    let server = sockets.start(engines).map_err(exit_status)?;
    let reporter = reporter.get_or_init(|| server.status_reporter(gpus_min)).clone();
    serve(server, signals, loss_handler, reporter, metrics_tls).await
}

/// Creates the engines and logs which ones and why.
fn engines(config: &Config, loss_handler: &Arc<GpuLossHandler>) -> Result<Engines, u8> {
    let engines = engine::choose(config, loss_handler)?;
    for device in engines.devices() {
        let self_test = device.gpu.map(|gpu| gpu.self_test);
        info!(kind = device.kind, name = device.name, self_test, "device");
    }
    let about = engines.description();
    info!(engine = about.kind, device = about.name, reason = engines.reason(), "engine chosen");
    telemetry::set_build_info(about.kind, &about.name);
    Ok(engines)
}

async fn serve(
    server: Server,
    signals: ProcessSignals,
    loss_handler: &GpuLossHandler,
    reporter: StatusReporter,
    metrics_tls: Option<MetricsCertificate>,
) -> Result<(), u8> {
    tokio::spawn(handle_signals(signals.stop, server.drainer()));
    tokio::spawn(handle_hangups(signals.hangups, server.reloader(), metrics_tls));
    loss_handler.arm(server.drainer());
    let announced = tokio::spawn(announce(reporter));
    server.serve().await.map_err(log_and_exit(SOFTWARE))?;
    // It has ended, unless it panicked, which the hook has logged.
    let _announced = announced.await;
    info!("drained");
    Ok(())
}

/// Logs when the server is ready. Tells a service manager that listens (`Type=notify`) when the
/// server is ready and when it drains.
async fn announce(reporter: StatusReporter) {
    tokio::select! {
        biased;
        _ = reporter.draining() => {}
        () = reporter.loaded() => {
            info!("ready");
            notify(&[NotifyState::Ready]);
        }
    }
    let grace = reporter.draining().await;
    // From here on, the unit's own timeout counts, which may be shorter.
    let timeout = format!("EXTEND_TIMEOUT_USEC={}", (grace + EXIT_MARGIN).as_micros());
    notify(&[NotifyState::Stopping, NotifyState::Custom(&timeout)]);
}

/// Does nothing if no service manager listens.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "cannot notify the service manager");
    }
}

/// Logs why the server cannot start, and returns the exit code.
fn exit_status(error: ServeError) -> u8 {
    let code = match error {
        ServeError::Listen(_) => UNAVAILABLE,
        ServeError::DataDir(ref error) if !error.is_permanent() => UNAVAILABLE,
        ServeError::Credentials(_)
        | ServeError::Preload(_)
        | ServeError::DataDir(_)
        | ServeError::Exposed => CONFIG,
        _ => SOFTWARE,
    };
    log_and_exit(code)(error)
}

fn log_limits(settings: &ServerSettings) {
    let ServerSettings { listen, unix_socket, admin_socket, data_dir, tls, .. } = settings;
    info!(
        ?listen,
        ?unix_socket,
        ?admin_socket,
        tls = tls.is_some(),
        authenticates = settings.authenticates(),
        ?data_dir,
        bytes_in_flight_max = %ByteSize(settings.bytes_in_flight_max),
        store_bytes_max = %ByteSize(settings.store_bytes_max),
        jobs_max = settings.jobs_max,
        workers = settings.workers,
        connections_max = settings.connections_max,
        "limits"
    );
    let is_reachable = settings.listens_beyond_loopback();
    if is_reachable && tls.is_none() && settings.authenticates() {
        warn!(
            "tokens and scalars are sent in plain text: set tls_certificate and tls_key, unless \
             the network is trusted or a proxy terminates TLS"
        );
    } else if is_reachable && tls.is_none() {
        warn!("scalars are sent over the network in plain text: set tls_certificate and tls_key");
    }
    if is_reachable && !settings.authenticates() {
        warn!("insecure is on: everyone who can reach the listener may use this server");
    }
    if listen.is_some() && settings.admin_over_tcp {
        warn!("admin_over_tcp is on: every caller over TCP can drain this server");
    }
}

/// The signals that the daemon handles from its start on.
struct ProcessSignals {
    stop: StopSignals,
    hangups: Signal,
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal; returns its name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Drains on the first signal, ends the process on the second.
async fn handle_signals(mut signals: StopSignals, drainer: Drainer) {
    let signal = signals.next().await;
    info!(signal, "draining: a second signal exits at once");
    drainer.drain(None);
    let signal = signals.next().await;
    warn!(signal, "exiting at once");
    // This may block a thread of the runtime, which is harmless: the process exits next.
    telemetry::close_audit_log();
    process::exit(INTERRUPTED);
}

/// On each SIGHUP: reads certificates, tokens and keys again, and opens the audit log again.
async fn handle_hangups(
    mut hangups: Signal,
    reloader: Reloader,
    metrics_tls: Option<MetricsCertificate>,
) {
    while hangups.recv().await.is_some() {
        telemetry::reopen_audit_log();
        reloader.reload();
        if let Some(tls) = metrics_tls.clone() {
            spawn_blocking(move || tls.reload());
        }
    }
}

/// Disables core dumps, because memory holds witness data.
fn disable_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let dumps = rustix::process::setrlimit(Resource::Core, none)
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable));
    if let Err(error) = dumps {
        warn!(%error, "cannot disable core dumps");
    }
}

fn raise_file_limit(settings: &ServerSettings) {
    let files = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: files.maximum, maximum: files.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        warn!(%error, "cannot raise the limit on open files");
    }
    let wanted = settings.open_files_max();
    if files.maximum.is_some_and(|max| max < wanted) {
        warn!(
            files_max = files.maximum,
            wanted, "connections_max and objects_max exceed the limit on open files"
        );
    }
}

/// Logs where a panic occurred, but not its message, which may quote data. A panic of the main
/// thread ends the process.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let thread = thread::current();
    error!(place, thread = thread.name(), "panic");
    if thread.name() != Some("main") {
        return;
    }
    // The runtime panics if it cannot start its threads.
    if let Err(error) = thread::Builder::new().spawn(|| ()) {
        error!(%error, "cannot start threads: raise the limit on processes (pids.max, ulimit -u)");
    }
    // Unwinding would wait for what the missing threads should run.
    process::exit(SOFTWARE.into());
}

/// For `map_err`: logs the error and returns the exit code.
fn log_and_exit<E: std::fmt::Display>(code: u8) -> impl Fn(E) -> u8 {
    move |error| {
        error!(%error, "exiting");
        code
    }
}
