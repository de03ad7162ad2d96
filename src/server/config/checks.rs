//! Checks of the values together, and of the files that they name.

use std::path::{self, Path, PathBuf};

use super::{ByteSize, Config, ConfigProblem, EngineChoice, SettingValues};
use crate::{
    grpc::{
        CredentialFileError, CredentialFileProblems, ServerSettings, check_credential_files,
        check_preload_file,
    },
    settings::{ReadSettings, SettingKind, TABLE},
};

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
        check_relations(self, config, &mut problems);
        check_limits(self, &mut problems);
        check_admin_socket(self, &config.server, &mut problems);
        check_credentials(self, &config.server, &mut problems);
        check_preload(self, &config.server, &mut problems);
        problems
    }

    /// The configuration, which may have [problems](Self::problems).
    #[doc(hidden)]
    pub fn config(&self) -> Config {
        Config::read(&self.parsed)
    }
}

fn check_relations(values: &SettingValues, config: &Config, problems: &mut Vec<ConfigProblem>) {
    let Config { server, cuda, .. } = config;
    let mut refuse = |name: &str, why: &str| problems.push(values.problem(name, why));
    if config.engine == EngineChoice::Cpu && cuda.devices_min > 0 {
        refuse("cuda_devices_min", "must be 0 if engine is cpu");
    }
    if !cuda.devices.is_empty() && cuda.devices_min as usize > cuda.devices.len() {
        refuse("cuda_devices_min", "must be at most the number of cuda_devices");
    }
    if server.listen.is_none() && server.unix_socket.is_none() {
        refuse("listen", "must be an address if unix_socket is none");
    }
    let of_tcp = ["tls_certificate", "auth_tokens", "auth_jwks"];
    for name in of_tcp.into_iter().filter(|name| values.parsed.is_set(name)) {
        let is_for_metrics = name == "tls_certificate" && config.metrics_tls;
        if server.listen.is_none() && !is_for_metrics {
            refuse(name, "requires listen: Unix sockets have neither TLS nor tokens");
        }
    }
    if let Some(endpoint) = &config.otlp_endpoint {
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
    let has_tls = ["tls_certificate", "tls_key"].iter().any(|name| values.parsed.is_set(name));
    if config.metrics_tls && !has_tls {
        refuse("metrics_tls", "requires tls_certificate and tls_key");
    }
    let metrics = config.metrics_listen.filter(|metrics| metrics.port() != 0);
    if metrics.is_some() && metrics == server.listen {
        refuse("metrics_listen", "is also the address of listen: set another port");
    }
}

/// Refuses numbers above the settings that they must not exceed.
fn check_limits(values: &SettingValues, problems: &mut Vec<ConfigProblem>) {
    for setting in TABLE {
        let Some(limit_name) = setting.at_most else { continue };
        let limit = values.parsed.number(limit_name);
        if values.parsed.number(setting.name) <= limit {
            continue;
        }
        let limit = match setting.kind {
            SettingKind::Bytes { .. } => format!(", which is {}", ByteSize(limit)),
            _ => format!(" = {limit}"),
        };
        let why = format!("must be at most {limit_name}{limit}");
        problems.push(values.problem(setting.name, &why));
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

/// Checks who may call, and reads the files of credentials as the server will.
fn check_credentials(
    values: &SettingValues,
    server: &ServerSettings,
    problems: &mut Vec<ConfigProblem>,
) {
    let is_set = |name| values.parsed.is_set(name);
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
        let header: String = values.parsed.get(name);
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
    use crate::config::{command, memory};

    #[test]
    fn limits_follow_the_available_memory() {
        let flags = command().get_matches_from(["capstand", "--config", "/dev/null"]);
        let config = SettingValues::read(&flags, []).unwrap().check().unwrap();
        let memory = memory::available_bytes();
        assert_eq!(config.server.bytes_in_flight_max, (memory / 2).max(256 << 20));
        assert_eq!(config.server.store_bytes_max, memory / 4);
        assert_eq!(config.cuda.pinned_bytes, (memory / 32).min(4 << 30));
    }
}
