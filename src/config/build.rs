//! Builds the configuration from parsed values: checks them together and reads certificate files.

use std::{error::Error, fs, net::SocketAddr, path::PathBuf, time::Duration};

use zeroize::Zeroizing;

use super::{
    ByteSize, Config, ConfigProblem, CudaSettings, EngineChoice, ParsedValue, SettingValue,
    SettingValues, memory,
};
use crate::{
    server::{ServerSettings, TlsIdentity},
    telemetry::LogFormat,
};

const BYTES_IN_FLIGHT_MIN: u64 = 256 << 20;
/// Divisor of the memory for stored bases, in addition to the half for payloads in flight.
const STORE_DIVISOR: u64 = 4;
/// Divisor of the host's memory for pinned memory, which nothing else can use. At 128 GiB, this is
/// twice the scalars of the largest MSM.
const PINNED_DIVISOR: u64 = 32;

pub(super) fn build(values: &SettingValues) -> Result<Config, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let tls = tls(values, &mut problems);
    let server = settings(values, tls);
    check_relations(values, &server, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        server,
        engine: match text_value(values, "engine") {
            "cpu" => EngineChoice::Cpu,
            "cuda" => EngineChoice::Cuda,
            _ => EngineChoice::Auto,
        },
        cuda: cuda(values),
        threads: usize_value(values, "threads"),
        verify_threads: usize_value(values, "verify_threads"),
        metrics_listen: address_value(values, "metrics_listen"),
        log_format: match text_value(values, "log_format") {
            "json" => LogFormat::Json,
            _ => LogFormat::Human,
        },
        log_level: text_value(values, "log_level").to_owned(),
    })
}

fn settings(values: &SettingValues, tls: Option<TlsIdentity>) -> ServerSettings {
    let whole = number_value(values, "bytes_in_flight_max")
        .unwrap_or_else(|| (memory::available_bytes() / 2).max(BYTES_IN_FLIGHT_MIN));
    let one = number_value(values, "connection_bytes_in_flight_max").unwrap_or(whole / 2);
    ServerSettings {
        listen: address_value(values, "listen"),
        unix_socket: path_value(values, "unix_socket"),
        unix_mode: u32_value(values, "unix_mode"),
        tls,
        message_payload_bytes_max: required_number(values, "message_payload_bytes_max"),
        bytes_in_flight_max: whole,
        connection_bytes_in_flight_max: one,
        jobs_max: u32_value(values, "jobs_max"),
        connection_jobs_max: u32_value(values, "connection_jobs_max"),
        uploads_max: u32_value(values, "uploads_max"),
        store_bytes_max: number_value(values, "store_bytes_max")
            .unwrap_or_else(|| memory::available_bytes() / STORE_DIVISOR),
        objects_max: u32_value(values, "objects_max"),
        connections_max: u32_value(values, "connections_max"),
        streams_per_connection_max: u32_value(values, "streams_per_connection_max"),
        idle_timeout: Duration::from_millis(required_number(values, "idle_timeout_ms")),
        handshake_timeout: Duration::from_millis(required_number(values, "handshake_timeout_ms")),
        upload_ttl: Duration::from_secs(required_number(values, "upload_ttl_s")),
        drain_grace: Duration::from_secs(required_number(values, "drain_grace_s")),
        workers: u32_value(values, "workers"),
        data_dir: path_value(values, "data_dir"),
        admin_over_tcp: flag_value(values, "admin_over_tcp"),
        reflection: flag_value(values, "reflection"),
        http2_stream_window_bytes: u32_value(values, "http2_stream_window_bytes"),
        http2_connection_window_bytes: u32_value(values, "http2_connection_window_bytes"),
        http2_frame_bytes_max: u32_value(values, "http2_frame_bytes_max"),
    }
}

fn cuda(values: &SettingValues) -> CudaSettings {
    CudaSettings {
        driver: path_value(values, "cuda_driver"),
        devices: match &values.get("cuda_devices").parsed {
            ParsedValue::Devices(numbers) => numbers.clone(),
            _ => Vec::new(),
        },
        devices_min: u32_value(values, "cuda_devices_min"),
        memory_percent: required_number(values, "cuda_memory_percent"),
        pinned_bytes: number_value(values, "cuda_pinned_bytes")
            .unwrap_or_else(|| memory::available_bytes() / PINNED_DIVISOR),
        timeout: Duration::from_millis(required_number(values, "cuda_timeout_ms")),
        msm_min: required_number(values, "cuda_msm_min"),
        ntt_min: required_number(values, "cuda_ntt_min"),
    }
}

/// Reports settings that contradict each other.
fn check_relations(
    values: &SettingValues,
    server: &ServerSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let mut refuse = |name: &str, why: &str| problems.push(problem(values.get(name), why));
    let CudaSettings { devices, devices_min, .. } = cuda(values);
    if text_value(values, "engine") == "cpu" && devices_min > 0 {
        refuse("cuda_devices_min", "must be 0 if engine is cpu");
    }
    if !devices.is_empty() && devices_min as usize > devices.len() {
        refuse("cuda_devices_min", "must be at most the number of cuda_devices");
    }
    if server.listen.is_none() && server.unix_socket.is_none() {
        refuse("listen", "unix_socket is none, too: set at least one of them");
    }
    if server.listen.is_none() && path_value(values, "tls_certificate").is_some() {
        refuse("tls_certificate", "requires listen: Unix sockets are not encrypted");
    }
    let metrics = address_value(values, "metrics_listen").filter(|metrics| metrics.port() != 0);
    if metrics.is_some() && metrics == server.listen {
        refuse("metrics_listen", "is also the address of listen: set another port");
    }
    let mut at_most = |name: &str, held: u64, other: &str, max: u64| {
        if held > max {
            refuse(name, &format!("must be at most {other}, which is {}", ByteSize(max)));
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
fn tls(values: &SettingValues, problems: &mut Vec<ConfigProblem>) -> Option<TlsIdentity> {
    let mut read = |name: &str, other: &str| {
        let file = path_value(values, name)?;
        if path_value(values, other).is_none() {
            problems.push(problem(values.get(name), &format!("requires {other}")));
            return None;
        }
        let read = fs::read(file);
        read.map_err(|error| problems.push(problem(values.get(name), &error.to_string()))).ok()
    };
    let certificate_pem = read("tls_certificate", "tls_key");
    let key_pem = read("tls_key", "tls_certificate").map(Zeroizing::new);
    let tls = TlsIdentity { certificate_pem: certificate_pem?, key_pem: key_pem? };
    if let Err(error) = tls.validate() {
        let why = format!("cannot be used with tls_key: {}", innermost(&error));
        problems.push(problem(values.get("tls_certificate"), &why));
    }
    Some(tls)
}

/// The innermost source of an error: the outer ones only say "transport error".
fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn problem(value: &SettingValue, why: &str) -> ConfigProblem {
    let name = value.setting.name;
    ConfigProblem::new(match &value.raw {
        Some(given) => format!("{name} = {:?} ({}): {why}", given.text, given.source),
        None => format!("{name} = {:?} (default): {why}", value.setting.default),
    })
}

fn number_value(values: &SettingValues, name: &str) -> Option<u64> {
    match values.get(name).parsed {
        ParsedValue::Number(n) => Some(n),
        _ => None,
    }
}

fn required_number(values: &SettingValues, name: &str) -> u64 {
    number_value(values, name).expect("the table declares a number without auto")
}

fn u32_value(values: &SettingValues, name: &str) -> u32 {
    required_number(values, name).try_into().expect("the table's range is below 2^32")
}

fn usize_value(values: &SettingValues, name: &str) -> usize {
    required_number(values, name).try_into().expect("the table's range is below 2^32")
}

fn flag_value(values: &SettingValues, name: &str) -> bool {
    values.get(name).parsed == ParsedValue::Flag(true)
}

fn text_value<'a>(values: &'a SettingValues, name: &str) -> &'a str {
    match &values.get(name).parsed {
        ParsedValue::Text(text) => text,
        _ => "",
    }
}

fn address_value(values: &SettingValues, name: &str) -> Option<SocketAddr> {
    match values.get(name).parsed {
        ParsedValue::Address(address) => Some(address),
        _ => None,
    }
}

fn path_value(values: &SettingValues, name: &str) -> Option<PathBuf> {
    match &values.get(name).parsed {
        ParsedValue::Path(path) => Some(path.clone()),
        _ => None,
    }
}
