//! What a check found.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Ok,
    Warning,
    Problem,
}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// Name of the check, for scripts.
    pub check: &'static str,
    pub severity: Severity,
    /// What was found, in one line.
    pub found: String,
    /// What to do; `None` if nothing is wrong.
    pub fix: Option<String>,
}

impl DoctorFinding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, found: found.into(), fix: None }
    }

    pub fn warning(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, severity: Severity::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    pub fn problem(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, severity: Severity::Problem, found: found.into(), fix: Some(fix.into()) }
    }
}
