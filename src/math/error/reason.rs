//! The reasons for which requests fail: one table for statuses, metrics and the client.

/// Declares [`Reason`] and the text of each variant.
macro_rules! reasons {
    ($($name:ident $text:literal,)+) => {
        /// Why a request failed: `ErrorInfo.reason` of its status, and a label of metrics.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs)] // The text says it.
        pub enum Reason { $($name),+ }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The reason as responses and metrics write it, such as `NOT_CANONICAL`.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }
    };
}

reasons! {
    // A field is wrong.
    Unspecified "UNSPECIFIED",
    Missing "MISSING",
    LengthMismatch "LENGTH_MISMATCH",
    NotCanonical "NOT_CANONICAL",
    NotOnCurve "NOT_ON_CURVE",
    NotInSubgroup "NOT_IN_SUBGROUP",
    BadInfinity "BAD_INFINITY",
    BadEncoding "BAD_ENCODING",
    SizeZero "SIZE_ZERO",
    SizeTooLarge "SIZE_TOO_LARGE",
    OutOfRange "OUT_OF_RANGE",
    ValueType "VALUE_TYPE",
    // An object or an upload cannot be used.
    ObjectUnknown "OBJECT_UNKNOWN",
    ObjectKind "OBJECT_KIND",
    NoDataDir "NO_DATA_DIR",
    UploadConflict "UPLOAD_CONFLICT",
    HashMismatch "HASH_MISMATCH",
    // A limit is reached.
    BytesInFlight "BYTES_IN_FLIGHT",
    OpenCalls "OPEN_CALLS",
    HealthChecks "HEALTH_CHECKS",
    Jobs "JOBS",
    ConnectionBytes "CONNECTION_BYTES",
    ConnectionJobs "CONNECTION_JOBS",
    ConnectionUploads "CONNECTION_UPLOADS",
    UploadStreams "UPLOAD_STREAMS",
    Uploads "UPLOADS",
    Store "STORE",
    Objects "OBJECTS",
    DiskFull "DISK_FULL",
    ProcessLimit "PROCESS_LIMIT",
    Connections "CONNECTIONS",
    Regions "REGIONS",
    DeviceMemory "DEVICE_MEMORY",
    PinnedBases "PINNED_BASES",
    ProgramTime "PROGRAM_TIME",
    TenantQuota "TENANT_QUOTA",
    DeadlineTooEarly "DEADLINE_TOO_EARLY",
    // The caller is not known.
    CredentialsMissing "CREDENTIALS_MISSING",
    CredentialsInvalid "CREDENTIALS_INVALID",
    CredentialsExpired "CREDENTIALS_EXPIRED",
    // The call ended early.
    Deadline "DEADLINE",
    Idle "IDLE",
    Cancelled "CANCELLED",
    Draining "DRAINING",
    Loading "LOADING",
    OtherServer "OTHER_SERVER",
    DeviceLost "DEVICE_LOST",
    DiskFailed "DISK_FAILED",
    LostTwice "LOST_TWICE",
    AdminOnly "ADMIN_ONLY",
    LocalOnly "LOCAL_ONLY",
    TenantUnknown "TENANT_UNKNOWN",
    VerifyFailed "VERIFY_FAILED",
    Internal "INTERNAL",
}

impl Reason {
    /// The reason with this text; `None` if this version does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.text() == text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_its_own_text() {
        let texts: HashSet<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        assert_eq!(texts.len(), Reason::ALL.len());
        for &reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.text()), Some(reason));
        }
        assert_eq!(Reason::parse("NOT_A_REASON"), None);
    }
}
