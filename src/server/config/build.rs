//! Builds the configuration from parsed values: checks them together, and the files of credentials.

use std::path::{self, Path, PathBuf};

use super::{
    ByteSize, Config, ConfigProblem, CudaSettings, EngineChoice, GpuIsolation, SettingValues,
    memory,
};
use crate::{
    grpc::{
        AuthSettings, CredentialFileError, CredentialFileProblems, JwtSettings, ProxySettings,
        ServerSettings, TlsFiles, check_credential_files, check_preload_file,
    },
    telemetry::LogFormat,
};

const BYTES_IN_FLIGHT_MIN: u64 = 256 << 20;
/// `store_bytes_max` defaults to 1/4 of the memory; payloads in flight may use half.
const STORE_DIVISOR: u64 = 4;
/// `region_bytes_max` defaults to 1/16 of the memory.
const REGION_DIVISOR: u64 = 16;
/// Divisor of the host's memory for pinned memory, which nothing else can use.
const PINNED_DIVISOR: u64 = 32;
/// Twice the scalars of the largest MSM. More delays the start of the daemon, and the end of a lost
/// worker (`benches/experiments/transport.md`).
const PINNED_BYTES_MAX: u64 = 4 << 30;

impl SettingValues {
    /// Checks the values together and builds the configuration, with which the daemon starts.
    ///
    /// Errors: every problem, if any of them prevents the start.
    pub fn check(&self) -> Result<Config, Vec<ConfigProblem>> {
        let config = self.config();
        let problems = self.problems(&config);
        if problems.iter().all(ConfigProblem::is_left_out) { Ok(config) } else { Err(problems) }
    }

    /// Like [`Self::check`], but also refuses files with entries that the daemon would leave out.
    ///
    /// Errors: every problem.
    pub fn check_all(&self) -> Result<Config, Vec<ConfigProblem>> {
        let config = self.config();
        let problems = self.problems(&config);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// Every contradiction between values, every file that cannot be used, and every entry of a
    /// file of credentials that would be left out.
    #[doc(hidden)]
    pub fn problems(&self, config: &Config) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        check_relations(self, &config.server, &config.cuda, &mut problems);
        check_admin_socket(self, &config.server, &mut problems);
        check_credentials(self, &config.server, &mut problems);
        check_preload(self, &config.server, &mut problems);
        problems
    }

    /// The configuration, which may have [problems](Self::problems).
    #[doc(hidden)]
    pub fn config(&self) -> Config {
        Config {
            server: server_settings(self),
            engine: match self.text("engine") {
                "cpu" => EngineChoice::Cpu,
                "cuda" => EngineChoice::Cuda,
                _ => EngineChoice::Auto,
            },
            cuda: cuda_settings(self),
            threads: self.integer("threads"),
            verify_threads: self.integer("verify_threads"),
            metrics_listen: self.address("metrics_listen"),
            metrics_tls: self.flag("metrics_tls"),
            log_format: match self.text("log_format") {
                "json" => LogFormat::Json,
                _ => LogFormat::Human,
            },
            audit_log: self.path("audit_log"),
            otlp_endpoint: self.optional_text("otlp_endpoint"),
            log_level: self.text("log_level").to_owned(),
        }
    }
}

fn server_settings(values: &SettingValues) -> ServerSettings {
    let bytes_in_flight_max = values
        .number("bytes_in_flight_max")
        .unwrap_or_else(|| (memory::available_bytes() / 2).max(BYTES_IN_FLIGHT_MIN));
    let connection_bytes_in_flight_max =
        values.number("connection_bytes_in_flight_max").unwrap_or(bytes_in_flight_max / 2);
    let jobs_max: u32 = values.integer("jobs_max");
    // A default follows the limit that it must not exceed.
    let message_payload_bytes_max = values.integer_or("message_payload_bytes_max", |bytes: u64| {
        bytes.min(connection_bytes_in_flight_max)
    });
    let Http2Windows { stream, connection } = http2_windows(values);
    ServerSettings {
        listen: values.address("listen"),
        unix_socket: values.path("unix_socket"),
        unix_mode: values.integer("unix_mode"),
        admin_socket: values.path("admin_socket"),
        admin_mode: values.integer("admin_mode"),
        tls: tls(values),
        auth: AuthSettings {
            tokens: values.path("auth_tokens"),
            jwt: jwt(values),
            proxies: proxies(values),
            status_admins: subjects(values, "status_admins"),
        },
        insecure: values.flag("insecure"),
        message_payload_bytes_max,
        bytes_in_flight_max,
        connection_bytes_in_flight_max,
        jobs_max,
        connection_jobs_max: values.integer_or("connection_jobs_max", |jobs| jobs_max.min(jobs)),
        program_time_max: values.seconds("program_time_max_s"),
        uploads_max: values.integer("uploads_max"),
        connection_uploads_max: values.integer("connection_uploads_max"),
        upload_streams_max: values.integer("upload_streams_max"),
        region_bytes_max: values
            .number("region_bytes_max")
            .unwrap_or_else(|| memory::available_bytes() / REGION_DIVISOR),
        store_bytes_max: values
            .number("store_bytes_max")
            .unwrap_or_else(|| memory::available_bytes() / STORE_DIVISOR),
        objects_max: values.integer("objects_max"),
        connections_max: values.integer("connections_max"),
        connections_per_address_max: values.integer("connections_per_address_max"),
        connection_idle_max: values.seconds("connection_idle_max_s"),
        connection_age_max: values.seconds("connection_age_max_s"),
        shared_connections: values.flag("shared_connections"),
        streams_per_connection_max: values.integer("streams_per_connection_max"),
        idle_timeout: values.milliseconds("idle_timeout_ms"),
        peer_bytes_per_second_min: values.integer("peer_bytes_per_second_min"),
        handshake_timeout: values.milliseconds("handshake_timeout_ms"),
        upload_ttl: values.seconds("upload_ttl_s"),
        drain_grace: values.seconds("drain_grace_s"),
        workers: values.integer("workers"),
        busy_poll: values.microseconds("busy_poll_us"),
        tenants: values.path("tenants"),
        metrics_tenants: values.flag("metrics_tenants"),
        data_dir: values.path("data_dir"),
        object_check_interval: values.seconds("object_check_interval_s"),
        pinned_bases_percent: values.integer("pinned_bases_percent"),
        preload: values.path("preload"),
        admin_over_tcp: values.flag("admin_over_tcp"),
        reflection: values.flag("reflection"),
        http2_stream_window_bytes: stream,
        http2_connection_window_bytes: connection,
        http2_frame_bytes_max: values.integer("http2_frame_bytes_max"),
    }
}

/// As in deploy/envoy.yaml.
const PROXY_WINDOW_BYTES_MAX: u32 = 64 << 20;

/// Flow-control windows, bytes.
struct Http2Windows {
    stream: u32,
    connection: u32,
}

/// A default follows the window that is given. A connection of a proxy carries the uploads of many
/// callers, so that each of its streams gets its window, up to [`PROXY_WINDOW_BYTES_MAX`].
fn http2_windows(values: &SettingValues) -> Http2Windows {
    let stream = values.integer_or("http2_stream_window_bytes", |bytes: u32| {
        bytes.min(values.integer("http2_connection_window_bytes"))
    });
    let has_proxies =
        values.flag("shared_connections") || values.optional_text("auth_proxies").is_some();
    let of_all_streams = stream.saturating_mul(values.integer("streams_per_connection_max"));
    let proxies = if has_proxies { of_all_streams.min(PROXY_WINDOW_BYTES_MAX) } else { 0 };
    let fits = |bytes: u32| bytes.max(stream).max(proxies);
    Http2Windows { stream, connection: values.integer_or("http2_connection_window_bytes", fits) }
}

fn cuda_settings(values: &SettingValues) -> CudaSettings {
    CudaSettings {
        driver: values.path("cuda_driver"),
        devices: values.devices("cuda_devices").unwrap_or_default(),
        isolation: match values.text("gpu_isolation") {
            "none" => GpuIsolation::None,
            "unrestricted" => GpuIsolation::Unrestricted,
            _ => GpuIsolation::Process,
        },
        devices_min: values.integer("cuda_devices_min"),
        memory_percent: values.integer("cuda_memory_percent"),
        pinned_bytes: values
            .number("cuda_pinned_bytes")
            .unwrap_or_else(|| pinned_bytes_auto(memory::available_bytes())),
        timeout: values.milliseconds("cuda_timeout_ms"),
        msm_min: values.integer("cuda_msm_min"),
        ntt_min: values.integer("cuda_ntt_min"),
    }
}

/// The pinned memory on a host with this much memory.
fn pinned_bytes_auto(memory_bytes: u64) -> u64 {
    (memory_bytes / PINNED_DIVISOR).min(PINNED_BYTES_MAX)
}

fn check_relations(
    values: &SettingValues,
    server: &ServerSettings,
    cuda: &CudaSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let mut refuse = |name: &str, why: &str| problems.push(values.problem(name, why));
    if values.text("engine") == "cpu" && cuda.devices_min > 0 {
        refuse("cuda_devices_min", "must be 0 if engine is cpu");
    }
    if !cuda.devices.is_empty() && cuda.devices_min as usize > cuda.devices.len() {
        refuse("cuda_devices_min", "must be at most the number of cuda_devices");
    }
    if server.listen.is_none() && server.unix_socket.is_none() {
        refuse("listen", "must be an address if unix_socket is none");
    }
    let of_tcp = ["tls_certificate", "auth_tokens", "auth_jwks"];
    for name in of_tcp.into_iter().filter(|name| values.path(name).is_some()) {
        let is_for_metrics = name == "tls_certificate" && values.flag("metrics_tls");
        if server.listen.is_none() && !is_for_metrics {
            refuse(name, "requires listen: Unix sockets have neither TLS nor tokens");
        }
    }
    if let Some(endpoint) = values.optional_text("otlp_endpoint") {
        if cfg!(not(feature = "otlp")) {
            refuse(
                "otlp_endpoint",
                "this program is built without the feature otlp: build it with --features otlp",
            );
        } else if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            refuse("otlp_endpoint", "must begin with http:// or https://");
        }
    }
    if server.metrics_tenants && server.tenants.is_none() {
        refuse("metrics_tenants", "requires tenants");
    }
    // If one of both is set, the other one is asked for below.
    let has_tls = ["tls_certificate", "tls_key"].iter().any(|name| values.path(name).is_some());
    if values.flag("metrics_tls") && !has_tls {
        refuse("metrics_tls", "requires tls_certificate and tls_key");
    }
    let metrics = values.address("metrics_listen").filter(|metrics| metrics.port() != 0);
    if metrics.is_some() && metrics == server.listen {
        refuse("metrics_listen", "is also the address of listen: set another port");
    }
    let mut at_most = |name: &str, bytes: u64, limit_name: &str, limit: u64| {
        if bytes > limit {
            refuse(name, &format!("must be at most {limit_name}, which is {}", ByteSize(limit)));
        }
    };
    let total = server.bytes_in_flight_max;
    let connection = server.connection_bytes_in_flight_max;
    at_most("connection_bytes_in_flight_max", connection, "bytes_in_flight_max", total);
    let message = server.message_payload_bytes_max;
    at_most("message_payload_bytes_max", message, "connection_bytes_in_flight_max", connection);
    let stream = server.http2_stream_window_bytes.into();
    let connection = server.http2_connection_window_bytes.into();
    at_most("http2_stream_window_bytes", stream, "http2_connection_window_bytes", connection);
    if server.connection_jobs_max > server.jobs_max {
        refuse("connection_jobs_max", &format!("must be at most jobs_max = {}", server.jobs_max));
    }
}

fn check_admin_socket(
    values: &SettingValues,
    server: &ServerSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let Some(admin) = &server.admin_socket else { return };
    let mut refuse = |name: &str, why: &str| problems.push(values.problem(name, why));
    if server.admin_over_tcp {
        refuse("admin_over_tcp", "must be false if there is an admin_socket");
    }
    let is_at = |other: &PathBuf| resolved(admin) == resolved(other);
    if server.unix_socket.as_ref().is_some_and(is_at) {
        refuse("admin_socket", "is also the path of unix_socket: set another path");
    }
    if server.region_socket().as_ref().is_some_and(is_at) {
        let why = "is also the path of the socket that hands out regions, which is that of \
                   unix_socket with .regions appended: set another path";
        refuse("admin_socket", why);
    }
}

/// The path of a socket without relative parts and links to folders.
fn resolved(socket: &Path) -> PathBuf {
    let path = path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        // The folder does not exist yet.
        _ => path,
    }
}

fn tls(values: &SettingValues) -> Option<TlsFiles> {
    let (certificate, key) = (values.path("tls_certificate")?, values.path("tls_key")?);
    Some(TlsFiles { certificate, key, client_ca: values.path("tls_client_ca") })
}

fn jwt(values: &SettingValues) -> Option<JwtSettings> {
    Some(JwtSettings {
        key_set: values.path("auth_jwks")?,
        issuer: values.optional_text("auth_jwt_issuer")?,
        audience: values.optional_text("auth_jwt_audience")?,
        tenant_claim: values.optional_text("auth_jwt_tenant_claim").unwrap_or_default(),
    })
}

/// Subjects of callers, separated by commas; empty if the setting is `none`.
fn subjects(values: &SettingValues, name: &str) -> Vec<String> {
    let listed = values.optional_text(name);
    let listed = listed.iter().flat_map(|listed| listed.split(','));
    listed.map(|subject| subject.trim().to_owned()).collect()
}

fn proxies(values: &SettingValues) -> Option<ProxySettings> {
    let subjects = subjects(values, "auth_proxies");
    if subjects.is_empty() {
        return None;
    }
    let lower = |name| values.optional_text(name).unwrap_or_default().to_ascii_lowercase();
    Some(ProxySettings {
        subjects,
        caller_header: lower("auth_proxy_caller_header"),
        tenant_header: lower("auth_proxy_tenant_header"),
    })
}

/// Checks who may call, and reads the files of credentials as the server will.
fn check_credentials(
    values: &SettingValues,
    server: &ServerSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let is_set = |name| values.path(name).is_some() || values.optional_text(name).is_some();
    // A token for another service of the same issuer must not work here.
    for (name, needed) in [
        ("tls_certificate", "tls_key"),
        ("tls_key", "tls_certificate"),
        ("tls_client_ca", "tls_certificate"),
        ("auth_jwks", "auth_jwt_issuer"),
        ("auth_jwks", "auth_jwt_audience"),
        ("auth_jwt_issuer", "auth_jwks"),
        ("auth_jwt_audience", "auth_jwks"),
    ] {
        if is_set(name) && !is_set(needed) {
            problems.push(values.problem(name, &format!("requires {needed}")));
        }
    }
    let proxies = server.auth.proxies.iter().flat_map(|proxies| &proxies.subjects);
    if proxies.into_iter().any(|subject| subject.is_empty() || subject == "anonymous") {
        problems.push(values.problem("auth_proxies", "must name callers that are known"));
    }
    let is_token = |subject: &String| subject.starts_with("token:") || subject.starts_with("jwt:");
    if !server.auth.status_admins.iter().all(is_token) {
        let problem = "must name callers with tokens, such as token:ops or jwt:ada";
        problems.push(values.problem("status_admins", problem));
    }
    for name in ["auth_proxy_caller_header", "auth_proxy_tenant_header"] {
        let header = values.optional_text(name).unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if header.is_empty() || !header.bytes().all(is_name) {
            problems.push(values.problem(name, "must be the name of a header"));
        }
    }
    // Of those that are set, the missing ones were asked for above.
    let has_callers = ["auth_tokens", "auth_jwks", "tls_client_ca"].into_iter().any(is_set);
    if server.is_exposed() && !has_callers {
        problems.push(values.problem(
            "listen",
            "other hosts can reach this address, and nothing says who may call: set auth_tokens, \
             auth_jwks or tls_client_ca, or set insecure to serve everyone",
        ));
    }
    let CredentialFileProblems { files, entries } = check_credential_files(server);
    let problem = |error: &CredentialFileError| values.problem(error.setting, &error.problem);
    problems.extend(files.iter().map(problem));
    problems.extend(entries.iter().map(|entry| problem(entry).left_out()));
}

/// Reads the file of bases to preload as the server will.
fn check_preload(
    values: &SettingValues,
    server: &ServerSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let Some(path) = &server.preload else { return };
    if server.data_dir.is_none() {
        problems.push(values.problem("preload", "requires data_dir, which keeps the bases"));
    }
    if let Err(error) = check_preload_file(path) {
        problems.push(values.problem("preload", &error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::command;

    #[test]
    fn limits_follow_the_available_memory() {
        let flags = command().get_matches_from(["capstand", "--config", "/dev/null"]);
        let config = SettingValues::read(&flags, []).unwrap().check().unwrap();
        let memory = memory::available_bytes();
        assert_eq!(config.server.bytes_in_flight_max, (memory / 2).max(BYTES_IN_FLIGHT_MIN));
        assert_eq!(config.server.store_bytes_max, memory / 4);
        assert_eq!(config.cuda.pinned_bytes, pinned_bytes_auto(memory));
        assert_eq!(pinned_bytes_auto(64 << 30), 2 << 30);
        assert_eq!(pinned_bytes_auto(2 << 40), 4 << 30);
    }
}
