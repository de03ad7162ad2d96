//! `capstan groth16 register`.

use std::path::PathBuf;

use capstan_proofs::groth16::Groth16Key;
use clap::Args;
use serde_json::{Value, json};

use super::files;
use crate::{
    args::GlobalArgs,
    builder::{ProgramBases, ProgramMatrix},
    client::{CurvePoint, PointEncoding, PutOptions},
    curve::points::encode,
    exit::Result,
    output::Ui,
    pending_file::{PendingFile, check_distinct},
    progress::TerminalProgress,
};

/// The version of the description that clients read.
const FORMAT: u32 = 2;

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct RegisterArgs {
    /// Circuit, compiled by circom with --prime bls12381
    #[arg(value_name = "CIRCUIT.r1cs")]
    circuit: PathBuf,
    /// Proving key, in arkworks' serialization
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File for the description of the key: what other clients need to prove with it
    #[arg(long, value_name = "FILE.json")]
    description: PathBuf,
    /// Label of the key's parts, at most 100 bytes of text [default: groth16]
    #[arg(long)]
    label: Option<String>,
    /// Keep the parts in the server's data directory
    #[arg(long)]
    persist: bool,
}

const ABOUT: &str = "\
Sends the key's points and the circuit's matrices. The server keeps them until they are released or,
without --persist, until it restarts.
The description names them, and has the points of the key that blind a proof. It holds no secrets.
The Python client proves with it: Client.groth16_key and Client.groth16_prove.";

pub async fn run(ui: Ui, global: &GlobalArgs, args: &RegisterArgs) -> Result<()> {
    check_distinct(&[&args.circuit, &args.key], &[&args.description])?;
    let matrices = files::constraints(ui, &args.circuit).await?;
    let key = files::proving_key(ui, &args.key).await?;
    let file = PendingFile::create(&args.description)?;
    let client = global.client_builder()?.connect().await?;
    let bar = TerminalProgress::bytes(ui, "sending the key", 0);
    let options = PutOptions {
        label: args.label.clone().unwrap_or_default(),
        persist: args.persist,
        progress: bar.callback(),
        ..PutOptions::default()
    };
    let registered = Groth16Key::register_with(&client, options, &key, matrices).await;
    let registered = registered.map_err(|error| files::failure(&args.key, error))?;
    drop(bar);
    let description = describe(&registered);
    file.write(format!("{description:#}\n").as_bytes())?;
    file.commit()?;
    if ui.json {
        return ui.print_json(&description);
    }
    let constraints = registered.matrices().constraints();
    let file = args.description.display();
    ui.print(&format!("{constraints} constraints\ndescription: {file}\n"))
}

fn describe(key: &Groth16Key) -> Value {
    let (matrices, objects, points) = (key.matrices(), key.objects(), key.points());
    let selection = |selection: &Option<ProgramMatrix>| selection.as_ref().map(matrix_id);
    json!({
        "format": FORMAT,
        "constraints": matrices.constraints(),
        "public_variables": matrices.public_variables(),
        "variables": matrices.variables(),
        "objects": {
            "matrix_a": matrix_id(&objects.matrix_a),
            "matrix_b": matrix_id(&objects.matrix_b),
            "a": bases_id(&objects.a),
            "b_g1": bases_id(&objects.b_g1),
            "b_g2": bases_id(&objects.b_g2),
            "c": bases_id(&objects.c),
            "variables_of_a": selection(&objects.variables_of_a),
            "variables_of_b": selection(&objects.variables_of_b),
        },
        "points": {
            "alpha_g1": compressed(points.alpha_g1),
            "beta_g1": compressed(points.beta_g1),
            "beta_g2": compressed(points.beta_g2),
            "delta_g1": compressed(points.delta_g1),
            "delta_g2": compressed(points.delta_g2),
        },
    })
}

fn matrix_id(matrix: &ProgramMatrix) -> String {
    hex::encode(matrix.object.id)
}

fn bases_id<A>(bases: &ProgramBases<A>) -> String {
    hex::encode(bases.object.id)
}

fn compressed(point: impl CurvePoint) -> String {
    hex::encode(encode(PointEncoding::Compressed, &[point]))
}
