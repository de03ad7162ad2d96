//! `capstan bases export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::lookup::find;
use crate::{
    client::{Client, PointEncoding},
    exit::{Exit, Result, fail},
    output::{OutputTarget, Ui},
    progress::TerminalProgress,
};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Id of the bases, a prefix of it, or their label
    bases: String,
    /// File to write; - for standard output
    file: PathBuf,
    /// Format of the file, see `capstan bases import --help`; hex is zcash in hex, a point per line
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormatArg,
    /// Write x and y instead of x and a flag (ark, zcash and hex only)
    #[arg(long)]
    uncompressed: bool,
    /// Index of the first point
    #[arg(long, default_value_t = 0, value_name = "N")]
    offset: u64,
    /// Number of points [default: all from the offset on]
    #[arg(long, value_name = "N")]
    length: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ExportFormatArg {
    #[default]
    Zcash,
    Ark,
    Raw,
    Hex,
}

pub async fn run(ui: Ui, client: &Client, args: &ExportArgs) -> Result<()> {
    let output = OutputTarget::new(Some(&args.file));
    if output.is_terminal() && args.format != ExportFormatArg::Hex {
        let message = "refusing to write binary data to a terminal: use a file or --format hex";
        return fail(Exit::Usage, message);
    }
    let info = find(client, &args.bases).await?;
    let end = args.length.map_or(info.count, |length| args.offset.saturating_add(length));
    if args.offset > end || end > info.count {
        let message = format!("there are {} points, not {end}", info.count.max(args.offset));
        return fail(Exit::Usage, message);
    }
    let encoding = match (args.format, args.uncompressed) {
        (ExportFormatArg::Raw, _) => PointEncoding::Montgomery,
        (_, true) => PointEncoding::Uncompressed,
        (_, false) => PointEncoding::Compressed,
    };
    let bar = TerminalProgress::spinner(ui, "receiving");
    let points = client.get_encoded(info.id, encoding, args.offset..end).await?;
    drop(bar);
    let count = end - args.offset;
    match args.format {
        ExportFormatArg::Zcash | ExportFormatArg::Raw => output.write(&points)?,
        ExportFormatArg::Ark => output.write(&[&count.to_le_bytes(), &points[..]].concat())?,
        ExportFormatArg::Hex => {
            let lines = points.chunks(encoding.point_bytes(info.group)).map(hex::encode);
            output.write((lines.collect::<Vec<_>>().join("\n") + "\n").as_bytes())?;
        }
    }
    if let OutputTarget::File(path) = output {
        ui.note(&format!("{count} points in {}", path.display()));
    }
    Ok(())
}
