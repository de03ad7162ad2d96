//! `capstan bases`: manages points on the server.

mod export;
mod import;

use clap::Subcommand;
use serde_json::{Value, json};

use self::{export::ExportArgs, import::ImportArgs};
use super::{
    args::GroupArg,
    exit::{CliFailure, Exit, Result},
    output::{Ui, bytes_text, table},
};
use crate::client::{BasesId, BasesInfo, Client};

#[derive(Debug, Subcommand)]
pub enum BasesCommand {
    /// Send the points of a file to the server, which checks them, and print their ids
    Import(ImportArgs),
    /// List the bases on the server
    List {
        /// List only bases of this group
        #[arg(long)]
        group: Option<GroupArg>,
    },
    /// Show the metadata of bases
    Show {
        /// Id of the bases, a prefix of it, or their label
        bases: String,
    },
    /// Remove bases; running jobs keep the bases that they use
    Rm {
        /// Ids of the bases, prefixes of them, or labels
        #[arg(required = true)]
        bases: Vec<String>,
    },
    /// Write the points of bases to a file
    Export(ExportArgs),
}

pub async fn run(ui: Ui, client: &Client, command: &BasesCommand) -> Result<()> {
    match command {
        BasesCommand::Import(args) => import::run(ui, client, args).await,
        BasesCommand::Export(args) => export::run(ui, client, args).await,
        BasesCommand::List { group } => list(ui, client, *group).await,
        BasesCommand::Show { bases } => {
            let info = find(client, bases).await?;
            if ui.json { ui.print_json(&as_json(&info)) } else { ui.print(&as_text(&info)) }
        }
        BasesCommand::Rm { bases } => remove(ui, client, bases).await,
    }
}

async fn list(ui: Ui, client: &Client, group: Option<GroupArg>) -> Result<()> {
    let all = client.list(group.map(Into::into)).await?;
    if ui.json {
        return ui.print_json(&Value::Array(all.iter().map(as_json).collect()));
    }
    if all.is_empty() {
        ui.note("no bases: import some with `capstan bases import`");
        return Ok(());
    }
    ui.print(&list_table(&all))
}

async fn remove(ui: Ui, client: &Client, names: &[String]) -> Result<()> {
    // Look up all names first: a typo in one name must not remove the others.
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(find(client, name).await?.id);
    }
    ids.sort_unstable();
    ids.dedup();
    for id in &ids {
        client.release(*id).await?;
    }
    let removed: Vec<_> = ids.iter().map(BasesId::to_string).collect();
    if ui.json {
        return ui.print_json(&json!({ "removed": removed }));
    }
    removed.iter().for_each(|id| ui.note(&format!("removed {id}")));
    Ok(())
}

/// The bases with an id, an id prefix or a label of `name`, which must be unique.
pub async fn find(client: &Client, name: &str) -> Result<BasesInfo> {
    if let Ok(id) = name.parse::<BasesId>() {
        return client
            .stat(id)
            .await
            .map_err(|error| if error.is_not_found() { unknown(name) } else { error.into() });
    }
    let all = client.list(None).await?;
    let mut fitting: Vec<_> = all.iter().filter(|info| info.label == name).collect();
    if fitting.is_empty() && is_id_prefix(name) {
        fitting = all.iter().filter(|info| info.id.to_string().starts_with(name)).collect();
    }
    match fitting.as_slice() {
        [] => Err(unknown(name)),
        [info] => Ok((*info).clone()),
        several => {
            let ids: Vec<_> = several.iter().map(|info| info.id.to_string()).collect();
            let message = format!("'{name}' is ambiguous: use an id, {}", ids.join(" or "));
            Err(CliFailure::new(Exit::Usage, message))
        }
    }
}

/// Whether `name` can be a prefix of an id. Fewer digits would match by chance.
fn is_id_prefix(name: &str) -> bool {
    name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn unknown(name: &str) -> CliFailure {
    let message = format!(
        "the server has no bases '{name}': list them with `capstan bases list`, or import some \
         with `capstan bases import`"
    );
    CliFailure::new(Exit::Failed, message)
}

/// A table with one line per object and full ids, so that they can be copied.
fn list_table(all: &[BasesInfo]) -> String {
    let mut rows = table(["id", "group", "points", "size", "stored", "label"]);
    for info in all {
        let stored = if info.persisted { "on disk" } else { "in memory" };
        let group = info.group.name().to_owned();
        let size = bytes_text(info.bytes);
        let count = info.count.to_string();
        rows.add_row([info.id.to_string(), group, count, size, stored.into(), info.label.clone()]);
    }
    format!("{rows}\n")
}

fn as_json(info: &BasesInfo) -> Value {
    json!({
        "id": info.id.to_string(), "group": info.group.name(), "count": info.count,
        "bytes": info.bytes, "infinities": info.infinities, "persisted": info.persisted,
        "label": info.label, "created_s": info.created_s,
    })
}

fn as_text(info: &BasesInfo) -> String {
    let mut rows = table(["bases", &info.id.to_string()]);
    rows.add_row(["group", info.group.name()]);
    rows.add_row(["points", &info.count.to_string()]);
    rows.add_row(["points at infinity", &info.infinities.to_string()]);
    rows.add_row(["size", &bytes_text(info.bytes)]);
    rows.add_row(["stored", if info.persisted { "on disk" } else { "in memory" }]);
    rows.add_row(["label", &info.label]);
    rows.add_row(["created", &utc(info.created_s)]);
    format!("{rows}\n")
}

/// `2026-11-21 12:33:15 UTC`.
fn utc(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86400), unix_s.rem_euclid(86400));
    // Days since 0000-03-01, in eras of 400 years: years from March on end with their leap day.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(utc(1_767_225_600), "2026-01-01 00:00:00 UTC");
    }

    #[test]
    fn treats_short_or_non_hex_names_as_labels_only() {
        assert!(is_id_prefix("0af3"));
        assert!(!is_id_prefix("0af"));
        assert!(!is_id_prefix("lagrange"));
    }
}
