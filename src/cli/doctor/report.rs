//! Prints findings, as text or as JSON.

use serde_json::{Value, json};

use super::finding::{DoctorFinding, Severity};

/// The number of findings of this severity.
pub fn count(findings: &[DoctorFinding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

pub fn as_json(findings: &[DoctorFinding]) -> Value {
    json!({
        "problems": count(findings, Severity::Problem),
        "warnings": count(findings, Severity::Warning),
        "findings": findings,
    })
}

/// One line for each finding, one more for its fix, and the counts.
pub fn as_text(findings: &[DoctorFinding]) -> String {
    let mut text = String::new();
    for DoctorFinding { check, severity, found, fix } in findings {
        text += &format!("{:<8} {check}: {}\n", severity.name(), one_line(found));
        if let Some(fix) = fix {
            text += &format!("{:<8} fix: {}\n", "", one_line(fix));
        }
    }
    let [problems, warnings] = [Severity::Problem, Severity::Warning].map(|severity| {
        let count = count(findings, severity);
        format!("{count} {}{}", severity.name(), if count == 1 { "" } else { "s" })
    });
    text + &format!("\n{} checks: {problems}, {warnings}\n", findings.len())
}

/// The text of a server must not look like further findings.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_one_line_whatever_the_server_says() {
        let text = as_text(&[DoctorFinding::ok("server", "version 1\r\nok       gpus: fine")]);
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_report_has_every_finding_its_fix_and_the_counts() {
        let findings = [
            DoctorFinding::ok("a", "fine"),
            DoctorFinding::warning("b", "dusty", "dust it"),
            DoctorFinding::problem("c", "broken", "repair it"),
            DoctorFinding::problem("c", "lost", "find it"),
        ];
        let text = as_text(&findings);
        let lines = [
            "ok       a: fine",
            "warning  b: dusty",
            "         fix: dust it",
            "problem  c: broken",
            "         fix: repair it",
            "problem  c: lost",
            "         fix: find it",
            "",
            "4 checks: 2 problems, 1 warning",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
        let json = as_json(&findings);
        assert_eq!((&json["problems"], &json["warnings"]), (&json!(2), &json!(1)));
        let first = json!({ "check": "a", "severity": "ok", "found": "fine", "fix": null });
        assert_eq!(json["findings"][0], first);
    }
}
