//! The certificate and key of the TCP listener.

use std::{fmt, time::Duration};

use tonic::transport::{Identity, Server, ServerTlsConfig};
use zeroize::Zeroizing;

use super::ServeError;

/// A certificate chain and its private key, both PEM. The key is zeroed when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The chain, leaf first.
    pub certificate_pem: Vec<u8>,
    /// The leaf's key.
    pub key_pem: Zeroizing<Vec<u8>>,
}

impl TlsIdentity {
    /// Checks that the listener can use the certificate and the key.
    ///
    /// Errors: `Transport` if one of them cannot be parsed or the key does not match the leaf.
    pub fn validate(&self) -> Result<(), ServeError> {
        self.configure(Server::builder(), Duration::MAX).map(drop)
    }

    pub(super) fn configure(
        &self,
        transport: Server,
        handshake_timeout: Duration,
    ) -> Result<Server, ServeError> {
        let identity = Identity::from_pem(&self.certificate_pem, self.key_pem.as_slice());
        let config = ServerTlsConfig::new().identity(identity).timeout(handshake_timeout);
        Ok(transport.tls_config(config)?)
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificate_pem", &format_args!("{} bytes", self.certificate_pem.len()))
            .field("key_pem", &"<redacted>")
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerSettings;

    #[test]
    fn debug_shows_no_key() {
        let tls =
            TlsIdentity { certificate_pem: vec![1], key_pem: Zeroizing::new(b"sesame".to_vec()) };
        let settings = ServerSettings { tls: Some(tls.clone()), ..ServerSettings::default() };
        let shown = format!("{tls:?} {settings:?}");
        assert!(shown.contains("<redacted>") && !shown.contains("sesame"), "{shown}");
        assert!(!shown.contains("115, 101, 115"), "{shown}");
    }
}
