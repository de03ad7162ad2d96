//! Digits of pi by the example program `pi`, which is a client of the daemon.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

/// The example program, and the server that it calls.
pub struct PiProgram {
    pub path: String,
    pub server: String,
}

impl PiProgram {
    /// Measures `digits` digits: the whole computation, as the program reports it, and each phase.
    pub fn measure(&self, digits: u64, runs: ProofRuns, record: &ProofRecord) {
        println!("{digits} digits of pi");
        let (mut total, mut phases) = (Samples::default(), Vec::<PhaseTimes>::new());
        for run in 0..runs.all() {
            let report = self.run(digits);
            if run < runs.warm_up {
                continue;
            }
            total.0.push(seconds(&report));
            let reported = report["phases"].as_array().expect("phases");
            phases.resize_with(reported.len(), PhaseTimes::default);
            for (phase, reported) in phases.iter_mut().zip(reported) {
                phase.add(reported);
            }
        }
        let mode = record.on_devices("device".to_owned());
        record.add_digits("pi", &mode, digits, &total);
        println!("    phases: median, minimum; of them on the server");
        for PhaseTimes { name, all, on_server } in &phases {
            let [all, on_server] = [all, on_server].map(|times| match times.0.is_empty() {
                true => String::new(),
                false => {
                    let [median, min] =
                        [times.median(), times.min()].map(|time| time.as_secs_f64());
                    format!("{median:10.4} {min:10.4} s")
                }
            });
            println!("    {name:12} {all} {on_server}");
        }
    }

    /// The report of one run, whose digits are equal to known ones.
    fn run(&self, digits: u64) -> Value {
        let mut command = Command::new(&self.path);
        command.args([&digits.to_string(), "--json", "--server", &self.server]);
        let output = command.stderr(Stdio::inherit()).output().expect("pi_program is a program");
        assert!(output.status.success(), "{command:?} failed");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report in JSON");
        assert!(report["digits"] == digits, "another number of digits");
        assert!(report["is_equal"] == true, "wrong digits, or too few to compare: {report}");
        assert!(report["compared_places"] == digits, "the last digits are not known: {report}");
        report
    }
}

/// The times of a phase: as the client sees them, and of its program on the server, if it has one.
#[derive(Default)]
struct PhaseTimes {
    name: String,
    all: Samples,
    on_server: Samples,
}

impl PhaseTimes {
    fn add(&mut self, reported: &Value) {
        reported["name"].as_str().expect("a name").clone_into(&mut self.name);
        self.all.0.push(seconds(reported));
        if let Some(time) = reported["server_seconds"].as_f64() {
            self.on_server.0.push(Duration::from_secs_f64(time));
        }
    }
}

fn seconds(reported: &Value) -> Duration {
    Duration::from_secs_f64(reported["seconds"].as_f64().expect("seconds"))
}
