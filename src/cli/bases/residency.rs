//! `capstan bases warm`, `pin`, `unpin` and `evict`.

use clap::Args;
use serde_json::{Value, json};

use super::lookup::find;
use crate::{
    client::{BasesInfo, BasesResidency, Client, ResidencyAction},
    exit::Result,
    output::{Ui, bytes_text, table},
};

#[derive(Debug, Args)]
pub struct ResidencyArgs {
    /// Ids of the bases, prefixes of them, or labels
    #[arg(required = true)]
    bases: Vec<String>,
    /// Number of a GPU, as `capstan info` shows it; can be repeated. Default: all GPUs that serve
    #[arg(long, value_name = "NUMBER")]
    device: Vec<u32>,
}

/// Bases with what the devices hold of them after a change.
struct ChangedBases {
    info: BasesInfo,
    devices: Vec<BasesResidency>,
}

pub async fn run(
    ui: Ui,
    client: &Client,
    action: ResidencyAction,
    args: &ResidencyArgs,
) -> Result<()> {
    // Look up all names first: a typo in one name must not change the others.
    let mut all = Vec::with_capacity(args.bases.len());
    for name in &args.bases {
        all.push(find(client, name).await?);
    }
    let mut changed = Vec::with_capacity(all.len());
    for info in all {
        let devices = client.set_residency(info.id, action, &args.device).await?;
        changed.push(ChangedBases { info, devices });
    }
    if ui.json {
        let of_bases = |ChangedBases { info, devices }: &ChangedBases| {
            let id = info.id.to_string();
            json!({ "id": id, "devices": as_json(devices) })
        };
        return ui.print_json(&changed.iter().map(of_bases).collect::<Value>());
    }
    if changed.iter().all(|changed| changed.devices.is_empty()) {
        ui.note("the server has no GPU that serves: nothing was done");
        return Ok(());
    }
    let mut rows = table(["id", "gpu", "size", "tables", "pinned"]);
    for ChangedBases { info, devices } in &changed {
        for BasesResidency { device, bytes, tables, pinned } in devices {
            let (id, device, size) = (info.id.to_string(), device.to_string(), bytes_text(*bytes));
            let pinned = if *pinned { "yes" } else { "no" };
            rows.add_row([&id, &device, &size, &tables.to_string(), pinned]);
        }
    }
    ui.print(&format!("{rows}\n"))
}

pub fn as_json(devices: &[BasesResidency]) -> Value {
    let of_device = |held: &BasesResidency| {
        json!({
            "device": held.device, "bytes": held.bytes, "tables": held.tables,
            "pinned": held.pinned,
        })
    };
    devices.iter().map(of_device).collect()
}

/// `0: 96 MiB, 1: 1.5 GiB pinned, 2: no answer`.
pub fn as_text(devices: &[BasesResidency], unknown: &[u32]) -> String {
    let of_device = |held: &BasesResidency| {
        let pinned = if held.pinned { " pinned" } else { "" };
        format!("{}: {}{pinned}", held.device, bytes_text(held.bytes))
    };
    let unknown = unknown.iter().map(|device| format!("{device}: no answer"));
    devices.iter().map(of_device).chain(unknown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_gpu_with_its_bytes() {
        let on = |device, bytes, pinned| BasesResidency { device, bytes, tables: 1, pinned };
        assert_eq!(as_text(&[], &[]), "");
        let all = [on(0, 96 << 20, false), on(2, 3 << 29, true)];
        assert_eq!(as_text(&all, &[]), "0: 96 MiB, 2: 1.5 GiB pinned");
        assert_eq!(as_text(&all[..1], &[1]), "0: 96 MiB, 1: no answer");
    }
}
