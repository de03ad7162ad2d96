//! How urgent a client's calls are.

/// How urgent the calls of a client are among those of its tenant. Other tenants' calls do not
/// matter: tenants share the server by weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// Before other calls of the tenant.
    Urgent,
    /// The default.
    #[default]
    Normal,
    /// After other calls of the tenant, apart from a share for calls that have waited for seconds.
    Batch,
}

impl Priority {
    /// The word that requests carry; `None` for the default.
    pub(crate) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Urgent => Some("urgent"),
            Self::Normal => None,
            Self::Batch => Some("batch"),
        }
    }
}
