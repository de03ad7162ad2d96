//! The daemon as its supervisor sees it: exit codes, signals, output.

mod audit;
mod callers;
mod metrics_listener;
mod set_ups;
mod status_page;

use crate::{daemon_process, identity::authority, shell_blocks, tls_files};

use std::{
    fs::{File, Permissions},
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixDatagram,
    },
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use capstan::wire::v1::{
    EstimateRequest, Field, GetInfoRequest, PowersStep, Program, ProgramOutput, ProgramRef,
    PutProgramRequest, PutRequest, RunHeader, RunRequest, ScalarEncoding, SendVector, Step,
    VectorUpload, Verify, admin_client::AdminClient, compute_client::ComputeClient, program_output,
    program_ref, put_request::Message, run_request, step::Operation, store_client::StoreClient,
};
use daemon_process::{DaemonProcess, HANGING, capstand};
use futures_util::{StreamExt, stream};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, mknodat},
    io::Errno,
    process::Signal,
};
use tokio::runtime::Runtime;
use tonic::transport::Endpoint;

struct FinishedDaemon {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(flags: &[&str]) -> FinishedDaemon {
    let Output { status, stdout, stderr } = capstand(flags).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    FinishedDaemon { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The command of a daemon with one thread, on free ports.
fn with_one_thread(flags: &[&str]) -> Command {
    capstand(&[&["--threads", "1"], flags].concat())
}

fn start(flags: &[&str]) -> DaemonProcess {
    DaemonProcess::start(with_one_thread(flags))
}

fn start_without_metrics(flags: &[&str]) -> DaemonProcess {
    start(&[&["--metrics-listen", "none"][..], flags].concat())
}

#[test]
fn exit_codes_tell_failures_apart() {
    let FinishedDaemon { code, stdout, .. } = run(&["--check-config"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "the configuration is valid\n"));
    let FinishedDaemon { code, stderr, .. } =
        run(&["--check-config", "--workers", "65", "--jobs-max", "x"]);
    assert_eq!((code, stderr.lines().count()), (Some(78), 2), "{stderr}");
    let FinishedDaemon { code, stderr, .. } = run(&["--no-such-flag"]);
    assert_eq!(code, Some(64), "{stderr}");
    let FinishedDaemon { code, stdout, .. } = run(&["--print-config"]);
    assert!(code == Some(0) && stdout.contains("# jobs_max = 256\n"), "{stdout}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let FinishedDaemon { code, stderr, .. } =
        run(&["--listen", &address, "--metrics-listen", "none"]);
    assert!(code == Some(69) && stderr.contains(&address), "{stderr}");

    // Too long for a label, so that the system asks no name server.
    let unknown = "a".repeat(64) + ":0";
    let FinishedDaemon { code, stderr, .. } = run(&["--listen", &unknown]);
    assert!(code == Some(69) && stderr.contains("(--listen): "), "{stderr}");
}

/// Opens a pipe for writing once the daemon reads it.
fn open_read_pipe(pipe: &Path) -> File {
    let begun = Instant::now();
    loop {
        let flags = OFlags::NONBLOCK.bits() as i32;
        match File::options().write(true).custom_flags(flags).open(pipe) {
            Err(error) if begun.elapsed() < HANGING => {
                let is_unread = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
                assert!(is_unread, "{error}");
            }
            opened => return opened.expect("the daemon reads the pipe"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn listeners_may_have_the_name_of_a_host() {
    let names = ["--listen", "localhost:0", "--metrics-listen", "localhost:0"];
    let daemon = start(&[&["--engine", "cpu"][..], &names].concat());
    let has_ipv4 = "localhost:0".to_socket_addrs().unwrap().any(|address| address.is_ipv4());
    for address in [daemon.address(), daemon.metrics_address()] {
        assert!(address.ip().is_loopback() && address.is_ipv4() == has_ipv4, "{address}");
    }
    assert!(http(daemon.metrics_address(), "GET /healthz").ends_with("alive"));
    daemon.stop();
}

#[test]
fn a_service_manager_is_told_when_the_daemon_is_ready_and_when_it_drains() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(HANGING)).unwrap();
    let told = || {
        let mut message = [0; 256];
        let bytes = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..bytes].to_vec()).unwrap()
    };
    let mut command = with_one_thread(&["--engine", "cpu", "--drain-grace-s", "100"]);
    command.env("NOTIFY_SOCKET", &path);
    let daemon = DaemonProcess::listening(command);
    assert_eq!(told(), "READY=1\n");
    daemon.stop();
    // The grace period, and ten seconds more.
    assert_eq!(told(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=110000000\n");
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    File::create(path("file")).unwrap();
    std::fs::create_dir_all(path("taken/lock")).unwrap();
    let flags = ["--engine", "cpu", "--listen", "127.0.0.1:0", "--metrics-listen", "none"];
    let started = |data_dir: &str| run(&[&flags[..], &["--data-dir", data_dir]].concat());
    let owner = DaemonProcess::start(capstand(&["--engine", "cpu", "--data-dir", &path("used")]));
    // 69: a service manager starts the daemon again, and the other one may have ended before that.
    for (name, cause, expected) in [
        ("file", "Not a directory", 78),
        ("taken", "Is a directory", 78),
        ("used", "another daemon uses it", 69),
    ] {
        let FinishedDaemon { code, stderr, .. } = started(&path(name));
        assert_eq!(code, Some(expected), "{name}: {stderr}");
        assert!(stderr.contains(&path(name)) && stderr.contains(cause), "{name}: {stderr}");
    }
    drop(owner);
}

#[test]
fn the_log_has_colours_on_a_terminal_unless_no_color_is_set() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let flags = format!("--config /dev/null --engine cpu --metrics-listen none --listen {address}");
    let line = format!("{} {flags}", env!("CARGO_BIN_EXE_capstand"));
    for (no_color, has_colours) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let mut terminal = Command::new("script");
        terminal.env_clear().envs(no_color.map(|value| ("NO_COLOR", value)));
        terminal.args(["--quiet", "--command", &line, "/dev/null"]).stdin(Stdio::null());
        let log = String::from_utf8(terminal.output().expect("util-linux").stdout).unwrap();
        assert!(log.contains("Address already in use"), "{log}");
        assert_eq!(log.contains('\u{1b}'), has_colours, "NO_COLOR={no_color:?}: {log}");
    }
}

#[test]
fn a_daemon_that_cannot_start_threads_exits_and_says_why() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: it changes its user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("capstand");
    std::fs::copy(env!("CARGO_BIN_EXE_capstand"), &program).unwrap();
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    // The limit counts all processes of a user.
    let mut random = [0; 2];
    getrandom::fill(&mut random).unwrap();
    let user = 20_000 + u32::from(u16::from_ne_bytes(random)) % 40_000;
    for limit in 2..=6 {
        let limited = format!("setpriv --reuid={user} --clear-groups prlimit --nproc={limit}");
        let mut daemon = Command::new("timeout");
        daemon.arg("60").args(limited.split(' ')).arg(&program).env_clear();
        daemon.args(["--config", "/dev/null", "--engine", "cpu", "--threads", "8"]);
        daemon.args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
        let Output { status, stderr, .. } = daemon.output().unwrap();
        let log = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(70), "{limit} processes: {log}");
        assert!(log.contains("Resource temporarily unavailable"), "{limit} processes: {log}");
    }
}

#[test]
fn lines_that_cannot_be_printed_cost_no_exit_code() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let code = |command: &mut Command| command.output().unwrap().status.code();
    assert_eq!(code(capstand(&["--print-config"]).stdout(full())), Some(73));
    assert_eq!(code(capstand(&["--check-config"]).stdout(full())), Some(73));
    assert_eq!(code(capstand(&["--check-config", "--workers", "65"]).stderr(full())), Some(78));
    assert_eq!(code(capstand(&["--no-such-flag"]).stderr(full())), Some(64));
}

#[test]
fn a_limit_on_file_sizes_ends_the_start_with_a_reason() {
    let daemon = with_one_thread(&["--engine", "cpu"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1 && exec \"$0\" \"$@\""]).arg(daemon.get_program());
    limited.args(daemon.get_args()).env_clear();
    limited.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Output { status, stderr, .. } = limited.output().unwrap();
    let log = String::from_utf8(stderr).unwrap();
    // Memory for payloads counts as a file.
    assert!(status.code() == Some(70) && log.contains("File too large"), "{status}: {log}");
}

#[test]
fn drains_on_a_signal_and_exits_0() {
    for first in [Signal::TERM, Signal::INT] {
        let mut daemon = start_without_metrics(&["--log-format", "json"]);
        daemon.signal(first);
        let line = daemon.until("drained");
        assert!(line.starts_with('{'), "not JSON: {line}");
        assert_eq!(daemon.wait(), Some(0));
    }
}

/// Starts an upload to `target` that never ends.
async fn keep_busy(target: String) {
    let channel = Endpoint::from_shared(target).unwrap().connect().await.unwrap();
    let encoding = ScalarEncoding::U8 as i32;
    let vector = VectorUpload { upload_id: vec![1; 16].into(), encoding, count: 9, streams: 1 };
    let header = PutRequest { message: Some(Message::Vector(vector)) };
    let mut store = StoreClient::new(channel.clone());
    tokio::spawn(async move {
        let endless = stream::iter([header]).chain(stream::pending());
        store.put(endless).await
    });
    let mut admin = AdminClient::new(channel);
    let busy = async {
        let mut bytes = 0;
        while bytes == 0 {
            let info = admin.get_info(GetInfoRequest {}).await.unwrap().into_inner();
            bytes = info.load.unwrap().bytes_in_flight;
        }
    };
    tokio::time::timeout(HANGING, busy).await.expect("an upload begins");
}

#[test]
fn a_second_signal_exits_at_once() {
    // Without the second signal, the drain would take an hour.
    let mut daemon =
        start_without_metrics(&["--idle-timeout-ms", "3600000", "--drain-grace-s", "3600"]);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(keep_busy(daemon.target()));
    daemon.signal(Signal::TERM);
    daemon.until("draining");
    assert!(!daemon.has_ended(), "one signal ended the daemon");
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait(), Some(130));
    daemon.until("exiting at once");
}

/// Makes one call of each kind about a program.
async fn call_programs(target: String) {
    let channel = Endpoint::from_shared(target).unwrap().connect().await.unwrap();
    let field = Field::Bls12381Fr as i32;
    let powers = PowersStep { field, base: vec![0; 32].into(), first: Bytes::new(), length: 1 };
    let step = Step { operation: Some(Operation::Powers(powers)) };
    let request = PutProgramRequest { program: Some(Program { steps: vec![step] }) };
    let mut store = StoreClient::new(channel.clone());
    let id = store.put_program(request).await.unwrap().into_inner().program_id;
    let program = Some(ProgramRef { program: Some(program_ref::Program::ProgramId(id)) });
    let (verify, encoding) = (Verify::None as i32, ScalarEncoding::Canonical as i32);
    let mut compute = ComputeClient::new(channel);
    let estimate = EstimateRequest { program: program.clone(), outputs: vec![], verify };
    compute.estimate(estimate).await.unwrap();
    let delivery = Some(program_output::Delivery::Send(SendVector { encoding }));
    let outputs = vec![ProgramOutput { value: 0, delivery }];
    let header = RunHeader { program, inputs: vec![], outputs, verify };
    let request = RunRequest { message: Some(run_request::Message::Header(header)) };
    let mut answers = compute.run(stream::iter([request])).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
}

/// The answer of the listener for metrics.
fn http(address: SocketAddr, request: &str) -> String {
    http_with(address, request, "")
}

/// The same for a request with more `headers`, each with the end of its line.
fn http_with(address: SocketAddr, request: &str, headers: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(HANGING)).unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_on_the_logged_address() {
    let daemon = start(&["--engine", "cpu"]);
    let address = daemon.metrics_address();
    Runtime::new().unwrap().block_on(call_programs(daemon.target()));
    let text = http(address, "GET /metrics");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(text.contains("capstan_build_info{"), "{text}");
    for op in ["put_program", "estimate", "run"] {
        let counted = format!(r#"capstan_jobs_total{{op="{op}",outcome="OK"}} 1"#);
        assert!(text.contains(&counted), "{op}: {text}");
    }
    assert!(text.contains(r#"capstan_phase_seconds_count{op="run",phase="compute"} 1"#), "{text}");
    assert!(text.contains(r#"capstan_modelled_time_ratio_count{engine="cpu"} 1"#), "{text}");
    drop(daemon);
}

#[test]
fn the_listener_for_metrics_tells_whether_the_daemon_is_alive_and_ready() {
    let folder = tempfile::tempdir().unwrap();
    let bases = folder.path().join("bases");
    std::fs::create_dir(&bases).unwrap();
    // The daemon waits at a pipe while it loads its data directory.
    let pipe = bases.join("ff".repeat(32) + ".bases");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let data_dir = folder.path().to_str().unwrap();
    let flags = ["--idle-timeout-ms", "3600000", "--drain-grace-s", "3600"];
    let flags = [&flags[..], &["--data-dir", data_dir]].concat();
    let mut daemon = DaemonProcess::listening(with_one_thread(&flags));
    let address = daemon.metrics_address();
    let is = |request: &str, status: &str, text: &str| {
        let answer = http(address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        assert!(answer.ends_with(text), "{request}: {answer}");
    };
    is("GET /healthz", "200", "alive");
    while http(address, "GET /readyz").ends_with("starting") {
        thread::sleep(Duration::from_millis(2));
    }
    is("GET /readyz", "503", "loading stored objects");
    is("GET /", "404", "");
    is("POST /metrics", "405", "use GET");
    drop(open_read_pipe(&pipe));
    daemon.until("ready");
    is("GET /readyz", "200", "ready");
    is("HEAD /readyz", "200", "\r\n\r\n");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(keep_busy(daemon.target()));
    daemon.signal(Signal::TERM);
    // The first line about it is written before the drain begins.
    daemon.until("grace_ms");
    is("GET /readyz", "503", "draining");
    is("GET /healthz", "200", "alive");
}

#[test]
fn silent_connections_to_the_listener_for_metrics_are_few_and_end() {
    let daemon = start(&["--engine", "cpu"]);
    let address = daemon.metrics_address();
    let before = daemon.files();
    let mut silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    for socket in &mut silent {
        socket.set_read_timeout(Some(HANGING)).unwrap();
        assert!(
            daemon.files() < before + 64,
            "the daemon keeps a descriptor for each of many peers"
        );
        let mut sink = Vec::new();
        // A reset counts as well.
        let ended = socket.read_to_end(&mut sink).map_err(|error| error.kind());
        assert!(!matches!(ended, Err(ErrorKind::WouldBlock)), "a silent peer is kept");
    }
    assert!(http(address, "GET /metrics").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_signal_ends_a_daemon_that_still_loads() {
    let folder = tempfile::tempdir().unwrap();
    let bases = folder.path().join("bases");
    std::fs::create_dir(&bases).unwrap();
    let pipe = bases.join("00".repeat(32) + ".bases");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let flags = ["--data-dir", folder.path().to_str().unwrap()];
    let mut daemon = DaemonProcess::listening(with_one_thread(&flags));
    let metrics = daemon.metrics_address();
    while !http(metrics, "GET /readyz").ends_with("loading stored objects") {
        thread::sleep(Duration::from_millis(2));
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn core_dumps_are_disabled() {
    let daemon = start_without_metrics(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<_> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
}
