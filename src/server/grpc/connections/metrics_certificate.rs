//! The certificate of the listener for metrics.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

use super::tls::LoadedTls;
use crate::grpc::callers::reload::{CredentialFileError, ReloadMode, Reloaded};
use crate::settings::TlsFiles;
use crate::telemetry::MetricsTls;

/// The certificate of the listener for metrics, which reads it again when its files change. It is
/// separate from that of the gRPC listener, which begins later. Probes have no client certificates,
/// so none is asked for.
#[derive(Clone)]
pub struct MetricsCertificate(Arc<Reloaded<LoadedTls>>);

impl MetricsCertificate {
    /// Reads the certificate and the key of `files`.
    ///
    /// Errors: a file cannot be read or used.
    pub fn read(files: &TlsFiles) -> Result<Self, CredentialFileError> {
        let files = TlsFiles { client_ca: None, ..files.clone() };
        let paths = files.paths();
        let read = move || files.read_http();
        Ok(Self(Reloaded::new("tls_certificate", paths, read)?.into()))
    }

    /// Reads the files again. A file that cannot be used is logged as an error, and what was read
    /// before stays in use.
    pub fn reload(&self) {
        self.0.reload(ReloadMode::Always);
    }
}

impl MetricsTls for MetricsCertificate {
    fn acceptor(&self) -> TlsAcceptor {
        self.0.current().config.clone().into()
    }

    fn reload_if_changed(&self) {
        self.0.reload(ReloadMode::IfChanged);
    }
}
