//! Whether the server answers this client, and what its answer says about it.

use std::time::Duration;

use super::finding::DoctorFinding;
use crate::{
    args::GlobalArgs,
    client::{GetInfoResponse, Gpu},
    exit::{CliFailure, Result},
    output::bytes_text,
};

/// Time for an answer, unless `--deadline` allows another one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Data-center GPUs lower their clocks at about this temperature.
pub const TEMPERATURE_MAX_C: u32 = 88;
/// A limit of which this part is used will soon refuse calls.
const NEARLY_FULL_PERCENT: u128 = 90;
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub async fn check(global: &GlobalArgs) -> Vec<DoctorFinding> {
    match ask(global).await {
        Ok(info) => findings(&global.server, &info),
        Err(failure) => vec![unanswered(&global.server, &failure)],
    }
}

async fn ask(global: &GlobalArgs) -> Result<GetInfoResponse> {
    let mut builder = global.client_builder()?.retries(0);
    if global.deadline.is_none() {
        builder = builder.deadline(ANSWER_TIMEOUT);
    }
    Ok(builder.connect().await?.info().await?)
}

fn unanswered(target: &str, failure: &CliFailure) -> DoctorFinding {
    DoctorFinding::problem(
        "server",
        format!("{target} does not serve this client"),
        &failure.message,
    )
}

fn findings(target: &str, info: &GetInfoResponse) -> Vec<DoctorFinding> {
    let caller = info.caller.as_ref().map_or(String::new(), |caller| {
        format!("; caller {}, tenant {}", caller.subject, caller.tenant)
    });
    let GetInfoResponse { version, engine, engine_reason, .. } = info;
    let found = format!("{target} is capstand {version}, engine {engine}: {engine_reason}{caller}");
    let mut findings = vec![DoctorFinding::ok("server", found)];
    findings.push(version_finding(version));
    if info.draining {
        findings.push(DoctorFinding::warning(
            "server",
            "it is draining: it refuses new work",
            "wait until it has been restarted",
        ));
    }
    findings.extend(info.devices.iter().filter_map(|device| device.gpu.as_ref()).map(gpu_finding));
    findings.push(load_finding(info));
    findings
}

/// Versions with the same first two numbers work together.
fn version_finding(server: &str) -> DoctorFinding {
    let release = |version: &str| version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    if release(server) == release(VERSION) {
        return DoctorFinding::ok("version", format!("server {server}, capstan {VERSION}"));
    }
    DoctorFinding::warning(
        "version",
        format!("the server has version {server}, this program {VERSION}"),
        "install the same version on both hosts",
    )
}

fn gpu_finding(gpu: &Gpu) -> DoctorFinding {
    const CHECK: &str = "server_gpu";
    let index = gpu.index;
    match (gpu.ecc_uncorrected, gpu.temperature_c) {
        (Some(errors @ 1..), _) => DoctorFinding::problem(
            CHECK,
            format!("gpu {index} had {errors} memory errors that could not be corrected"),
            "drain the server and reset the GPU (`nvidia-smi --gpu-reset`); if errors come back, \
             replace it",
        ),
        (_, Some(degrees)) if degrees >= TEMPERATURE_MAX_C => DoctorFinding::warning(
            CHECK,
            format!("gpu {index} has {degrees} C"),
            "check the cooling: a hot GPU lowers its clocks",
        ),
        _ if gpu.emulated => DoctorFinding::warning(
            CHECK,
            format!("gpu {index} is emulated by the CPU"),
            "unset cuda_driver: the emulated driver is for tests",
        ),
        _ => DoctorFinding::ok(CHECK, format!("gpu {index}: self-test {}", gpu.self_test)),
    }
}

/// A limit, its setting, and how much of it is in use.
struct Usage {
    setting: &'static str,
    used: u64,
    limit: u64,
    text: fn(u64) -> String,
}

fn load_finding(info: &GetInfoResponse) -> DoctorFinding {
    let (limits, load) = (info.limits.unwrap_or_default(), info.load.unwrap_or_default());
    let number = |n: u64| n.to_string();
    let usage = |setting, used: u64, limit: u64, text: fn(u64) -> String| Usage {
        setting,
        used,
        limit,
        text,
    };
    let usages = [
        usage("connections_max", load.connections.into(), limits.connections.into(), number),
        usage("jobs_max", load.jobs.into(), limits.jobs.into(), number),
        usage("objects_max", load.objects.into(), limits.objects.into(), number),
        usage("bytes_in_flight_max", load.bytes_in_flight, limits.bytes_in_flight, bytes_text),
        usage("store_bytes_max", load.store_bytes, limits.store_bytes, bytes_text),
    ];
    let full: Vec<_> = usages.iter().filter(|usage| is_nearly_full(usage)).collect();
    if full.is_empty() {
        return DoctorFinding::ok("server_load", "no limit is nearly reached");
    }
    let text = |usage: &&Usage| {
        let Usage { setting, used, limit, text } = usage;
        format!("{} of {setting} = {}", text(*used), text(*limit))
    };
    let found = full.iter().map(text).collect::<Vec<_>>().join(", ");
    DoctorFinding::warning(
        "server_load",
        format!("nearly full: {found}"),
        "raise the setting, add a server, or remove objects with `capstan bases rm`",
    )
}

fn is_nearly_full(usage: &Usage) -> bool {
    usage.limit > 0 && u128::from(usage.used) * 100 >= u128::from(usage.limit) * NEARLY_FULL_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{doctor::finding::Severity, exit::Exit};

    #[test]
    fn a_server_without_an_answer_is_a_problem_with_advice() {
        let failure = CliFailure::new(Exit::Unavailable, "start it");
        let finding = unanswered("http://x", &failure);
        assert_eq!(finding.severity, Severity::Problem);
        assert_eq!(finding.fix.as_deref(), Some("start it"));
    }

    #[test]
    fn a_server_of_another_release_is_reported() {
        assert_eq!(version_finding(VERSION).severity, Severity::Ok);
        assert_eq!(version_finding("99.0.0").severity, Severity::Warning);
        let (release, _) = VERSION.rsplit_once('.').unwrap();
        assert_eq!(version_finding(&format!("{release}.99")).severity, Severity::Ok);
    }

    #[test]
    fn memory_errors_heat_and_emulation_of_a_gpu_are_reported() {
        let severity = |gpu: Gpu| gpu_finding(&gpu).severity;
        assert_eq!(severity(Gpu::default()), Severity::Ok);
        let hot = Gpu { temperature_c: Some(TEMPERATURE_MAX_C), ..Gpu::default() };
        assert_eq!(severity(hot), Severity::Warning);
        let cool = Gpu { temperature_c: Some(50), ecc_uncorrected: Some(0), ..Gpu::default() };
        assert_eq!(severity(cool), Severity::Ok);
        assert_eq!(severity(Gpu { emulated: true, ..Gpu::default() }), Severity::Warning);
        let faulty = Gpu { ecc_uncorrected: Some(1), ..Gpu::default() };
        assert_eq!(severity(faulty), Severity::Problem);
    }

    #[test]
    fn limits_that_are_nearly_reached_are_named() {
        let mut info = GetInfoResponse::default();
        assert_eq!(load_finding(&info).severity, Severity::Ok);
        let (mut limits, mut load) =
            (info.limits.unwrap_or_default(), info.load.unwrap_or_default());
        (limits.jobs, load.jobs) = (10, 9);
        (limits.objects, load.objects) = (10, 8);
        (info.limits, info.load) = (Some(limits), Some(load));
        let finding = load_finding(&info);
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.found, "nearly full: 9 of jobs_max = 10");
    }

    #[test]
    fn a_draining_server_is_reported() {
        let info = GetInfoResponse { draining: true, ..GetInfoResponse::default() };
        let findings = findings("http://x", &info);
        assert!(findings.iter().any(|finding| finding.found.contains("draining")));
    }
}
