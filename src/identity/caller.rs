//! Who made a call.

use std::sync::Arc;

/// How a caller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// Not at all: the server asks for no credentials.
    Anonymous,
    /// By the Unix socket, which reports its peer's user.
    LocalUser {
        /// The user's number.
        uid: u32,
    },
    /// By the client certificate of the connection.
    Certificate,
    /// By a bearer token of the token file.
    Token,
    /// By a JSON Web Token.
    Jwt,
    /// By a proxy that is trusted to name callers.
    Proxied,
}

/// Who made a call. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// How the caller is known.
    pub kind: CallerKind,
    /// The kind and the name, such as `token:ci`: short, of visible characters, never a secret.
    pub subject: Arc<str>,
    /// The tenant that the credential names.
    pub tenant: Option<Arc<str>>,
}

impl Caller {
    /// A caller without credentials.
    pub fn anonymous() -> Self {
        Self::new(CallerKind::Anonymous, "anonymous".into(), None)
    }

    /// A user of the server's host.
    pub fn local_user(uid: u32) -> Self {
        Self::new(CallerKind::LocalUser { uid }, format!("uid:{uid}"), None)
    }

    /// The holder of a certificate with a checked name.
    pub fn certificate(name: &str) -> Self {
        Self::new(CallerKind::Certificate, format!("cert:{name}"), None)
    }

    /// The holder of a token of the token file.
    pub fn token(name: &str, tenant: Option<&str>) -> Self {
        Self::new(CallerKind::Token, format!("token:{name}"), tenant)
    }

    /// The subject of a JSON Web Token.
    pub fn jwt(subject: &str, tenant: Option<&str>) -> Self {
        Self::new(CallerKind::Jwt, format!("jwt:{subject}"), tenant)
    }

    /// A caller that a proxy names.
    pub fn proxied(name: &str, tenant: Option<&str>) -> Self {
        Self::new(CallerKind::Proxied, format!("proxied:{name}"), tenant)
    }

    /// Whether other callers share its connection.
    pub fn is_proxied(&self) -> bool {
        self.kind == CallerKind::Proxied
    }

    /// The user of a caller on the server's host.
    pub fn uid(&self) -> Option<u32> {
        match self.kind {
            CallerKind::LocalUser { uid } => Some(uid),
            _ => None,
        }
    }

    fn new(kind: CallerKind, subject: String, tenant: Option<&str>) -> Self {
        Self { kind, subject: subject.into(), tenant: tenant.map(Arc::from) }
    }
}
