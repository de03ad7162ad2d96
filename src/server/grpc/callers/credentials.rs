//! The credentials that the server accepts: who a caller is, and when files are read again, that of
//! tenants among them.
//!
//! Files of credentials are polled: two seconds are soon enough, and polling sees every change,
//! among them those of links, which Kubernetes makes for mounted secrets, and of network file
//! systems, which report none.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use tokio_rustls::rustls::ServerConfig;
use tonic::codegen::http::{HeaderMap, header::AUTHORIZATION};

use super::reload::{
    CredentialFileError, ReloadMode, Reloaded, entry_errors, read_text, warn_of_left_out,
};
use crate::grpc::connections::{
    connection::Peer,
    tls::{FileExpiry, LoadedTls},
};
use crate::{
    error::CredentialProblem,
    identity::{Caller, JwtPolicy, JwtVerifier, TokenFile, is_valid_name},
    settings::{AuthSettings, JwtSettings, ProxySettings, ServerSettings, TlsFiles},
    tenant::{Tenants, read_tenants},
};

/// Interval at which files are compared. Polling sees every kind of change, among them those of
/// links, which Kubernetes makes, and of network file systems, which report none.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

const TOKENS: &str = "auth_tokens";
const KEY_SET: &str = "auth_jwks";
const TENANTS: &str = "tenants";

/// What the credential files hold, as last read.
pub struct Credentials {
    tls: Option<Reloaded<LoadedTls>>,
    tokens: Option<Reloaded<TokenFile>>,
    jwt: Option<Reloaded<JwtVerifier>>,
    /// Reading the file updates the server's tenants.
    tenants: Option<Reloaded<()>>,
    accepts_certificates: bool,
    proxies: Option<ProxySettings>,
    reload: Notify,
}

/// The problems of all files of credentials, and of that of tenants.
#[derive(Debug)]
pub struct CredentialFileProblems {
    /// Files that cannot be used: a server does not start with them.
    pub files: Vec<CredentialFileError>,
    /// Entries that a server leaves out.
    pub entries: Vec<CredentialFileError>,
}

/// Reads all files of credentials, and that of tenants, as the server does at its start.
pub fn check_credential_files(settings: &ServerSettings) -> CredentialFileProblems {
    let ServerSettings { tls, auth, tenants, .. } = settings;
    let unreadable = tls.as_ref().map(TlsFiles::unreadable).unwrap_or_default();
    let listener = tls.clone().filter(|_| unreadable.is_empty());
    let listener = listener.map(|tls| TlsFiles { client_ca: None, ..tls });
    let client_ca = tls.as_ref().map(TlsFiles::check_client_ca);
    let AuthSettings { tokens, jwt, .. } = auth;
    // Each alone, so that one that cannot be used does not hide another one.
    let none = ServerSettings::default;
    let with_auth = |auth| ServerSettings { auth, ..none() };
    let alone = [
        ServerSettings { tls: listener, ..none() },
        with_auth(AuthSettings { tokens: tokens.clone(), ..AuthSettings::default() }),
        with_auth(AuthSettings { jwt: jwt.clone(), ..AuthSettings::default() }),
        ServerSettings { tenants: tenants.clone(), ..none() },
    ];
    let read = |one| Credentials::read(one, &Arc::default()).map(|read| read.left_out());
    let mut problems = CredentialFileProblems { files: unreadable, entries: Vec::new() };
    for left_out in alone.iter().map(read).chain(client_ca) {
        match left_out {
            Ok(entries) => problems.entries.extend(entries),
            Err(error) => problems.files.push(error),
        }
    }
    problems
}

impl Credentials {
    /// Reads all files that `settings` names, and puts what the file of tenants lists into
    /// `tenants`.
    ///
    /// Errors: the first file that cannot be used.
    pub fn read(
        settings: &ServerSettings,
        tenants: &Arc<Tenants>,
    ) -> Result<Self, CredentialFileError> {
        let ServerSettings { tls, auth, .. } = settings;
        let is_optional = auth.accepts_tokens();
        let accepts_certificates = tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        let read_tls = |files: TlsFiles| {
            Reloaded::new("tls_certificate", files.paths(), move || files.read(is_optional))
        };
        let read_tokens = |path: PathBuf| {
            Reloaded::new(TOKENS, vec![path.clone()], move || {
                let text = read_text(TOKENS, &path)?;
                let file = TokenFile::parse_usable(&text);
                let file = file.map_err(|error| CredentialFileError::new(TOKENS, error))?;
                warn_of_left_out(TOKENS, file.left_out());
                Ok(file)
            })
        };
        let read_keys = |settings: JwtSettings| {
            let JwtSettings { key_set, issuer, audience, tenant_claim } = settings;
            let policy = JwtPolicy { issuer, audience, tenant_claim };
            Reloaded::new(KEY_SET, vec![key_set.clone()], move || {
                let text = read_text(KEY_SET, &key_set)?;
                let verifier = JwtVerifier::new(policy.clone(), &text);
                let verifier =
                    verifier.map_err(|error| CredentialFileError::new(KEY_SET, error))?;
                warn_of_left_out(KEY_SET, verifier.left_out());
                Ok(verifier)
            })
        };
        let read_tenants = |path: PathBuf| {
            let tenants = tenants.clone();
            Reloaded::new(TENANTS, vec![path.clone()], move || {
                let listed = read_tenants(&path);
                let refused = |error| CredentialFileError::new(TENANTS, error);
                listed.map(|listed| tenants.update(listed)).map_err(refused)
            })
        };
        Ok(Self {
            tls: tls.clone().map(read_tls).transpose()?,
            tokens: auth.tokens.clone().map(read_tokens).transpose()?,
            jwt: auth.jwt.clone().map(read_keys).transpose()?,
            tenants: settings.tenants.clone().map(read_tenants).transpose()?,
            accepts_certificates,
            proxies: auth.proxies.clone(),
            reload: Notify::new(),
        })
    }

    /// The tokens and keys that cannot be used.
    fn left_out(&self) -> Vec<CredentialFileError> {
        let of_tokens =
            |file: &Reloaded<TokenFile>| entry_errors(TOKENS, file.current().left_out());
        let of_keys = |set: &Reloaded<JwtVerifier>| entry_errors(KEY_SET, set.current().left_out());
        self.tokens.iter().flat_map(of_tokens).chain(self.jwt.iter().flat_map(of_keys)).collect()
    }

    /// The current configuration of TLS, for new connections; `None` for plain text.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|files| files.current().config.clone())
    }

    /// When the certificates of the files in use expire.
    pub fn expiries(&self) -> Vec<FileExpiry> {
        self.tls.iter().flat_map(|files| files.current().expiries.clone()).collect()
    }

    /// Asks [`Self::watch`] to read all files again.
    pub fn request_reload(&self) {
        self.reload.notify_one();
    }

    /// Reads files again when they have changed, and all of them on request.
    pub async fn watch(self: Arc<Self>) {
        if !self.has_files() {
            loop {
                self.reload.notified().await;
                tracing::info!("nothing to read again: no certificates, tokens, keys or tenants");
            }
        }
        loop {
            let mode = match timeout(POLL_INTERVAL, self.reload.notified()).await {
                Ok(()) => ReloadMode::Always,
                Err(_) => ReloadMode::IfChanged,
            };
            let credentials = self.clone();
            let (done, ended) = oneshot::channel();
            // Its own thread, since calls on a stalled disk may take all others.
            let reloading = thread::Builder::new().name("credentials".into()).spawn(move || {
                credentials.reload(mode);
                // Nobody waits if the runtime ends.
                let _sent = done.send(());
            });
            match reloading {
                // Fails only if it panicked, which the hook reports.
                Ok(_) => drop(ended.await),
                Err(error) => tracing::error!(%error, "cannot start a thread to read credentials"),
            }
        }
    }

    fn has_files(&self) -> bool {
        self.tls.is_some() || self.tokens.is_some() || self.jwt.is_some() || self.tenants.is_some()
    }

    fn reload(&self, mode: ReloadMode) {
        let Self { tls, tokens, jwt, tenants, .. } = self;
        if let Some(files) = tls {
            let before = files.current();
            files.reload(mode);
            if !Arc::ptr_eq(&before, &files.current()) {
                self.expiries().iter().for_each(FileExpiry::warn);
            }
        }
        tokens.iter().for_each(|file| file.reload(mode));
        jwt.iter().for_each(|file| file.reload(mode));
        tenants.iter().for_each(|file| file.reload(mode));
    }

    /// Who makes a call with these headers: the caller that a proxy names, or whoever connects.
    ///
    /// Errors: see [`CredentialProblem`].
    pub fn caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, CredentialProblem> {
        let direct = self.direct_caller(peer, headers)?;
        match &self.proxies {
            // An operator is never a proxy.
            Some(proxies) if !peer.is_admin && proxies.trusts(&direct) => proxies.caller(headers),
            _ => Ok(direct),
        }
    }

    /// Whether a peer may make calls for several callers: a local user, a proxy by its certificate,
    /// or a proxy that has shown its token on this connection.
    pub fn may_be_shared(&self, peer: &Peer) -> bool {
        let is_proxy = |caller: &Caller| self.proxies.iter().any(|proxies| proxies.trusts(caller));
        peer.local_user.is_some()
            || peer.carries_others()
            || matches!(&peer.certificate, Some(Ok(caller)) if is_proxy(caller))
    }

    /// A peer on the Unix socket is its user; over TCP, a token decides before a certificate, and
    /// one of them is required if any is configured.
    fn direct_caller(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, CredentialProblem> {
        if let Some(uid) = peer.local_user {
            return Ok(Caller::local_user(uid));
        }
        let accepts_tokens = self.tokens.is_some() || self.jwt.is_some();
        if accepts_tokens && let Some(token) = bearer_token(headers)? {
            return self.token_caller(token, SystemTime::now());
        }
        match &peer.certificate {
            Some(caller) => caller.clone(),
            None if accepts_tokens || self.accepts_certificates => Err(CredentialProblem::Missing),
            None => Ok(Caller::anonymous()),
        }
    }

    /// The name of the administrator whose token a header `authorization` holds; `None` for all
    /// others.
    pub fn status_admin(&self, authorization: &str, admins: &[String]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization.parse().ok()?);
        let caller = self.token_caller(bearer_token(&headers).ok()??, SystemTime::now()).ok()?;
        admins.iter().find(|admin| ***admin == *caller.subject).cloned()
    }

    fn token_caller(&self, token: &[u8], now: SystemTime) -> Result<Caller, CredentialProblem> {
        let unknown = CredentialProblem::UnknownToken;
        let listed = self.tokens.as_ref().map_or(Err(unknown), |file| {
            let file = file.current();
            let entry = file.find(token, now)?;
            Ok(Caller::token(&entry.name, entry.tenant.as_deref()))
        });
        match (&self.jwt, listed) {
            (Some(jwt), Err(problem)) if problem == unknown => jwt.current().verify(token, now),
            (_, listed) => listed,
        }
    }
}

impl ProxySettings {
    fn trusts(&self, caller: &Caller) -> bool {
        self.subjects.iter().any(|proxy| **proxy == *caller.subject)
    }

    /// The caller that a proxy names.
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, CredentialProblem> {
        let only = |header: &str| {
            let mut values = headers.get_all(header).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => {
                    let name = value.to_str().ok().filter(|name| is_valid_name(name));
                    name.map(Some).ok_or(CredentialProblem::Malformed)
                }
                _ => Err(CredentialProblem::Malformed),
            }
        };
        let name = only(&self.caller_header)?.ok_or(CredentialProblem::Missing)?;
        Ok(Caller::proxied(name, only(&self.tenant_header)?))
    }
}

/// The token of the header `authorization`; `None` without such a header.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&[u8]>, CredentialProblem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let token = value.as_bytes().split_at_checked("Bearer ".len());
    match (token, values.next()) {
        (Some((scheme, token)), None) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
            Ok(Some(token.trim_ascii()))
        }
        _ => Err(CredentialProblem::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_names_one_caller_and_perhaps_its_tenant() {
        let proxies = ProxySettings {
            subjects: vec!["uid:33".into()],
            caller_header: "x-caller".into(),
            tenant_header: "x-tenant".into(),
        };
        let named = |values: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in values {
                headers.append(*name, value.parse().unwrap());
            }
            let caller = proxies.caller(&headers)?;
            Ok((caller.subject.to_string(), caller.tenant.map(|tenant| tenant.to_string())))
        };
        let ada = || "proxied:ada".to_owned();
        assert_eq!(named(&[("x-caller", "ada")]), Ok((ada(), None)));
        let with_tenant = named(&[("x-caller", "ada"), ("x-tenant", "a")]);
        assert_eq!(with_tenant, Ok((ada(), Some("a".into()))));
        assert_eq!(named(&[("x-tenant", "a")]), Err(CredentialProblem::Missing));
        for twice in [[("x-caller", "ada"), ("x-caller", "bob")], [("x-caller", ""), ("y", "a")]] {
            assert_eq!(named(&twice), Err(CredentialProblem::Malformed), "{twice:?}");
        }
    }

    #[test]
    fn finds_one_bearer_token() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            bearer_token(&headers).map(|token| token.map(<[u8]>::to_vec))
        };
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&["Bearer a.b"]), Ok(Some(b"a.b".to_vec())));
        assert_eq!(found(&["bearer  a"]), Ok(Some(b"a".to_vec())));
        for values in [&["Basic a"][..], &["Bearer"], &["a"], &["Bearer a", "Bearer a"], &[""]] {
            assert_eq!(found(values), Err(CredentialProblem::Malformed), "{values:?}");
        }
    }
}
