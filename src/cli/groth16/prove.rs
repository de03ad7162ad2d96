//! `capstan groth16 prove`.

use std::path::{Path, PathBuf};

use ark_bls12_381::Bls12_381;
use ark_groth16::ProvingKey;
use ark_serialize::{CanonicalSerialize, Compress};
use capstan_proofs::groth16::{ConstraintMatrices, Groth16Key, Groth16Prover, ReportedProof};
use clap::Args;
use serde_json::json;
use tokio::runtime::Handle;
use zeroize::Zeroizing;

use super::{files, phases::ProofPhases, plot, verify};
use crate::{
    args::GlobalArgs,
    client::{Execution, Fr, PutOptions, RunOptions},
    embedded::local_engine,
    exit::{CliFailure, Exit, Result, fail, print_problem},
    output::{Ui, microseconds, time_text},
    pending_file::{PendingFile, check_distinct},
    progress::TerminalProgress,
    random::{blocking, secret},
    runner::ProgramRunner,
};

#[derive(Debug, Clone, Args)]
#[command(after_help = ABOUT)]
pub struct ProveArgs {
    /// Circuit, compiled by circom with --prime bls12381
    #[arg(value_name = "CIRCUIT.r1cs")]
    circuit: PathBuf,
    /// Witness of the circuit
    #[arg(value_name = "WITNESS.wtns")]
    witness: PathBuf,
    /// Proving key, in arkworks' serialization
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File for the proof: 192 bytes in arkworks' serialization
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
    /// File for the public outputs and inputs, a JSON list as snarkjs writes it
    #[arg(long, value_name = "FILE.json")]
    public: Option<PathBuf>,
    /// Check first that the witness satisfies the constraints, and report the first that does not
    /// hold
    #[arg(long)]
    check: bool,
    /// Compute in this process, on the host's GPUs or its CPU, instead of --server
    #[arg(long)]
    local: bool,
    /// Plot the phases into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const ABOUT: &str = "\
The key's points and the circuit's matrices are sent once: the server keeps them, and later proofs
of the same key send only the witness. The numbers that blind the proof stay in this process. The
proof is verified before it is written; a proof that does not verify ends the command with code 3
and is not written.";

/// What the files hold.
struct ProofInputs {
    matrices: ConstraintMatrices,
    witness: Zeroizing<Vec<Fr>>,
    key: ProvingKey<Bls12_381>,
}

/// The files to write.
struct ProofOutputs {
    proof: PendingFile,
    public: Option<PendingFile>,
    plot: Option<PendingFile>,
}

/// A proof to be made, by any runner.
struct ProofJob {
    ui: Ui,
    args: ProveArgs,
    inputs: ProofInputs,
    phases: ProofPhases,
}

/// A proof that verifies.
struct VerifiedProof {
    bytes: Vec<u8>,
    execution: Execution,
    phases: ProofPhases,
}

pub async fn run(ui: Ui, global: &GlobalArgs, args: &ProveArgs) -> Result<()> {
    check_distinct(&[&args.circuit, &args.witness, &args.key], &args.outputs())?;
    let mut phases = ProofPhases::begin();
    let inputs = phases.measure("read files", ProofInputs::read(ui, args)).await?;
    let ProofInputs { matrices, witness, .. } = &inputs;
    let (constraints, variables) = (matrices.constraints(), matrices.variables());
    phases.describe(format!("{constraints} constraints, {variables} variables"));
    let outputs = ProofOutputs::create(args)?;
    let public = witness[1..matrices.public_variables()].to_vec();

    let mut job = ProofJob { ui, args: args.clone(), inputs, phases };
    let proved = if args.local {
        let runtime = Handle::current();
        // The engine's futures block.
        let prove = move || {
            runtime.block_on(async {
                let open = async { local_engine(print_problem) };
                let engine = job.phases.measure("connect", open).await?;
                job.phases.describe("the engine in this process".into());
                job.prove(&engine).await
            })
        };
        blocking(prove).await?
    } else {
        let connect = async { Ok::<_, CliFailure>(global.client_builder()?.connect().await?) };
        let client = job.phases.measure("connect", connect).await?;
        job.prove(&client).await?
    };
    let VerifiedProof { bytes, execution, phases } = proved;
    let title = format!("Groth16, {constraints} constraints, engine {}", execution.engine);
    outputs.write(&bytes, &public, &title, &phases)?;
    if ui.json {
        return ui.print_json(&json!({
            "constraints": constraints, "variables": variables,
            "proof": hex::encode(&bytes), "public": files::public_json(&public),
            "engine": execution.engine, "device": execution.device,
            "phases": phases.as_json(),
            "total_us": microseconds(phases.total()),
        }));
    }
    let proof = args.proof.display();
    if ui.quiet {
        return ui.print(&format!("proof: {proof}, verified\n"));
    }
    let (engine, device) = (&execution.engine, &execution.device);
    ui.print(&format!(
        "{}\nengine {engine}, device {device}\nproof: {proof}, verified, after {}\n",
        phases.as_text(),
        time_text(phases.total())
    ))
}

impl ProofJob {
    /// Registers the key, and makes and verifies the proof.
    async fn prove(self, runner: &impl ProgramRunner) -> Result<VerifiedProof> {
        let Self { ui, args, inputs: ProofInputs { matrices, witness, key }, mut phases } = self;
        let public = witness[1..matrices.public_variables()].to_vec();
        let bar = TerminalProgress::bytes(ui, "sending the key", 0);
        let options = PutOptions { progress: bar.callback(), ..PutOptions::default() };
        let register = Groth16Key::register_with(runner, options, &key, matrices);
        let registered = phases.measure("register the key", register).await;
        let registered = registered.map_err(|error| files::failure(&args.key, error))?;
        phases.describe(format!("{} points", points(&key)));
        drop(bar);

        let bar = TerminalProgress::bytes(ui, "sending the witness", 0);
        let options = RunOptions { progress: bar.callback(), ..RunOptions::default() };
        let prover = Groth16Prover::new(runner, &registered).with_options(options);
        let proved = prover.prove_with_report(witness, &mut secret()?).await;
        let proved = proved.map_err(|error| files::failure(&args.witness, error))?;
        drop(bar);
        add_phases(&mut phases, &proved);
        let ReportedProof { proof, execution, .. } = proved;

        let vk = key.vk;
        let checked = proof.clone();
        let verify = blocking(move || verify::verifies(&vk, &checked, &public));
        if !phases.measure("verify the proof", verify).await {
            registered.discard(runner).await;
            return fail(Exit::NotVerified, does_not_verify(&args));
        }
        let mut bytes = Vec::new();
        proof.serialize_with_mode(&mut bytes, Compress::Yes).expect("memory accepts all bytes");
        Ok(VerifiedProof { bytes, execution, phases })
    }
}

impl ProveArgs {
    fn outputs(&self) -> Vec<&Path> {
        let optional = [&self.public, &self.plot].into_iter().flatten();
        [&self.proof].into_iter().chain(optional).map(PathBuf::as_path).collect()
    }
}

impl ProofInputs {
    async fn read(ui: Ui, args: &ProveArgs) -> Result<Self> {
        let matrices = files::constraints(ui, &args.circuit).await?;
        let witness = files::witness(ui, &args.witness).await?;
        let checked = matrices.check_assignment(&witness);
        checked.map_err(|error| files::failure(&args.witness, error))?;
        let matrices = if args.check { check(args, matrices, &witness).await? } else { matrices };
        let key = files::proving_key(ui, &args.key).await?;
        Ok(Self { matrices, witness, key })
    }
}

/// Before anything is sent: a wrong witness needs no server.
async fn check(
    args: &ProveArgs,
    matrices: ConstraintMatrices,
    witness: &Zeroizing<Vec<Fr>>,
) -> Result<ConstraintMatrices> {
    let witness = witness.clone();
    let checked = blocking(move || matrices.check(&witness).map(|()| matrices)).await;
    checked.map_err(|error| files::failure(&args.witness, error))
}

impl ProofOutputs {
    /// Before the work, so that a folder that cannot be written to is reported at once.
    fn create(args: &ProveArgs) -> Result<Self> {
        let optional =
            |path: &Option<PathBuf>| path.as_deref().map(PendingFile::create).transpose();
        Ok(Self {
            proof: PendingFile::create(&args.proof)?,
            public: optional(&args.public)?,
            plot: optional(&args.plot)?,
        })
    }

    fn write(self, proof: &[u8], public: &[Fr], title: &str, phases: &ProofPhases) -> Result<()> {
        let Self { proof: proof_file, public: public_file, plot } = self;
        proof_file.write(proof)?;
        if let Some(file) = &public_file {
            file.write(format!("{:#}\n", files::public_json(public)).as_bytes())?;
        }
        if let Some(file) = &plot {
            file.write(plot::timeline(title, &phases.phases).as_bytes())?;
        }
        proof_file.commit()?;
        public_file.map_or(Ok(()), PendingFile::commit)?;
        plot.map_or(Ok(()), PendingFile::commit)
    }
}

/// The number of points of the key that are put.
fn points(key: &ProvingKey<Bls12_381>) -> usize {
    let in_g1 = [&key.a_query, &key.b_g1_query, &key.h_query, &key.l_query];
    in_g1.iter().map(|points| points.len()).sum::<usize>() + key.b_g2_query.len()
}

fn add_phases(phases: &mut ProofPhases, proved: &ReportedProof) {
    let timing = &proved.timing;
    let known = timing.upload + timing.queue + timing.compute + timing.verify;
    phases.add("send", timing.upload);
    phases.add("queue", timing.queue);
    phases.add("compute", timing.compute);
    phases.add("receive", timing.total.saturating_sub(known));
    phases.add("blind", proved.finish);
}

fn does_not_verify(args: &ProveArgs) -> String {
    let (witness, key) = (args.witness.display(), args.key.display());
    let circuit = args.circuit.display();
    let of_key = format!("{key} was not made for {circuit}");
    if args.check {
        return format!("the proof does not verify: {of_key}");
    }
    format!(
        "the proof does not verify: {witness} does not satisfy {circuit} (--check shows which \
         constraint), or {of_key}"
    )
}
