//! What operators ask for: the Admin service, health, reflection, the status page.

pub mod admin;
pub mod health;
pub mod job_history;
pub mod reflection;
pub mod status_report;
