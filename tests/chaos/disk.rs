//! A full or broken disk: a `Put` with `persist` is refused, leaves nothing, and succeeds later.

use std::{
    fs::{self, File},
    path::Path,
};

use capstan::{
    client::{
        BasesHandle, Client, ClientError, Code, Fr, G1Affine, MatrixHandle, ProgramBuilder,
        ProgramRun, PutOptions,
    },
    sparse::SparseBuilder,
};
use tokio::runtime::Runtime;

use crate::chaos::{
    daemon::{
        DaemonOptions, DaemonProcess, command, compute, points, start, start_with, until_idle,
        until_ok,
    },
    faults::Faults,
};

const POINTS: usize = 50;

/// Faults, and the expected refusal.
const ROWS: [(&str, Code, &str); 11] = [
    // ENOSPC: at once, within the header, after it, within the points.
    ("open 28", Code::ResourceExhausted, "DISK_FULL"),
    ("write 28 0", Code::ResourceExhausted, "DISK_FULL"),
    ("write 28 100", Code::ResourceExhausted, "DISK_FULL"),
    ("write 28 256", Code::ResourceExhausted, "DISK_FULL"),
    ("write 28 1000", Code::ResourceExhausted, "DISK_FULL"),
    // EDQUOT, EFBIG.
    ("write 122 1000", Code::ResourceExhausted, "DISK_FULL"),
    ("write 27 1000", Code::ResourceExhausted, "DISK_FULL"),
    // EIO.
    ("write 5 1000", Code::Unavailable, "DISK_FAILED"),
    ("fsync 5", Code::Unavailable, "DISK_FAILED"),
    ("rename 5", Code::Unavailable, "DISK_FAILED"),
    ("fsync_folder 5", Code::Unavailable, "DISK_FAILED"),
];

async fn put(client: &Client, seed: u64) -> Result<BasesHandle<G1Affine>, ClientError> {
    let options = PutOptions { persist: true, ..PutOptions::default() };
    client.put_bases_with(options, &points(seed, POINTS)).await
}

async fn assert_computes(client: &Client, bases: &BasesHandle<G1Affine>, seed: u64) {
    let sum = client.msm(bases, &[Fr::from(1); POINTS]).await.unwrap();
    let times = (seed + 1) * (POINTS * (POINTS + 1) / 2) as u64;
    assert_eq!(sum, points(0, 1)[0] * Fr::from(times));
}

fn files(data_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(data_dir.join("bases")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Asserts the refusal of a row, which must not show the path.
fn assert_refused(row: &str, put: Result<(), ClientError>, expected: (Code, &str), path: &str) {
    let Err(ClientError::Refused(refusal)) = put else { panic!("{row}: {put:?}") };
    assert_eq!((refusal.code, refusal.reason_text.as_str()), expected, "{row}");
    let shown = format!("{refusal:?}");
    assert!(!shown.contains(path) && !shown.contains(".part"), "{row}: {shown}");
}

#[test]
fn a_put_that_the_disk_refuses_leaves_nothing_and_succeeds_later() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    let path = folder.path().to_str().unwrap();
    let flags = ["--data-dir", path];
    let options =
        DaemonOptions { flags: &flags, faults: Some((&faults, folder.path())), prepare: "" };
    let daemon = start_with(&options);
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let client = daemon.client().connect().await.unwrap();
        for (i, (fault, code, reason)) in ROWS.into_iter().enumerate() {
            faults.set(fault);
            let refused = put(&client, i as u64).await.map(drop);
            assert_refused(fault, refused, (code, reason), path);
            assert_eq!(files(folder.path()).len(), i, "{fault}: a file is left");
            compute(&client).await.unwrap();
            // Bases that are not persisted need no disk.
            let in_memory = client.put_bases(&points(1000 + i as u64, 3)).await.unwrap();
            client.release(in_memory.id()).await.unwrap();
            faults.clear();
            let bases = put(&client, i as u64).await.unwrap();
            assert_computes(&client, &bases, i as u64).await;
            until_idle(&client).await;
        }
        let load = client.info().await.unwrap().load.unwrap();
        assert_eq!(load.objects as usize, ROWS.len(), "a refused put is still counted");
    });
    assert!(daemon.log().contains("cannot write to the data directory"), "{}", daemon.log());
    daemon.stop();
    let daemon = start_with(&options);
    runtime.block_on(async {
        let client = daemon.client().connect().await.unwrap();
        assert_eq!(client.list(None).await.unwrap().len(), ROWS.len());
        for i in 0..ROWS.len() as u64 {
            let bases = put(&client, i).await.unwrap();
            assert_computes(&client, &bases, i).await;
        }
    });
    daemon.stop();
}

#[test]
fn a_new_data_directory_survives_a_crash_with_its_parents_or_is_not_used() {
    // EIO: the folders may be lost. EINVAL: the file system cannot sync folders.
    for (fault, must_start) in [("fsync_folder 5", false), ("fsync_folder 22", true)] {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
        faults.set(fault);
        let data_dir = folder.path().join("new/data");
        let flags = ["--data-dir", data_dir.to_str().unwrap()];
        let faults = Some((&faults, folder.path()));
        let options = DaemonOptions { flags: &flags, faults, prepare: "" };
        if !must_start {
            let message = DaemonProcess::spawn(command(&options)).until("data_dir: ");
            let names_path = message.contains(data_dir.to_str().unwrap());
            assert!(names_path && message.contains("Input/output error"), "{message}");
            continue;
        }
        let daemon = start_with(&options);
        Runtime::new().unwrap().block_on(async {
            let client = daemon.client().connect().await.unwrap();
            put(&client, 1).await.unwrap();
        });
        assert_eq!(files(&data_dir).len(), 1);
        daemon.stop();
    }
}

/// A file that is too short fails like one that the disk does not read: with SIGBUS.
#[test]
fn bases_that_the_disk_does_not_read_any_more_fail_their_calls_only() {
    /// The larger bases are read in several chunks.
    const SIZES: [usize; 2] = [1000, 10_000];
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(&["--data-dir", folder.path().to_str().unwrap()]);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let kept = put(&client, 7).await.unwrap();
        for (seed, size) in SIZES.into_iter().enumerate() {
            let points = points(seed as u64, size);
            let persistent = PutOptions { persist: true, ..PutOptions::default() };
            let bases = client.put_bases_with(persistent.clone(), &points).await.unwrap();
            let scalars = vec![Fr::from(1); size];
            let sum = client.msm(&bases, &scalars).await.unwrap();
            let path = folder.path().join(format!("bases/{}.bases", bases.id()));
            File::options().write(true).open(path).unwrap().set_len(20_000).unwrap();
            let expected = (Code::Unavailable, "DISK_FAILED");
            let failed = match size {
                1000 => client.msm(&bases, &scalars).await.map(drop),
                _ => client.get_bases::<G1Affine>(bases.id(), 0..size as u64).await.map(drop),
            };
            assert_refused("a damaged file", failed, expected, folder.path().to_str().unwrap());
            // The server knows them no more.
            assert!(client.msm(&bases, &scalars).await.unwrap_err().is_not_found());
            assert_computes(&client, &kept, 7).await;
            let again = client.put_bases_with(persistent, &points).await.unwrap();
            assert_eq!(client.msm(&again, &scalars).await.unwrap(), sum);
        }
        until_idle(&client).await;
    });
    assert!(daemon.log().contains("cannot be read"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_matrix_that_the_disk_does_not_read_any_more_fails_its_calls_only() {
    const N: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(&["--data-dir", folder.path().to_str().unwrap()]);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let mut rows = SparseBuilder::new(N, N);
        (0..N).rev().for_each(|column| rows.push_row([(Fr::from(1), column)]).unwrap());
        let reversal = rows.build().unwrap();
        let persistent = PutOptions { persist: true, ..PutOptions::default() };
        let put = async || client.put_matrix_with(persistent.clone(), &reversal).await.unwrap();
        let reversed = async |matrix: &MatrixHandle| {
            let mut program = ProgramBuilder::new();
            let one_to_n = program.powers(Fr::from(1), Fr::from(2), N as u64).unwrap();
            let reversed = program.multiply_sparse(matrix, one_to_n).unwrap();
            let program = program.build().unwrap();
            client.run(ProgramRun::new(&program).send(reversed)).await.map(drop)
        };
        let matrix = put().await;
        reversed(&matrix).await.unwrap();
        let name = fs::read_dir(folder.path().join("bases")).unwrap().next().unwrap().unwrap();
        // The rest of the file is read as zeros.
        let file = File::options().write(true).open(name.path()).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        let expected = (Code::Unavailable, "DISK_FAILED");
        let failed = reversed(&matrix).await;
        assert_refused("a damaged matrix", failed, expected, folder.path().to_str().unwrap());
        assert!(reversed(&matrix).await.is_err(), "the matrix is kept");
        reversed(&put().await).await.unwrap();
        until_idle(&client).await;
    });
    daemon.stop();
}

#[test]
fn a_release_that_the_disk_refuses_can_be_repeated() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    let flags = ["--data-dir", folder.path().to_str().unwrap()];
    let options =
        DaemonOptions { flags: &flags, faults: Some((&faults, folder.path())), prepare: "" };
    let daemon = start_with(&options);
    Runtime::new().unwrap().block_on(async {
        let client = daemon.client().connect().await.unwrap();
        let bases = put(&client, 1).await.unwrap();
        let refuse = async |fault| {
            faults.set(fault);
            let refused = client.release(bases.id()).await;
            assert_refused(fault, refused, (Code::Unavailable, "DISK_FAILED"), flags[1]);
            faults.clear();
        };
        refuse("unlink 5").await;
        assert_computes(&client, &bases, 1).await;
        // The file has gone, but could be back after a crash: a put must write it again.
        refuse("fsync_folder 5").await;
        assert!(files(folder.path()).is_empty());
        put(&client, 1).await.unwrap();
        assert_eq!(files(folder.path()).len(), 1);
        refuse("fsync_folder 5").await;
        client.release(bases.id()).await.unwrap();
        assert!(client.release(bases.id()).await.unwrap_err().is_not_found());
        assert!(files(folder.path()).is_empty());
        assert_eq!(client.info().await.unwrap().load.unwrap().objects, 0);
    });
    daemon.stop();
}

/// Waits until the audit log has `count` lines, which a thread of the daemon writes.
async fn until_lines(log: &Path, count: usize) {
    until_ok("lines of the audit log", async || {
        let text = fs::read_to_string(log).unwrap();
        if text.matches('\n').count() >= count { Ok(()) } else { Err(text) }
    })
    .await;
}

/// Nobody may be refused because a log cannot be written.
#[test]
fn calls_go_on_while_the_audit_log_cannot_be_written() {
    for (fault, cause) in [("write 28 0", "os error 28"), ("write 5 0", "os error 5")] {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
        let log = folder.path().join("audit.jsonl");
        let flags = ["--audit-log", log.to_str().unwrap()];
        let options =
            DaemonOptions { flags: &flags, faults: Some((&faults, folder.path())), prepare: "" };
        let daemon = start_with(&options);
        Runtime::new().unwrap().block_on(async {
            let client = daemon.client().connect().await.unwrap();
            let bases = client.put_bases(&points(1, 3)).await.unwrap();
            client.release(bases.id()).await.unwrap();
            until_lines(&log, 2).await;
            faults.set(fault);
            let bases = client.put_bases(&points(2, 3)).await.unwrap();
            // Only the first lost line is always reported, so one call is made under the fault.
            until_ok("the lost line is reported", async || {
                let shown = daemon.log();
                let is_reported =
                    |line: &str| line.contains("cannot be written") && line.contains(cause);
                if shown.lines().any(is_reported) { Ok(()) } else { Err(shown) }
            })
            .await;
            faults.clear();
            // Lines are written in their order: all earlier ones are there before this one.
            client.release(bases.id()).await.unwrap();
            until_lines(&log, 3).await;
        });
        daemon.stop();
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().count(), 3, "{fault}: a line was written under the fault: {text}");
    }
}
