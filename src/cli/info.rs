//! `capstan info`.

use std::time::Duration;

use serde_json::json;

use super::{
    exit::Result,
    output::{Ui, bytes_text, table, time_text},
};
use crate::client::{Client, GetInfoResponse};

/// Asks the server what it is.
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
        },
        "load": {
            "bytes_in_flight": load.bytes_in_flight,
            "jobs": load.jobs,
            "store_bytes": load.store_bytes,
            "connections": load.connections,
        },
    })
}

fn as_text(info: &GetInfoResponse) -> String {
    let limits = info.limits.unwrap_or_default();
    let load = info.load.unwrap_or_default();
    let state = if info.draining { ", draining: it refuses new work" } else { "" };
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
    let mut use_ = table(["", "in use", "limit", "of one connection"]);
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
    let (connections, most) = (load.connections.to_string(), limits.connections.to_string());
    use_.add_row(["connections", &connections, &most, ""]);
    text += &format!("\n{devices}\n\n{use_}\n\n");
    text += &format!(
        "largest ntt 2^{}, messages of up to {}, idle senders cut off after {}\n",
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
    fn uptime_for_people() {
        let texts = [7, 307, 11_100, 183_600].map(uptime_text);
        assert_eq!(texts, ["7s", "5m 7s", "3h 5m", "2d 3h"]);
    }
}
