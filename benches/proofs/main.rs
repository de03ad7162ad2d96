//! Groth16 proofs of Merkle paths, compared with ark-groth16 on the same cores, KZG openings,
//! products of polynomials and integers, batches of NTTs, and digits of pi.
//!
//! `cargo bench --bench proofs`; arguments: `lg_n=14,16` (log2 of the domain), `kzg=14,20` and
//! `poly_mul=14,17` (log2 of the coefficients), `int_mul=1000` (limbs), `ntt_rows=16` (log2 of a
//! row), `pi=1000000` (digits up to a known place) with `pi_program=PATH` (the example), none of
//! these three by default, `wires=usual,uniform` (circuits), `runs=7`, `warm_up=10` (runs before
//! these: on a GPU, bases get their tables), `ark_runs=7` (proofs that ark-groth16 repeats),
//! `daemon=PATH` (another capstand), `engine=cpu` (of the daemon), `keys=FOLDER` (keeps the proving
//! keys for the next run), `only_keys=1` (makes them and ends), `record=FILE` (appends JSON lines).
//! Every result is verified, of products of polynomials two, of batches one row.

#[path = "../../tests/common/daemon_process.rs"]
mod daemon_process;
mod groth16;
mod int_mul;
mod keys;
mod kzg;
#[path = "../../tests/groth16/merkle.rs"]
mod merkle;
mod ntt_rows;
mod pi;
mod poly_mul;
mod record;
#[path = "../support/mod.rs"]
mod support;

use std::{num::ParseIntError, path::Path, process::Command, str::FromStr};

use capstan::client::Client;
use daemon_process::DaemonProcess;
use groth16::ProofCase;
use keys::proving_key;
use merkle::{MerklePath, PathHash};
use pi::PiProgram;
use record::{ProofRecord, ProofRuns};
use support::{argument, argument_text};
use tokio::runtime::Runtime;

/// Proofs of one batch, and log2 of their domain.
const BATCH: usize = 16;
const BATCH_LG_N: u32 = 16;

fn main() {
    let number = |name, default| argument(name, default) as usize;
    let counted = number("runs", 7);
    let of_arkworks = number("ark_runs", counted as _);
    let runs = ProofRuns { warm_up: number("warm_up", 10), counted, of_arkworks };
    let keys = argument_text("keys");
    let keys = keys.as_deref().map(Path::new);
    if argument("only_keys", 0) == 1 {
        assert!(keys.is_some(), "only_keys needs keys=FOLDER");
        circuits().for_each(|wanted| drop(proving_key(wanted.circuit, keys)));
        return;
    }
    let mut record = ProofRecord::new(argument_text("record"));
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("capstan.sock");
    let _daemon = start_daemon(&socket);
    let target = format!("unix:{}", socket.display());
    let runtime = Runtime::new().expect("threads for a client");
    let connect = |shares| {
        let client = Client::builder(&target).shared_memory(shares).connect();
        runtime.block_on(client).expect("the daemon listens")
    };
    let (region, streamed) = (connect(true), connect(false));
    record.set_devices(runtime.block_on(region.info()).expect("an answer"));
    for WantedCircuit { circuit, wires, lg_n } in circuits() {
        let case = ProofCase::new(circuit, wires, lg_n, keys);
        runtime.block_on(async {
            let modes = [(&region, "region"), (&streamed, "unix")];
            case.measure(&modes, runs, &record).await;
            if lg_n == BATCH_LG_N {
                case.measure_batch(&region, BATCH, runs, &record).await;
            }
        });
    }
    for lg_n in sizes("kzg") {
        runtime.block_on(kzg::measure(&region, lg_n, runs, &record));
    }
    for lg_n in sizes("poly_mul") {
        runtime.block_on(poly_mul::measure(&region, lg_n, runs, &record));
        runtime.block_on(poly_mul::measure31(&region, lg_n, runs, &record));
    }
    for lg_n in numbers(&argument_text("ntt_rows").unwrap_or_default()) {
        runtime.block_on(ntt_rows::measure(&region, lg_n, runs, &record));
    }
    for limbs in numbers(&argument_text("int_mul").unwrap_or_default()) {
        runtime.block_on(int_mul::measure(&region, limbs, runs, &record));
    }
    if let Some(digits) = argument_text("pi") {
        let path = argument_text("pi_program").expect("pi_program=PATH, the example `pi`");
        let program = PiProgram { path, server: target };
        for digits in numbers(&digits) {
            program.measure(digits, runs, &record);
        }
    }
}

struct WantedCircuit {
    circuit: MerklePath,
    /// What its wires are like.
    wires: &'static str,
    lg_n: u32,
}

/// The circuits that `lg_n` and `wires` select.
fn circuits() -> impl Iterator<Item = WantedCircuit> {
    let wanted = argument_text("wires");
    let is_wanted =
        move |wires| wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|it| it == wires));
    let kinds = [(PathHash::Sha256, "usual"), (PathHash::Poseidon, "uniform")];
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, wires)| is_wanted(*wires)).collect();
    sizes("lg_n").into_iter().flat_map(move |lg_n| {
        let of_kind = move |(hash, wires)| {
            let circuit = MerklePath::longest(hash, lg_n);
            if circuit.is_none() {
                println!("2^{lg_n}, {wires} wires: the shortest path of {hash:?} is larger");
            }
            circuit.map(|circuit| WantedCircuit { circuit, wires, lg_n })
        };
        kinds.clone().into_iter().filter_map(of_kind)
    })
}

/// The sizes that an argument names: 14 if there is none.
fn sizes(argument: &str) -> Vec<u32> {
    let given = argument_text(argument).unwrap_or_else(|| "14".to_owned());
    numbers(&given).collect()
}

fn numbers<N: FromStr<Err = ParseIntError>>(given: &str) -> impl Iterator<Item = N> {
    let given = given.split(',').filter(|number| !number.is_empty());
    given.map(|number| number.parse().expect("whole numbers, such as 14,16"))
}

fn start_daemon(socket: &Path) -> DaemonProcess {
    let flags = ["--listen", "127.0.0.1:0", "--unix-socket"];
    let mut command = match argument_text("daemon") {
        Some(path) => {
            let mut command = Command::new(path);
            command.args(["--config", "/dev/null"]).args(flags);
            command
        }
        None => daemon_process::capstand(&flags),
    };
    command.arg(socket);
    if let Some(engine) = argument_text("engine") {
        command.args(["--engine", &engine]);
    }
    DaemonProcess::start(command)
}
