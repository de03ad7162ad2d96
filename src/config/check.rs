//! Builds the configuration from parsed values: checks them together and reads certificate files.

use std::{error::Error, fs, net::SocketAddr, path::PathBuf, time::Duration};

use zeroize::Zeroizing;

use super::{Config, Cuda, EngineChoice, Held, Problem, Size, Value, Values, memory};
use crate::{
    server::{Settings, Tls},
    telemetry::LogFormat,
};

const BYTES_IN_FLIGHT_MIN: u64 = 256 << 20;
/// Divisor of the memory for stored bases, in addition to the half for payloads in flight.
const STORE_PART: u64 = 4;
/// Divisor of the host's memory for pinned memory, which nothing else can use. At 128 GiB, this is
/// twice the scalars of the largest MSM.
const PINNED_PART: u64 = 32;

pub(super) fn config(values: &Values) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let tls = tls(values, &mut problems);
    let server = settings(values, tls);
    relations(values, &server, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        server,
        engine: match text(values, "engine") {
            "cpu" => EngineChoice::Cpu,
            "cuda" => EngineChoice::Cuda,
            _ => EngineChoice::Auto,
        },
        cuda: cuda(values),
        threads: size(values, "threads"),
        verify_threads: size(values, "verify_threads"),
        metrics_listen: address(values, "metrics_listen"),
        log_format: match text(values, "log_format") {
            "json" => LogFormat::Json,
            _ => LogFormat::Human,
        },
        log_level: text(values, "log_level").to_owned(),
    })
}

fn settings(values: &Values, tls: Option<Tls>) -> Settings {
    let whole = number(values, "bytes_in_flight_max")
        .unwrap_or_else(|| (memory::available_bytes() / 2).max(BYTES_IN_FLIGHT_MIN));
    let one = number(values, "connection_bytes_in_flight_max").unwrap_or(whole / 2);
    Settings {
        listen: address(values, "listen"),
        unix_socket: path(values, "unix_socket"),
        unix_mode: small(values, "unix_mode"),
        tls,
        message_payload_bytes_max: given(values, "message_payload_bytes_max"),
        bytes_in_flight_max: whole,
        connection_bytes_in_flight_max: one,
        jobs_max: small(values, "jobs_max"),
        connection_jobs_max: small(values, "connection_jobs_max"),
        uploads_max: small(values, "uploads_max"),
        store_bytes_max: number(values, "store_bytes_max")
            .unwrap_or_else(|| memory::available_bytes() / STORE_PART),
        objects_max: small(values, "objects_max"),
        connections_max: small(values, "connections_max"),
        streams_per_connection_max: small(values, "streams_per_connection_max"),
        idle_timeout: Duration::from_millis(given(values, "idle_timeout_ms")),
        handshake_timeout: Duration::from_millis(given(values, "handshake_timeout_ms")),
        upload_ttl: Duration::from_secs(given(values, "upload_ttl_s")),
        drain_grace: Duration::from_secs(given(values, "drain_grace_s")),
        workers: small(values, "workers"),
        data_dir: path(values, "data_dir"),
        admin_over_tcp: flag(values, "admin_over_tcp"),
        reflection: flag(values, "reflection"),
        http2_stream_window_bytes: small(values, "http2_stream_window_bytes"),
        http2_connection_window_bytes: small(values, "http2_connection_window_bytes"),
        http2_frame_bytes_max: small(values, "http2_frame_bytes_max"),
    }
}

fn cuda(values: &Values) -> Cuda {
    Cuda {
        driver: path(values, "cuda_driver"),
        devices: match &values.get("cuda_devices").parsed {
            Held::Devices(numbers) => numbers.clone(),
            _ => Vec::new(),
        },
        devices_min: small(values, "cuda_devices_min"),
        memory_percent: given(values, "cuda_memory_percent"),
        pinned_bytes: number(values, "cuda_pinned_bytes")
            .unwrap_or_else(|| memory::available_bytes() / PINNED_PART),
        timeout: Duration::from_millis(given(values, "cuda_timeout_ms")),
        msm_min: given(values, "cuda_msm_min"),
        ntt_min: given(values, "cuda_ntt_min"),
    }
}

/// Reports settings that contradict each other.
fn relations(values: &Values, server: &Settings, problems: &mut Vec<Problem>) {
    let mut refuse = |name: &str, why: &str| problems.push(problem(values.get(name), why));
    let Cuda { devices, devices_min, .. } = cuda(values);
    if text(values, "engine") == "cpu" && devices_min > 0 {
        refuse("cuda_devices_min", "must be 0 if engine is cpu");
    }
    if !devices.is_empty() && devices_min as usize > devices.len() {
        refuse("cuda_devices_min", "must be at most the number of cuda_devices");
    }
    if server.listen.is_none() && server.unix_socket.is_none() {
        refuse("listen", "unix_socket is none, too: set at least one of them");
    }
    if server.listen.is_none() && path(values, "tls_certificate").is_some() {
        refuse("tls_certificate", "requires listen: Unix sockets are not encrypted");
    }
    let metrics = address(values, "metrics_listen").filter(|metrics| metrics.port() != 0);
    if metrics.is_some() && metrics == server.listen {
        refuse("metrics_listen", "is also the address of listen: set another port");
    }
    let mut at_most = |name: &str, held: u64, other: &str, max: u64| {
        if held > max {
            refuse(name, &format!("must be at most {other}, which is {}", Size(max)));
        }
    };
    let one = server.connection_bytes_in_flight_max;
    at_most(
        "connection_bytes_in_flight_max",
        one,
        "bytes_in_flight_max",
        server.bytes_in_flight_max,
    );
    at_most(
        "message_payload_bytes_max",
        server.message_payload_bytes_max,
        "connection_bytes_in_flight_max",
        one,
    );
    at_most(
        "http2_stream_window_bytes",
        server.http2_stream_window_bytes.into(),
        "http2_connection_window_bytes",
        server.http2_connection_window_bytes.into(),
    );
    if server.connection_jobs_max > server.jobs_max {
        refuse("connection_jobs_max", &format!("must be at most jobs_max = {}", server.jobs_max));
    }
}

/// Reads the certificate and the key and checks them as the listener will.
fn tls(values: &Values, problems: &mut Vec<Problem>) -> Option<Tls> {
    let mut read = |name: &str, other: &str| {
        let file = path(values, name)?;
        if path(values, other).is_none() {
            problems.push(problem(values.get(name), &format!("requires {other}")));
            return None;
        }
        let read = fs::read(file);
        read.map_err(|error| problems.push(problem(values.get(name), &error.to_string()))).ok()
    };
    let certificate_pem = read("tls_certificate", "tls_key");
    let key_pem = read("tls_key", "tls_certificate").map(Zeroizing::new);
    let tls = Tls { certificate_pem: certificate_pem?, key_pem: key_pem? };
    if let Err(error) = tls.check() {
        let why = format!("cannot be used with tls_key: {}", innermost(&error));
        problems.push(problem(values.get("tls_certificate"), &why));
    }
    Some(tls)
}

/// The innermost source of an error: the outer ones only say "transport error".
fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn problem(value: &Value, why: &str) -> Problem {
    let name = value.setting.name;
    Problem::new(match &value.raw {
        Some(given) => format!("{name} = {:?} ({}): {why}", given.text, given.source),
        None => format!("{name} = {:?} (default): {why}", value.setting.default),
    })
}

fn number(values: &Values, name: &str) -> Option<u64> {
    match values.get(name).parsed {
        Held::Number(n) => Some(n),
        _ => None,
    }
}

fn given(values: &Values, name: &str) -> u64 {
    number(values, name).expect("the table declares a number without auto")
}

fn small(values: &Values, name: &str) -> u32 {
    given(values, name).try_into().expect("the table's range is below 2^32")
}

fn size(values: &Values, name: &str) -> usize {
    given(values, name).try_into().expect("the table's range is below 2^32")
}

fn flag(values: &Values, name: &str) -> bool {
    values.get(name).parsed == Held::Flag(true)
}

fn text<'a>(values: &'a Values, name: &str) -> &'a str {
    match &values.get(name).parsed {
        Held::Text(text) => text,
        _ => "",
    }
}

fn address(values: &Values, name: &str) -> Option<SocketAddr> {
    match values.get(name).parsed {
        Held::Address(address) => Some(address),
        _ => None,
    }
}

fn path(values: &Values, name: &str) -> Option<PathBuf> {
    match &values.get(name).parsed {
        Held::Path(path) => Some(path.clone()),
        _ => None,
    }
}
