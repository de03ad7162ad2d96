//! Why no connection could be established, told by the types of errors.

use std::{error::Error, fmt, io, iter, time::Duration};

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

use super::tcp::{TimedOut, uses_tls};

/// Time for a server to tell whether it uses TLS.
const PROBE_MAX: Duration = Duration::from_secs(3);

/// Why no connection could be established, as far as the client can tell. Displayed as advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectCause {
    /// No authority that the client knows has signed the server's certificate.
    UnknownAuthority,
    /// The server's certificate has expired, or is not valid yet.
    CertificateTime,
    /// The server's certificate is for other names.
    CertificateName,
    /// The server's certificate is invalid in another way.
    CertificateInvalid,
    /// The server requires a client certificate, or does not trust the one that it got.
    ClientCertificate,
    /// The server closed the connection after the TLS handshake. The client sent no certificate.
    ClosedAfterHandshake,
    /// The target is `http://`, and the server uses TLS.
    NeedsTls,
    /// The target is `https://`, and the server does not use TLS.
    WithoutTls,
    /// This user may not connect to the Unix socket.
    PermissionDenied,
    /// Another cause; the server may not run.
    Other,
}

impl ConnectCause {
    /// Looks at an error and its sources. `target` is that of the connection.
    pub(crate) fn of(error: &(dyn Error + 'static), target: &str) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref() {
                return Self::of_tls(error);
            }
            // Over TCP, a firewall can cause it.
            let is_denied = error
                .downcast_ref()
                .is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied);
            if is_denied && target.starts_with("unix:") {
                return Self::PermissionDenied;
            }
            next = source(error);
        }
        Self::Other
    }

    /// If the cause is not known, asks the server whether it uses TLS.
    pub(crate) async fn or_probe(self, target: &str, limit: Duration) -> Self {
        let has_tls = target.starts_with("https:");
        if self != Self::Other || !has_tls && !target.starts_with("http:") {
            return self;
        }
        match (has_tls, uses_tls(target, limit.min(PROBE_MAX)).await) {
            (false, Some(true)) => Self::NeedsTls,
            (true, Some(false)) => Self::WithoutTls,
            _ => self,
        }
    }

    fn of_tls(error: &TlsError) -> Self {
        use CertificateError as Problem;
        match error {
            TlsError::InvalidCertificate(problem) => match problem {
                Problem::Expired
                | Problem::ExpiredContext { .. }
                | Problem::NotValidYet
                | Problem::NotValidYetContext { .. } => Self::CertificateTime,
                Problem::NotValidForName | Problem::NotValidForNameContext { .. } => {
                    Self::CertificateName
                }
                Problem::UnknownIssuer => Self::UnknownAuthority,
                _ => Self::CertificateInvalid,
            },
            TlsError::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
            ) => Self::ClientCertificate,
            TlsError::InvalidMessage(_) => Self::WithoutTls,
            _ => Self::Other,
        }
    }
}

/// Whether an error says that no address has answered in time.
pub(crate) fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |error| source(*error)).any(|error| error.is::<TimedOut>())
}

fn source<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        // Its `source` would skip the error that it holds.
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}

impl fmt::Display for ConnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownAuthority => "specify the authority that signed the server's certificate",
            Self::CertificateTime => {
                "renew the server's certificate, or correct the clock of this host"
            }
            Self::CertificateName => "connect to a name that the server's certificate has",
            Self::CertificateInvalid => "replace the server's certificate",
            Self::ClientCertificate => "specify a client certificate that the server trusts",
            Self::ClosedAfterHandshake => "does the server require a client certificate?",
            Self::NeedsTls => "the server uses TLS: use https://",
            Self::WithoutTls => "the server does not use TLS: use http://",
            Self::PermissionDenied => "this user may not connect to the socket",
            Self::Other => "is capstand running there?",
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::InvalidMessage;

    use super::*;

    const TARGET: &str = "https://host:1";

    #[test]
    fn causes_are_told_by_type_however_deep_the_error_is() {
        let in_io = |error: TlsError| io::Error::new(io::ErrorKind::InvalidData, error);
        for (error, cause) in [
            (CertificateError::Expired, ConnectCause::CertificateTime),
            (CertificateError::NotValidYet, ConnectCause::CertificateTime),
            (CertificateError::NotValidForName, ConnectCause::CertificateName),
            (CertificateError::UnknownIssuer, ConnectCause::UnknownAuthority),
            (CertificateError::BadSignature, ConnectCause::CertificateInvalid),
        ] {
            let error = TlsError::InvalidCertificate(error);
            assert_eq!(ConnectCause::of(&error, TARGET), cause);
            assert_eq!(ConnectCause::of(&io::Error::other(in_io(error)), TARGET), cause);
        }
        let required = TlsError::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(ConnectCause::of(&in_io(required), TARGET), ConnectCause::ClientCertificate);
        let plain = TlsError::InvalidMessage(InvalidMessage::InvalidContentType);
        assert_eq!(ConnectCause::of(&in_io(plain), TARGET), ConnectCause::WithoutTls);
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(ConnectCause::of(&denied, "unix:/socket"), ConnectCause::PermissionDenied);
        assert_eq!(ConnectCause::of(&denied, TARGET), ConnectCause::Other);
        let late = io::Error::new(io::ErrorKind::TimedOut, TimedOut);
        assert!(is_timeout(&io::Error::other(late)) && !is_timeout(&denied));
        // Text that only mentions a cause is not evaluated.
        let text = io::Error::other("certificate expired: CertificateRequired");
        assert_eq!(ConnectCause::of(&text, TARGET), ConnectCause::Other);
    }
}
