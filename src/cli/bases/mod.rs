//! `capstan bases`: manages points and matrices on the server.

mod export;
mod import;
mod lookup;
mod report;
mod residency;

use clap::Subcommand;
use serde_json::json;

pub use self::lookup::{find, find_matrix};
use self::{
    export::ExportArgs,
    import::ImportArgs,
    lookup::{FoundObject, find_object, unknown},
    report::{as_json, as_text, matrix_as_json, matrix_as_text, print_list},
    residency::ResidencyArgs,
};
use super::{args::word, exit::Result, output::Ui};
use crate::client::{BasesId, Client, Group, ResidencyAction};

#[derive(Debug, Subcommand)]
pub enum BasesCommand {
    /// Send the points of a file to the server, which checks them, and print their ids
    Import(ImportArgs),
    /// List the bases and matrices on the server
    List {
        /// List only bases of this group, and no matrices
        #[arg(long, value_parser = word::<Group>())]
        group: Option<Group>,
    },
    /// Show the metadata of bases or of a matrix
    Show {
        /// Id of the object, a prefix of it, or its label
        bases: String,
    },
    /// Remove bases and matrices; running jobs keep those that they use
    Rm {
        /// Ids of the objects, prefixes of them, or labels
        #[arg(required = true)]
        bases: Vec<String>,
    },
    /// Upload bases to GPUs before their first use, with tables
    Warm(ResidencyArgs),
    /// Keep bases on GPUs, so that they are not evicted for others
    Pin(ResidencyArgs),
    /// Let pinned bases be evicted again
    Unpin(ResidencyArgs),
    /// Unpin bases and free their memory on GPUs; they stay on the server
    Evict(ResidencyArgs),
    /// Write the points of bases to a file
    Export(ExportArgs),
}

pub async fn run(ui: Ui, client: &Client, command: &BasesCommand) -> Result<()> {
    match command {
        BasesCommand::Import(args) => import::run(ui, client, args).await,
        BasesCommand::Export(args) => export::run(ui, client, args).await,
        BasesCommand::Warm(args) => residency::run(ui, client, ResidencyAction::Warm, args).await,
        BasesCommand::Pin(args) => residency::run(ui, client, ResidencyAction::Pin, args).await,
        BasesCommand::Unpin(args) => residency::run(ui, client, ResidencyAction::Unpin, args).await,
        BasesCommand::Evict(args) => residency::run(ui, client, ResidencyAction::Evict, args).await,
        BasesCommand::List { group } => {
            let matrices = match group {
                Some(_) => Vec::new(),
                None => client.list_matrices().await?,
            };
            print_list(ui, &client.list(*group).await?, &matrices)
        }
        BasesCommand::Show { bases } => {
            let (json, text) = match find_object(client, bases).await? {
                FoundObject::Bases(info) => (as_json(&info), as_text(&info)),
                FoundObject::Matrix(info) => (matrix_as_json(&info), matrix_as_text(&info)),
            };
            if ui.json { ui.print_json(&json) } else { ui.print(&text) }
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
            Err(_) => find_object(client, name).await?.id(),
        });
    }
    ids.sort_unstable();
    ids.dedup();
    for id in &ids {
        // A matrix is released by its id like bases.
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
