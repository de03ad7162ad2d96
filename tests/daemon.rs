//! The daemon as its supervisor sees it: exit codes, signals, what it prints.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

fn capstand(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstand"));
    command.env_clear().args(["--config", "/dev/null"]).args(flags);
    command
}

fn run(flags: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = capstand(flags).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A daemon on free ports that has said it is ready.
fn ready(flags: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let own = ["--listen", "127.0.0.1:0", "--metrics-listen", "none", "--threads", "1"];
    let flags = [&own[..], flags].concat();
    let mut child = capstand(&flags).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    until(&mut log, "ready");
    (child, log)
}

/// Reads the log up to a line that has `word`.
fn until(log: &mut impl BufRead, word: &str) -> String {
    let mut seen = String::new();
    loop {
        let start = seen.len();
        assert!(log.read_line(&mut seen).unwrap() > 0, "no {word} in:\n{seen}");
        if seen[start..].contains(word) {
            return seen[start..].to_owned();
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn exit_codes_say_what_was_wrong() {
    let (code, stdout, _) = run(&["--check-config"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "the configuration is valid\n"));
    let (code, _, stderr) = run(&["--check-config", "--workers", "0", "--jobs-max", "x"]);
    assert_eq!((code, stderr.lines().count()), (Some(78), 2), "{stderr}");
    let (code, _, stderr) = run(&["--no-such-flag"]);
    assert_eq!(code, Some(64), "{stderr}");
    let (code, stdout, _) = run(&["--print-config"]);
    assert!(code == Some(0) && stdout.contains("# jobs_max = 256\n"), "{stdout}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, stderr) = run(&["--listen", &address, "--metrics-listen", "none"]);
    assert!(code == Some(69) && stderr.contains(&address), "{stderr}");
}

#[test]
fn drains_on_a_signal_and_exits_0() {
    for first in [Signal::TERM, Signal::INT] {
        let (mut child, mut log) = ready(&["--log-format", "json"]);
        signal(&child, first);
        let line = until(&mut log, "drained");
        assert!(line.starts_with('{'), "not JSON: {line}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn dumps_no_core() {
    let (mut child, _log) = ready(&[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<_> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}
