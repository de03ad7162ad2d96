//! `capstan bases import`.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;

use super::report::print_list;
use crate::{
    args::word,
    client::{BasesInfo, Client, Group, PutOptions},
    exit::{CliFailure, Exit, Result, fail},
    formats::{
        self, PointSet,
        detect::{self, PointFormat},
        kzg::SetupList,
    },
    input,
    output::Ui,
    progress::TerminalProgress,
    random::blocking,
};

#[derive(Debug, Args)]
#[command(after_help = FORMATS)]
pub struct ImportArgs {
    /// File to read; - for standard input
    file: PathBuf,
    /// Group of the points [default: detected from the file]
    #[arg(long, value_parser = word::<Group>())]
    group: Option<Group>,
    /// Format of the file
    #[arg(long, default_value = "auto",
          value_parser = ["auto", "kzg-json", "kzg-text", "ark", "zcash", "raw"])]
    format: String,
    /// List of a trusted setup to import; can be repeated [default: all lists]
    #[arg(long, value_parser = word::<SetupList>())]
    set: Vec<SetupList>,
    /// Move point i to the index that reverses i's bits, the order of EIP-4844's blobs
    #[arg(long)]
    bit_reversed: bool,
    /// Label, at most 128 bytes of text; list names are appended unless one --set is given
    #[arg(long)]
    label: Option<String>,
    /// Store the points in the server's data directory, so that they survive a restart
    #[arg(long)]
    persist: bool,
}

const FORMATS: &str = "\
Formats:
  auto      detect the format; an ambiguous file is refused
  kzg-json  trusted setup in the JSON of Ethereum's consensus specifications
  kzg-text  trusted setup in c-kzg's text: two counts, then points in hex
  ark       Vec<G1Affine> or Vec<G2Affine> by arkworks' CanonicalSerialize, compressed or not
  zcash     concatenated points, big-endian with flags, as in zcash and blst: 48 or 96 bytes (g1),
            96 or 192 bytes (g2)
  raw       concatenated points in Montgomery limbs: 96 bytes (g1), 192 bytes (g2)";

pub async fn run(ui: Ui, client: &Client, args: &ImportArgs) -> Result<()> {
    use PointFormat::{Ark, KzgJson, KzgText, Raw, Zcash};
    let name = args.file.display();
    let file = Bytes::from(std::mem::take(&mut *input::read(ui, &args.file)?));
    let bar = TerminalProgress::spinner(ui, format!("parsing {name}"));
    // `auto` is not the name of a format.
    let format =
        [KzgJson, KzgText, Ark, Zcash, Raw].into_iter().find(|known| known.name() == args.format);
    let group = args.group;
    let sets = blocking(move || detect::parse(file, format, group))
        .await
        .map_err(CliFailure::from)
        .and_then(|sets| select_lists(sets, args))
        .map_err(|failure| failure.in_file(&name))?;
    drop(bar);
    let mut imported = Vec::with_capacity(sets.len());
    for set in &sets {
        let sent = send(ui, client, args, set).await;
        imported.push(sent.map_err(|failure| name_list_in_error(failure, set).in_file(&name))?);
    }
    print_list(ui, &imported, &[])
}

/// The requested lists of the file, with the points in the requested order.
fn select_lists(mut sets: Vec<PointSet>, args: &ImportArgs) -> Result<Vec<PointSet>> {
    for &list in &args.set {
        if !sets.iter().any(|points| points.list == Some(list)) {
            return Err(formats::FormatError::NoSuchSet(list).into());
        }
    }
    sets.retain(|points| match points.list {
        Some(list) if !args.set.is_empty() => args.set.contains(&list),
        _ => args.group.is_none_or(|group| points.group == group),
    });
    if sets.is_empty() {
        return fail(Exit::Usage, "the file has no points of that group");
    }
    // Of several lists, only the Lagrange points are reordered.
    let is_single = sets.len() == 1;
    for points in &mut sets {
        if args.bit_reversed && (is_single || points.list == Some(SetupList::G1Lagrange)) {
            points.bit_reverse()?;
        }
    }
    Ok(sets)
}

async fn send(ui: Ui, client: &Client, args: &ImportArgs, points: &PointSet) -> Result<BasesInfo> {
    let label = match (&args.label, points.list) {
        (Some(label), Some(set)) if args.set.len() != 1 => format!("{label} {set}"),
        (Some(label), _) => label.clone(),
        (None, Some(set)) => set.to_string(),
        (None, None) => String::new(),
    };
    let name = points.list.map_or(points.group.name(), SetupList::name);
    let bar = TerminalProgress::bytes(ui, format!("sending {name}"), points.data.len() as u64);
    let options =
        PutOptions { label, persist: args.persist, progress: bar.callback(), ..Default::default() };
    Ok(client.put_encoded(points.group, points.encoding, &points.data, options).await?)
}

/// Replaces the payload's field in the server's error by the list's name in the file.
fn name_list_in_error(mut failure: CliFailure, points: &PointSet) -> CliFailure {
    if let (Some(set), Some(_)) = (points.list, failure.index) {
        failure.message = match failure.message.strip_prefix("points") {
            Some(rest) => format!("{set}{rest}"),
            None => format!("{set}: {}", failure.message),
        };
        failure.field = Some(set.name().to_owned());
    }
    failure
}
