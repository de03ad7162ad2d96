//! What a computation took, and what it found.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Outcome,
    known::{self, Comparison},
};

/// A phase and its duration.
pub struct Phase {
    pub name: &'static str,
    pub time: Duration,
    /// If the server computed it.
    pub on_server: Option<ServerWork>,
}

/// What a program took on the server.
pub struct ServerWork {
    pub engine: String,
    pub device: String,
    pub compute: Duration,
}

/// What is printed.
pub struct Report<'a> {
    /// The digits after the point.
    pub digits: &'a str,
    pub phases: &'a [Phase],
}

impl Report<'_> {
    /// Prints the report.
    ///
    /// Errors: if digits differ from known ones.
    pub fn print(&self, is_json: bool, out: &mut impl Write) -> Outcome<()> {
        let known = known::compare(self.digits);
        match is_json {
            true => writeln!(out, "{}", self.json(known.as_ref()))?,
            false => self.print_text(known.as_ref(), out)?,
        }
        match known {
            Some(known) if !known.is_equal => Err("the digits differ from known ones".into()),
            _ => Ok(()),
        }
    }

    fn json(&self, known: Option<&Comparison>) -> Value {
        let phases = self.phases.iter().map(|Phase { name, time, on_server }| {
            json!({
                "name": name,
                "seconds": time.as_secs_f64(),
                "engine": on_server.as_ref().map(|work| &work.engine),
                "device": on_server.as_ref().map(|work| &work.device),
                "server_seconds": on_server.as_ref().map(|work| work.compute.as_secs_f64()),
            })
        });
        json!({
            "digits": self.digits.len(),
            "last_digits": self.last_digits(),
            "compared_places": known.map(|known| known.places),
            "is_equal": known.map(|known| known.is_equal),
            "phases": phases.collect::<Vec<_>>(),
            "seconds": self.total().as_secs_f64(),
        })
    }

    fn print_text(&self, known: Option<&Comparison>, out: &mut impl Write) -> io::Result<()> {
        for Phase { name, time, on_server } in self.phases {
            write!(out, "{name:<11} {:8.3} s", time.as_secs_f64())?;
            match on_server {
                Some(ServerWork { engine, device, compute }) => {
                    writeln!(
                        out,
                        ", of which {:.3} s on {engine}: {device}",
                        compute.as_secs_f64()
                    )?;
                }
                None => writeln!(out)?,
            }
        }
        writeln!(out, "{:<11} {:8.3} s", "total", self.total().as_secs_f64())?;
        writeln!(out, "pi to {} places ends with {}", self.digits.len(), self.last_digits())?;
        match known {
            Some(known) if known.is_equal => {
                writeln!(out, "equal to known digits up to place {}", known.places)
            }
            Some(_) => Ok(()),
            None => writeln!(out, "too few digits to compare with known ones"),
        }
    }

    fn last_digits(&self) -> &str {
        &self.digits[self.digits.len().saturating_sub(50)..]
    }

    fn total(&self) -> Duration {
        self.phases.iter().map(|phase| phase.time).sum()
    }
}
