//! `capstan info`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    exit::Result,
    output::{Ui, bytes_text, table, time_text},
};
use crate::client::{Caller, Client, GetInfoResponse, Gpu, MsmPlan};

/// A JSON object with these fields of a message.
macro_rules! fields {
    ($message:expr; $($field:ident),+) => {
        json!({ $((stringify!($field)): $message.$field),+ })
    };
}

pub async fn run(ui: Ui, client: &Client) -> Result<()> {
    let info = client.info().await?;
    if ui.json { ui.print_json(&as_json(&info)) } else { ui.print(&as_text(&info)) }
}

fn as_json(info: &GetInfoResponse) -> Value {
    let devices = info.devices.iter().map(|device| {
        let mut report = fields!(device; name, kind, units, memory_bytes);
        report["gpu"] = device.gpu.as_ref().map(gpu_json).into();
        report
    });
    let (limits, load) = (info.limits.unwrap_or_default(), info.load.unwrap_or_default());
    let mut report = fields!(info; version, engine, engine_reason, uptime_s, draining);
    report["devices"] = devices.collect();
    report["caller"] = info.caller.as_ref().map(|caller| fields!(caller; subject, tenant)).into();
    report["limits"] = fields!(limits; message_payload_bytes, bytes_in_flight,
        connection_bytes_in_flight, jobs, connection_jobs, store_bytes, ntt_lg_n, idle_timeout_ms,
        peer_bytes_per_second, connections, objects, region_bytes, program_time_s);
    report["load"] =
        fields!(load; bytes_in_flight, jobs, store_bytes, connections, objects, region_bytes);
    report
}

fn gpu_json(gpu: &Gpu) -> Value {
    let mut report = fields!(gpu; index, capability, driver_version, cuda_version, emulated,
        kernel_archs, self_test, arena_bytes, arena_free_bytes, clock_mhz, clock_max_mhz,
        memory_clock_mhz, temperature_c, power_mw, ecc, ecc_uncorrected);
    report["msm_plans"] = gpu.msm_plans.iter().map(plan_json).collect();
    report
}

fn plan_json(plan: &MsmPlan) -> Value {
    let mut report = fields!(plan; lg_n, uses, plan, window_bits, tables, table_bytes);
    report["group"] = group_name(plan).into();
    report
}

/// `g1` for `GROUP_G1`.
fn group_name(plan: &MsmPlan) -> String {
    plan.group().as_str_name().trim_start_matches("GROUP_").to_lowercase()
}

fn plans_text(gpu: &Gpu) -> String {
    if gpu.msm_plans.is_empty() {
        return String::new();
    }
    let mut plans = table(["bases", "from use", "msm plan", "device memory"]);
    for plan in &gpu.msm_plans {
        let bases = format!("{} 2^{}", group_name(plan), plan.lg_n);
        plans.add_row([&bases, &plan.uses.to_string(), &plan.plan, &bytes_text(plan.table_bytes)]);
    }
    format!(
        "\nplans for bases resident on gpu {}, assuming nothing else uses it\n{plans}\n",
        gpu.index
    )
}

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
    let (limits, load) = (info.limits.unwrap_or_default(), info.load.unwrap_or_default());
    let state = if info.draining { ", draining: new work is refused" } else { "" };
    let mut text = format!(
        "capstand {}, up {}{state}\nengine {}: {}\n",
        info.version,
        uptime_text(info.uptime_s),
        info.engine,
        info.engine_reason
    );
    if let Some(Caller { subject, tenant }) = &info.caller {
        text += &format!("caller {subject}, tenant {tenant}\n");
    }
    let mut devices = table(["device", "kind", "units", "memory"]);
    for device in &info.devices {
        let memory = bytes_text(device.memory_bytes);
        devices.add_row([&device.name, &device.kind, &device.units.to_string(), &memory]);
    }
    let mut usage = table(["", "in use", "limit", "limit per connection"]);
    let mut add_row = |name: &str, in_use, limit, connection_limit| {
        usage.add_row([name.to_owned(), in_use, limit, connection_limit]);
    };
    let bytes = bytes_text;
    let count = |n: u32| n.to_string();
    let none = String::new;
    let connection_bytes = bytes(limits.connection_bytes_in_flight);
    let [in_flight, in_flight_max] = [load.bytes_in_flight, limits.bytes_in_flight].map(bytes);
    add_row("bytes in flight", in_flight, in_flight_max, connection_bytes);
    add_row("jobs", count(load.jobs), count(limits.jobs), count(limits.connection_jobs));
    add_row("store", bytes(load.store_bytes), bytes(limits.store_bytes), none());
    add_row("shared memory", bytes(load.region_bytes), bytes(limits.region_bytes), none());
    add_row("objects", count(load.objects), count(limits.objects), none());
    add_row("connections", count(load.connections), count(limits.connections), none());
    text += &format!("\n{devices}\n");
    let gpus = || info.devices.iter().filter_map(|device| device.gpu.as_ref());
    text.extend(gpus().map(gpu_details));
    text.extend(gpus().map(plans_text));
    text += &format!("\n{usage}\n\n");
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
