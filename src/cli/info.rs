//! `capstan info`.

use std::time::Duration;

use serde_json::json;

use super::{
    exit::Result,
    output::{Ui, bytes_text, table, time_text},
};
use crate::client::{Client, GetInfoResponse, Gpu, MsmPlan};

pub async fn run(ui: Ui, client: &Client) -> Result<()> {
    let info = client.info().await?;
    if ui.json { ui.print_json(&as_json(&info)) } else { ui.print(&as_text(&info)) }
}

fn as_json(info: &GetInfoResponse) -> serde_json::Value {
    let devices: Vec<_> = info
        .devices
        .iter()
        .map(|device| {
            json!({
                "name": device.name, "kind": device.kind, "units": device.units,
                "memory_bytes": device.memory_bytes,
                "gpu": device.gpu.as_ref().map(gpu_json),
            })
        })
        .collect();
    let limits = info.limits.unwrap_or_default();
    let load = info.load.unwrap_or_default();
    json!({
        "version": info.version,
        "engine": info.engine,
        "engine_reason": info.engine_reason,
        "uptime_s": info.uptime_s,
        "draining": info.draining,
        "devices": devices,
        "limits": {
            "message_payload_bytes": limits.message_payload_bytes,
            "bytes_in_flight": limits.bytes_in_flight,
            "connection_bytes_in_flight": limits.connection_bytes_in_flight,
            "jobs": limits.jobs,
            "connection_jobs": limits.connection_jobs,
            "store_bytes": limits.store_bytes,
            "ntt_lg_n": limits.ntt_lg_n,
            "idle_timeout_ms": limits.idle_timeout_ms,
            "connections": limits.connections,
            "objects": limits.objects,
        },
        "load": {
            "bytes_in_flight": load.bytes_in_flight,
            "jobs": load.jobs,
            "store_bytes": load.store_bytes,
            "connections": load.connections,
            "objects": load.objects,
        },
    })
}

fn gpu_json(gpu: &Gpu) -> serde_json::Value {
    json!({
        "index": gpu.index, "capability": gpu.capability, "driver_version": gpu.driver_version,
        "cuda_version": gpu.cuda_version, "emulated": gpu.emulated,
        "kernel_archs": gpu.kernel_archs, "self_test": gpu.self_test,
        "arena_bytes": gpu.arena_bytes, "arena_free_bytes": gpu.arena_free_bytes,
        "clock_mhz": gpu.clock_mhz, "clock_max_mhz": gpu.clock_max_mhz,
        "memory_clock_mhz": gpu.memory_clock_mhz, "temperature_c": gpu.temperature_c,
        "power_mw": gpu.power_mw, "ecc": gpu.ecc, "ecc_uncorrected": gpu.ecc_uncorrected,
        "msm_plans": gpu.msm_plans.iter().map(plan_json).collect::<Vec<_>>(),
    })
}

fn plan_json(plan: &MsmPlan) -> serde_json::Value {
    json!({
        "group": group_name(plan), "lg_n": plan.lg_n, "uses": plan.uses, "plan": plan.plan,
        "window_bits": plan.window_bits, "tables": plan.tables, "table_bytes": plan.table_bytes,
    })
}

/// `g1` for `GROUP_G1`.
fn group_name(plan: &MsmPlan) -> String {
    plan.group().as_str_name().trim_start_matches("GROUP_").to_lowercase()
}

/// The MSM plans by size and by how often the bases were used.
fn plans_text(gpu: &Gpu) -> String {
    if gpu.msm_plans.is_empty() {
        return String::new();
    }
    let mut plans = table(["bases", "from use", "msm plan", "device memory"]);
    for plan in &gpu.msm_plans {
        let bases = format!("{} 2^{}", group_name(plan), plan.lg_n);
        plans.add_row([&bases, &plan.uses.to_string(), &plan.plan, &bytes_text(plan.table_bytes)]);
    }
    format!("\nplans for bases resident on gpu {}, if nothing else uses it\n{plans}\n", gpu.index)
}

/// One line of details that are not in the table of devices.
fn gpu_details(gpu: &Gpu) -> String {
    let emulated = if gpu.emulated { ", emulated" } else { "" };
    let driver = gpu.driver_version.as_ref().map_or(String::new(), |v| format!(", driver {v}"));
    let mut text = format!(
        "gpu {}: compute capability {}, cuda {}{driver}{emulated}; kernels for {}; self-test {}; \
         {} for jobs",
        gpu.index,
        gpu.capability,
        gpu.cuda_version,
        if gpu.kernel_archs.is_empty() { "no gpu".into() } else { gpu.kernel_archs.join(", ") },
        gpu.self_test,
        bytes_text(gpu.arena_bytes),
    );
    let facts = [
        gpu.clock_mhz.map(|mhz| format!("{mhz} MHz")),
        gpu.temperature_c.map(|degrees| format!("{degrees} C")),
        gpu.power_mw.map(|mw| format!("{} W", mw / 1000)),
        gpu.ecc.map(|on| if on { "ecc on".into() } else { "ecc off".into() }),
        gpu.ecc_uncorrected.map(|errors| format!("{errors} memory errors")),
    ];
    for fact in facts.into_iter().flatten() {
        text += &format!(", {fact}");
    }
    text + "\n"
}

fn as_text(info: &GetInfoResponse) -> String {
    let limits = info.limits.unwrap_or_default();
    let load = info.load.unwrap_or_default();
    let state = if info.draining { ", draining: new work is refused" } else { "" };
    let mut text = format!(
        "capstand {}, up {}{state}\nengine {}: {}\n",
        info.version,
        uptime_text(info.uptime_s),
        info.engine,
        info.engine_reason
    );
    let mut devices = table(["device", "kind", "units", "memory"]);
    for device in &info.devices {
        let memory = bytes_text(device.memory_bytes);
        devices.add_row([&device.name, &device.kind, &device.units.to_string(), &memory]);
    }
    let mut use_ = table(["", "in use", "limit", "limit per connection"]);
    let connection_bytes = bytes_text(limits.connection_bytes_in_flight);
    use_.add_row([
        "bytes in flight",
        &bytes_text(load.bytes_in_flight),
        &bytes_text(limits.bytes_in_flight),
        &connection_bytes,
    ]);
    let connection_jobs = limits.connection_jobs.to_string();
    use_.add_row(["jobs", &load.jobs.to_string(), &limits.jobs.to_string(), &connection_jobs]);
    let (stored, store) = (bytes_text(load.store_bytes), bytes_text(limits.store_bytes));
    use_.add_row(["store", &stored, &store, ""]);
    use_.add_row(["objects", &load.objects.to_string(), &limits.objects.to_string(), ""]);
    let (connections, most) = (load.connections.to_string(), limits.connections.to_string());
    use_.add_row(["connections", &connections, &most, ""]);
    text += &format!("\n{devices}\n");
    for gpu in info.devices.iter().filter_map(|device| device.gpu.as_ref()) {
        text += &gpu_details(gpu);
    }
    for gpu in info.devices.iter().filter_map(|device| device.gpu.as_ref()) {
        text += &plans_text(gpu);
    }
    text += &format!("\n{use_}\n\n");
    text += &format!(
        "largest ntt 2^{}, message payloads up to {}, idle senders cut off after {}\n",
        limits.ntt_lg_n,
        bytes_text(limits.message_payload_bytes),
        time_text(Duration::from_millis(limits.idle_timeout_ms)),
    );
    text
}

/// `2d 3h`, `3h 5m`, `5m 7s`, `7s`.
fn uptime_text(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::uptime_text;

    #[test]
    fn formats_uptimes() {
        let texts = [7, 307, 11_100, 183_600].map(uptime_text);
        assert_eq!(texts, ["7s", "5m 7s", "3h 5m", "2d 3h"]);
    }
}
