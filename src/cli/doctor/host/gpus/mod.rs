//! Whether the driver, the GPUs and the kernels of this program suit each other.

use std::time::Duration;

use capstan_gpu::device::{DriverSurvey, GpuUnavailable, MajorMinor, SurveyedGpu, archs, survey};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    config::{Config, CudaSettings, EngineChoice},
    doctor::{finding::DoctorFinding, server_answer::TEMPERATURE_MAX_C},
    output::bytes_text,
};

const DRIVER: &str = "cuda_driver";
const GPUS: &str = "gpus";
/// A driver answers within a second; one that hangs does not answer at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn check(config: &Config) -> Vec<DoctorFinding> {
    if config.engine == EngineChoice::Cpu {
        return vec![DoctorFinding::ok(GPUS, "not checked: engine = cpu uses none")];
    }
    let path = config.cuda.driver.clone();
    let asked = timeout(ANSWER_TIMEOUT, spawn_blocking(move || survey(path.as_deref()))).await;
    let Ok(Ok(surveyed)) = asked else {
        let found = "the CUDA driver does not answer";
        let fix = "see `dmesg` for lines with NVRM or Xid, and restart the host";
        return vec![DoctorFinding::problem(DRIVER, found, fix)];
    };
    match surveyed {
        Ok(driver) => findings(&driver, archs(), &config.cuda),
        Err(unavailable) => vec![no_gpu(&unavailable, config)],
    }
}

fn no_gpu(unavailable: &GpuUnavailable, config: &Config) -> DoctorFinding {
    let is_required = config.engine == EngineChoice::Cuda || config.cuda.devices_min > 0;
    if !is_required && !unavailable.is_on_a_gpu_host() {
        return DoctorFinding::ok(GPUS, format!("{unavailable}: the CPU computes"));
    }
    DoctorFinding::problem(DRIVER, unavailable.to_string(), advice(unavailable))
}

fn advice(unavailable: &GpuUnavailable) -> &'static str {
    match unavailable {
        GpuUnavailable::NoDriver(_) => {
            "install NVIDIA's driver, or set cuda_driver; for a container, NVIDIA's container \
             toolkit provides it with the capability `compute`"
        }
        GpuUnavailable::OtherDriver(_) => "unset cuda_driver, so that the system's is used",
        GpuUnavailable::DriverInit(error) if error.contains("SYSTEM_DRIVER_MISMATCH") => {
            "restart the host: library and kernel module of the driver have different versions"
        }
        GpuUnavailable::DriverInit(error) if error.contains("SYSTEM_NOT_READY") => {
            "start the service nvidia-fabricmanager, whose version must be the driver's"
        }
        GpuUnavailable::DriverInit(_) => {
            "load the modules (`nvidia-modprobe -u -c 0`), and see `dmesg` for lines with NVRM"
        }
        GpuUnavailable::TooOld { .. } => "install a driver that supports this version of CUDA",
        GpuUnavailable::NoDevice => {
            "see `nvidia-smi -L`, the variable CUDA_VISIBLE_DEVICES, and whether this user may \
             open /dev/nvidia*; with MIG, make compute instances"
        }
        _ => "see `dmesg` for lines with NVRM or Xid",
    }
}

fn findings(driver: &DriverSurvey, archs: &[&str], settings: &CudaSettings) -> Vec<DoctorFinding> {
    let package = driver.package_version.as_ref().map_or(String::new(), |v| format!(" {v}"));
    let found = format!("driver{package} supports CUDA {}", driver.version);
    let mut findings = vec![if driver.is_emulated {
        let fix = "unset cuda_driver: the emulated driver is for tests";
        DoctorFinding::warning(DRIVER, format!("{found}, emulated by the CPU"), fix)
    } else {
        DoctorFinding::ok(DRIVER, found)
    }];
    if !driver.is_emulated {
        findings.push(kernels(archs));
    }
    let is_chosen = |gpu: &&SurveyedGpu| {
        settings.devices.is_empty() || settings.devices.contains(&gpu.identity.index)
    };
    let serves =
        |gpu: &SurveyedGpu| driver.is_emulated || archs_serve(archs, gpu.identity.capability);
    let chosen: Vec<_> = driver.gpus.iter().filter(is_chosen).collect();
    let usable = chosen.iter().filter(|gpu| serves(gpu)).count();
    findings.extend(chosen.iter().map(|gpu| gpu_finding(gpu, serves(gpu))));
    findings.extend(missing(driver.gpus.len(), settings));
    if usable < settings.devices_min as usize {
        let needed = settings.devices_min;
        let found = format!("{usable} GPUs can be used, cuda_devices_min is {needed}");
        findings.push(DoctorFinding::problem(
            GPUS,
            found,
            "lower cuda_devices_min, or repair the GPUs",
        ));
    }
    findings
}

/// A finding for each configured device that does not exist.
fn missing(count: usize, settings: &CudaSettings) -> impl Iterator<Item = DoctorFinding> + '_ {
    settings.devices.iter().filter(move |index| **index as usize >= count).map(move |index| {
        let found = format!("cuda_devices names GPU {index}, the driver reports {count}");
        DoctorFinding::problem(GPUS, found, "correct cuda_devices: `nvidia-smi -L` lists the GPUs")
    })
}

fn kernels(archs: &[&str]) -> DoctorFinding {
    const CHECK: &str = "kernels";
    if archs.is_empty() {
        return DoctorFinding::problem(
            CHECK,
            "this program is built without kernels for GPUs",
            "build it with nvcc: `deploy/build` installs it",
        );
    }
    DoctorFinding::ok(CHECK, format!("built for compute capabilities {}", archs.join(", ")))
}

/// Whether a device of this compute capability runs code for `archs`, such as "90": machine code
/// runs on later minor versions, and the PTX of the newest runs on all later devices.
fn archs_serve(archs: &[&str], capability: MajorMinor) -> bool {
    let version = |arch: &&str| {
        let number: u32 = arch.parse().ok()?;
        Some(MajorMinor { major: number / 10, minor: number % 10 })
    };
    let mut versions: Vec<_> = archs.iter().filter_map(version).collect();
    versions.sort_unstable();
    let runs = |built: &MajorMinor| built.major == capability.major && *built <= capability;
    versions.iter().any(runs) || versions.last().is_some_and(|newest| *newest <= capability)
}

fn gpu_finding(gpu: &SurveyedGpu, is_served: bool) -> DoctorFinding {
    let SurveyedGpu { identity, temperature_c, ecc_uncorrected } = gpu;
    let mig = if identity.name.contains("MIG") { ", a MIG instance" } else { "" };
    let found = format!(
        "gpu {}: {}{mig}, compute capability {}, {}",
        identity.index,
        identity.name,
        identity.capability,
        bytes_text(identity.memory_bytes)
    );
    match (temperature_c, ecc_uncorrected) {
        _ if !is_served => DoctorFinding::problem(
            GPUS,
            format!("{found}: the kernels are built for other GPUs"),
            "build with CAPSTAN_CUDA_ARCHS=all; GPUs need compute capability 8.0 or later",
        ),
        (_, Some(errors @ 1..)) => DoctorFinding::problem(
            GPUS,
            format!("{found}: {errors} memory errors could not be corrected"),
            "reset the GPU (`nvidia-smi --gpu-reset`); if errors come back, replace it",
        ),
        (Some(degrees), _) if *degrees >= TEMPERATURE_MAX_C => DoctorFinding::warning(
            GPUS,
            format!("{found}: {degrees} C"),
            "check the cooling: a hot GPU lowers its clocks",
        ),
        _ => DoctorFinding::ok(GPUS, found),
    }
}

#[cfg(test)]
mod tests;
