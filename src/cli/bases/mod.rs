//! `capstan bases`: manages points on the server.

mod export;
mod import;
mod lookup;
mod report;

use clap::Subcommand;
use serde_json::json;

pub use self::lookup::find;
use self::{
    export::ExportArgs,
    import::ImportArgs,
    lookup::unknown,
    report::{as_json, as_text, print_list},
};
use super::{exit::Result, output::Ui};
use crate::client::{BasesId, Client, Group};

#[derive(Debug, Subcommand)]
pub enum BasesCommand {
    /// Send the points of a file to the server, which checks them, and print their ids
    Import(ImportArgs),
    /// List the bases on the server
    List {
        /// List only bases of this group
        #[arg(long)]
        group: Option<Group>,
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
        BasesCommand::List { group } => print_list(ui, &client.list(*group).await?),
        BasesCommand::Show { bases } => {
            let info = find(client, bases).await?;
            if ui.json { ui.print_json(&as_json(&info)) } else { ui.print(&as_text(&info)) }
        }
        BasesCommand::Rm { bases } => remove(ui, client, bases).await,
    }
}

async fn remove(ui: Ui, client: &Client, names: &[String]) -> Result<()> {
    // Look up all names first: a typo in one name must not remove the others.
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        // The server may know a file by its id only: one that it has not loaded.
        ids.push(match name.parse() {
            Ok(id) => id,
            Err(_) => find(client, name).await?.id,
        });
    }
    ids.sort_unstable();
    ids.dedup();
    for id in &ids {
        let released = client.release(*id).await;
        released.map_err(|e| if e.is_not_found() { unknown(&id.to_string()) } else { e.into() })?;
    }
    let removed: Vec<_> = ids.iter().map(BasesId::to_string).collect();
    if ui.json {
        return ui.print_json(&json!({ "removed": removed }));
    }
    removed.iter().for_each(|id| ui.note(&format!("removed {id}")));
    Ok(())
}
