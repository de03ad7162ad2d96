use capstan_gpu::device::{DeviceIdentity, DeviceLimits};

use super::*;
use crate::{
    config::{SettingValues, command},
    doctor::finding::Severity,
};

fn config(flags: &[&str]) -> Config {
    let line = [&["capstand", "--config", "/dev/null"], flags].concat();
    SettingValues::read(&command().get_matches_from(line), []).unwrap().check().unwrap()
}

fn gpu(index: u32) -> SurveyedGpu {
    let identity = DeviceIdentity {
        index,
        name: "NVIDIA H200".to_owned(),
        capability: MajorMinor { major: 9, minor: 0 },
        limits: DeviceLimits::H200,
        memory_bytes: 141 << 30,
        pci_bus_id: String::new(),
    };
    SurveyedGpu { identity, temperature_c: Some(40), ecc_uncorrected: Some(0) }
}

fn driver(gpus: Vec<SurveyedGpu>) -> DriverSurvey {
    let version = MajorMinor { major: 13, minor: 0 };
    let package_version = Some("580.65.06".to_owned());
    DriverSurvey { version, package_version, is_emulated: false, gpus }
}

/// What was found that is not fine, as checks and severities.
fn complaints(
    driver: &DriverSurvey,
    archs: &[&str],
    flags: &[&str],
) -> Vec<(&'static str, Severity)> {
    let findings = findings(driver, archs, &config(flags).cuda).into_iter();
    let complaints = findings.filter(|finding| finding.severity != Severity::Ok);
    complaints.map(|finding| (finding.check, finding.severity)).collect()
}

#[test]
fn a_gpu_with_kernels_is_fine() {
    assert_eq!(complaints(&driver(vec![gpu(0)]), &["80", "90"], &[]), []);
}

#[test]
fn a_program_without_kernels_or_with_those_of_other_gpus_is_a_problem() {
    let both = [("kernels", Severity::Problem), (GPUS, Severity::Problem)];
    assert_eq!(complaints(&driver(vec![gpu(0)]), &[], &[]), both);
    let wrong = complaints(&driver(vec![gpu(0)]), &["100"], &[]);
    assert_eq!(wrong, [(GPUS, Severity::Problem)]);
}

#[test]
fn faulty_hot_and_emulated_gpus_are_reported() {
    let mut faulty = gpu(0);
    faulty.ecc_uncorrected = Some(2);
    let mut hot = gpu(1);
    hot.temperature_c = Some(TEMPERATURE_MAX_C);
    let found = complaints(&driver(vec![faulty, hot]), &["90"], &[]);
    assert_eq!(found, [(GPUS, Severity::Problem), (GPUS, Severity::Warning)]);
    let emulated = DriverSurvey { is_emulated: true, ..driver(vec![gpu(0)]) };
    assert_eq!(complaints(&emulated, &[], &[]), [(DRIVER, Severity::Warning)]);
}

#[test]
fn only_configured_gpus_are_checked_and_must_exist() {
    let mut faulty = gpu(0);
    faulty.ecc_uncorrected = Some(1);
    let driver = driver(vec![faulty, gpu(1)]);
    assert_eq!(complaints(&driver, &["90"], &["--cuda-devices", "1"]), []);
    let missing = complaints(&driver, &["90"], &["--cuda-devices", "1,2"]);
    assert_eq!(missing, [(GPUS, Severity::Problem)]);
    let too_few = complaints(&driver, &["90"], &["--cuda-devices", "1", "--cuda-devices-min", "1"]);
    assert_eq!(too_few, []);
    let flags = ["--cuda-devices-min", "3"];
    let too_few = complaints(&driver, &["90"], &flags);
    assert_eq!(too_few, [(GPUS, Severity::Problem), (GPUS, Severity::Problem)]);
}

#[test]
fn kernels_serve_later_minor_versions_and_later_devices_than_the_newest() {
    let serve = |archs: &[&str], major, minor| archs_serve(archs, MajorMinor { major, minor });
    assert!(serve(&["80"], 8, 6) && !serve(&["86", "90"], 8, 0));
    assert!(serve(&["80", "90"], 9, 0) && serve(&["80", "90"], 10, 0));
    assert!(!serve(&["80", "100"], 9, 0) && serve(&["120"], 12, 1) && !serve(&[], 9, 0));
}

#[test]
fn a_host_without_a_driver_needs_one_only_for_engine_cuda() {
    // Only a host with a GPU misses the driver.
    let none = GpuUnavailable::NoDriver("libcuda.so.1: not found".to_owned());
    let expected = if none.is_on_a_gpu_host() { Severity::Problem } else { Severity::Ok };
    assert_eq!(no_gpu(&none, &config(&[])).severity, expected);
    assert_eq!(no_gpu(&none, &config(&["--engine", "cuda"])).severity, Severity::Problem);
    let min = config(&["--cuda-devices-min", "1"]);
    assert_eq!(no_gpu(&none, &min).severity, Severity::Problem);
    let broken = GpuUnavailable::DriverInit("CUDA_ERROR_SYSTEM_NOT_READY (802)".to_owned());
    let finding = no_gpu(&broken, &config(&[]));
    assert_eq!(finding.severity, Severity::Problem);
    assert!(finding.fix.unwrap().contains("nvidia-fabricmanager"));
}

#[tokio::test]
async fn engine_cpu_asks_no_driver() {
    let config = config(&["--engine", "cpu", "--cuda-driver", "/nowhere/libcuda.so"]);
    assert!(check(&config).await.iter().all(|finding| finding.severity == Severity::Ok));
}
