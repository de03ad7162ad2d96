//! Bases that callers warm, pin and evict, and those that the daemon preloads.

use std::{fs, net::SocketAddr, process::Child, thread, time::Duration};

use ark_ec::{CurveGroup as _, VariableBaseMSM as _};
use ark_ff::UniformRand as _;
use ark_std::rand::{SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{
        BasesId, BasesInfo, BasesResidency, Client, ClientError, Code, PutOptions, Refusal,
        ResidencyAction::{self, Evict, Pin, Unpin, Warm},
        blocking::BlockingClient,
    },
    curve::{Fr, G1Affine, G1Projective, scalars::ScalarEncoding},
    engine::{JobControl, ResidencyChange},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    daemon::{MeasuredDaemon, http, metric, start_with_metrics, stop},
    emulated,
    known_msms::{MsmCase, engine, lease_all_but},
    rig::DeviceRig,
    workers::{children, wait_until},
};

const POINTS: usize = 70;
/// Bytes of the points on a device, without tables: one more, for alignment.
const BYTES: u64 = (POINTS as u64 + 1) * size_of::<G1Affine>() as u64;

pub fn points(seed: u64) -> Vec<G1Affine> {
    let mut rng = StdRng::seed_from_u64(seed);
    let points: Vec<_> = (0..POINTS).map(|_| G1Projective::rand(&mut rng)).collect();
    G1Projective::normalize_batch(&points)
}

/// A daemon that gives all MSMs to its GPUs, of which the emulated driver has two.
struct ResidencyRig {
    child: Child,
    target: String,
    metrics: SocketAddr,
    client: BlockingClient,
    gpus: Vec<u32>,
}

impl ResidencyRig {
    fn new(flags: &[&str]) -> Self {
        let own = ["--engine", "cuda", "--cuda-msm-min", "0"];
        let MeasuredDaemon { child, target, metrics } =
            start_with_metrics(&[&own, flags].concat(), &[("EMU_DEVICES", "2")]);
        let client = BlockingClient::connect(&target).unwrap();
        let devices = client.info().unwrap().devices;
        let gpus = devices.into_iter().filter_map(|device| Some(device.gpu?.index)).collect();
        Self { child, target, metrics, client, gpus }
    }

    fn gpus(&self) -> &[u32] {
        &self.gpus
    }

    fn set(&self, id: BasesId, action: ResidencyAction, devices: &[u32]) -> Vec<BasesResidency> {
        self.client.set_residency(id, action, devices).unwrap()
    }

    fn refused(&self, id: BasesId, action: ResidencyAction, devices: &[u32]) -> Refusal {
        match self.client.set_residency(id, action, devices) {
            Err(ClientError::Refused(refusal)) => *refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn found(&self, id: BasesId) -> BasesInfo {
        let bases = self.client.list(None).unwrap();
        bases.into_iter().find(|bases| bases.id == id).expect("stored")
    }

    /// What the list says of the devices that hold bases, when all of them have answered.
    fn listed(&self, id: BasesId) -> Vec<BasesResidency> {
        loop {
            let found = self.found(id);
            if found.unknown_devices.is_empty() {
                return found.residency;
            }
        }
    }

    /// Stops one of two workers, until the daemon loses its patience. Returns the number of its
    /// GPU, and that of the other one.
    fn stop_a_worker(&self, id: BasesId) -> [u32; 2] {
        kill_process(children(self.child.id())[0], Signal::STOP).unwrap();
        let unknown = || match self.found(id).unknown_devices[..] {
            [device] => Some(device),
            _ => None,
        };
        wait_until("a device does not answer", || unknown().is_some());
        let silent = unknown().expect("it still does not answer");
        let other = self.gpus.iter().find(|gpu| **gpu != silent);
        [silent, *other.expect("two GPUs")]
    }

    fn pinned_bytes(&self, device: u32) -> u64 {
        metric(self.metrics, &format!("capstan_pinned_bases_bytes{{device=\"{device}\"}}"))
    }
}

#[test]
fn pinned_bases_are_not_evicted_and_others_in_the_order_of_their_use() {
    const COUNT: usize = 12_000;
    const PART: usize = 9;
    let bytes = (COUNT + 1) * size_of::<G1Affine>();
    let rig = DeviceRig::new();
    let (engine, case) =
        (engine(&rig), MsmCase::<G1Affine>::new(COUNT, 1, ScalarEncoding::Canonical));
    // Memory for three objects and for an MSM over a part of one.
    let held = lease_all_but(&rig, 7 * bytes as u64 / 2);
    let objects = [(); 5].map(|()| case.object());
    let change = |number: usize, change| {
        let bases = MsmCase::bases(&objects[number]);
        engine.set_residency(0, &bases, change, &JobControl::default()).unwrap()
    };
    let check = |after: &str, expected: [usize; 5]| {
        let found = objects.each_ref().map(|object| engine.has_resident(&MsmCase::bases(object)));
        assert_eq!(found, expected.map(|has| has == 1), "after {after}");
    };
    let pinned = change(0, ResidencyChange::Pin { bytes_max: bytes as u64 });
    assert!(pinned.pinned && (pinned.bytes, pinned.tables) == (bytes as u64, 1), "{pinned:?}");
    for (number, expected) in
        [(1, [1, 1, 0, 0, 0]), (2, [1, 1, 1, 0, 0]), (3, [1, 0, 1, 1, 0]), (4, [1, 0, 0, 1, 1])]
    {
        case.run_prefix(&engine, &objects[number], PART);
        check(&format!("an MSM over {number}"), expected);
    }
    case.run_prefix(&engine, &objects[0], PART);
    assert!(!change(0, ResidencyChange::Unpin).pinned);
    for (number, expected) in [(1, [1, 1, 0, 0, 1]), (2, [1, 1, 1, 0, 0]), (3, [0, 1, 1, 1, 0])] {
        case.run_prefix(&engine, &objects[number], PART);
        check(&format!("unpinning, and an MSM over {number}"), expected);
    }
    assert_eq!(change(2, ResidencyChange::Evict).bytes, 0);
    check("evicting 2", [0, 1, 0, 1, 0]);
    // A pin ends with its object.
    change(1, ResidencyChange::Pin { bytes_max: bytes as u64 });
    let [zero, one, two, three, four] = objects;
    drop(one);
    for object in [&zero, &two, &four] {
        case.run_prefix(&engine, object, PART);
    }
    assert!(!engine.has_resident(&MsmCase::bases(&three)), "three objects fit");
    drop(held);
}

fn bases_are_warmed_pinned_and_evicted(isolation: &str) {
    let rig = ResidencyRig::new(&["--gpu-isolation", isolation]);
    let (points, gpus) = (points(1), rig.gpus());
    let bases = rig.client.put_bases(&points).unwrap();
    let id = bases.id();
    assert!(rig.listed(id).is_empty());
    assert!(bases.info().residency.is_empty());
    let warm = rig.set(id, Warm, &[]);
    assert_eq!(warm.iter().map(|held| held.device).collect::<Vec<_>>(), gpus);
    assert!(warm.iter().all(|held| !held.pinned && held.tables > 1 && held.bytes > BYTES));
    assert_eq!(rig.listed(id), warm);
    let first = gpus[0];
    let pinned = rig.set(id, Pin, &[first]);
    assert_eq!(pinned, [BasesResidency { pinned: true, ..warm[0] }]);
    assert_eq!(rig.set(id, Pin, &[first]), pinned, "a second pin changes nothing");
    assert_eq!(rig.listed(id)[0], pinned[0]);
    let scalars: Vec<_> = (0..POINTS).map(|i| Fr::from(i as u64 + 5)).collect();
    let sum = G1Projective::msm(&points, &scalars).unwrap();
    assert_eq!(rig.client.msm(&bases, &scalars).unwrap(), sum);
    for unknown in [vec![77], vec![first, 77]] {
        let refusal = rig.refused(id, Unpin, &unknown);
        assert_eq!(refusal.reason_text, "OUT_OF_RANGE");
        assert_eq!(refusal.index, Some(unknown.len() as u64 - 1), "{refusal:?}");
    }
    assert_eq!(rig.listed(id)[0], pinned[0], "a refused request changes nothing");
    assert_eq!(rig.set(id, Unpin, &[first]), [warm[0]]);
    rig.set(id, Pin, &[first]);
    let gone = rig.set(id, Evict, &[]);
    assert!(gone.iter().all(|held| held.bytes == 0 && !held.pinned) && gone.len() == gpus.len());
    assert!(rig.listed(id).is_empty());
    assert_eq!(rig.client.msm(&bases, &scalars).unwrap(), sum, "they stay on the server");
    assert_eq!(rig.listed(id).len(), 1, "the GPU that has summed them");
    let unknown = rig.refused(BasesId([7; 32]), Warm, &[]);
    assert_eq!(unknown.code, Code::NotFound);
    stop(rig.child);
}

#[test]
fn workers_warm_pin_and_evict_bases() {
    bases_are_warmed_pinned_and_evicted("process");
}

#[test]
fn a_daemon_without_workers_warms_pins_and_evicts_bases() {
    bases_are_warmed_pinned_and_evicted("none");
}

#[test]
fn a_new_worker_gets_pinned_bases_and_a_release_ends_the_pin() {
    let rig = ResidencyRig::new(&[]);
    let (gpus, id) = (rig.gpus(), rig.client.put_bases(&points(2)).unwrap().id());
    let pinned = rig.set(id, Pin, &[]);
    let charged = || gpus.iter().map(|gpu| rig.pinned_bytes(*gpu)).collect::<Vec<_>>();
    let bytes: Vec<_> = pinned.iter().map(|held| held.bytes).collect();
    wait_until("the gauges", || charged() == bytes);
    let workers: Vec<Pid> = children(rig.child.id());
    for worker in workers {
        kill_process(worker, Signal::KILL).unwrap();
    }
    // While a worker is being replaced, its device is not listed.
    wait_until("pinned again", || rig.listed(id) == pinned);
    rig.client.release(id).unwrap();
    wait_until("no charge", || charged().iter().all(|bytes| *bytes == 0));
    let again = rig.client.put_bases(&points(2)).unwrap();
    assert!(rig.listed(again.id()).is_empty(), "the pin ended with the bases");
    stop(rig.child);
}

#[test]
fn limits_on_pins_name_the_bytes() {
    let rig = ResidencyRig::new(&["--pinned-bases-percent", "0"]);
    let id = rig.client.put_bases(&points(3)).unwrap().id();
    rig.set(id, Warm, &[]);
    let refusal = rig.refused(id, Pin, &[]);
    let got = (refusal.code, refusal.reason_text.as_str());
    assert_eq!(got, (Code::ResourceExhausted, "PINNED_BASES"));
    let message = &refusal.message;
    for text in [&format!("takes {BYTES} bytes of GPU 0"), "pinned_bases_percent", "leaves 0"] {
        assert!(message.contains(text), "{message}");
    }
    assert!(rig.listed(id).iter().all(|held| !held.pinned));
    stop(rig.child);

    let folder = tempfile::tempdir().unwrap();
    let tenants = folder.path().join("tenants.toml");
    // A byte less than two tables take.
    let limit = BYTES + (POINTS * size_of::<G1Affine>()) as u64 - 1;
    fs::write(&tenants, format!("[tenants.default]\npinned_bases_bytes_max = {limit}\n")).unwrap();
    let rig = ResidencyRig::new(&["--tenants", tenants.to_str().unwrap()]);
    let first = rig.gpus()[0];
    let [one, two] = [4, 5].map(|seed| rig.client.put_bases(&points(seed)).unwrap().id());
    let pinned = rig.set(one, Pin, &[first]);
    assert_eq!((pinned[0].bytes, pinned[0].tables), (BYTES, 1), "no room for tables");
    let refusal = rig.refused(two, Pin, &[first]);
    assert_eq!(refusal.reason_text, "TENANT_QUOTA");
    let text = format!("pinned_bases_bytes_max leaves {}", limit - BYTES);
    assert!(refusal.message.contains(&text), "{}", refusal.message);
    rig.set(one, Unpin, &[]);
    assert!(rig.set(two, Pin, &[first])[0].pinned);
    stop(rig.child);
}

#[test]
fn stored_bases_are_preloaded_before_the_daemon_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    fs::create_dir(&data_dir).unwrap();
    let data = ["--data-dir", data_dir.to_str().unwrap()];
    let rig = ResidencyRig::new(&data);
    let (last, persist) = (*rig.gpus().last().unwrap(), true);
    let [pinned, warm] = [6, 7].map(|seed| {
        let options = PutOptions { persist, ..PutOptions::default() };
        rig.client.put_bases_with(options, &points(seed)).unwrap().id()
    });
    stop(rig.child);
    let file = folder.path().join("preload.toml");
    let unknown = BasesId([9; 32]);
    let text = format!(
        "[[bases]]\nid = \"{pinned}\"\npin = true\ndevices = [{last}]\n\
         [[bases]]\nid = \"{unknown}\"\n\
         [[bases]]\nid = \"{warm}\"\n"
    );
    fs::write(&file, text).unwrap();
    let rig = ResidencyRig::new(&[&data[..], &["--preload", file.to_str().unwrap()]].concat());
    let on_last = rig.listed(pinned);
    assert!(on_last.len() == 1 && on_last[0].pinned && on_last[0].device == last, "{on_last:?}");
    assert_eq!(rig.listed(warm).len(), rig.gpus().len());
    assert!(rig.listed(warm).iter().all(|held| !held.pinned && held.tables > 1));
    assert_eq!(metric(rig.metrics, "capstan_preload_failures"), 1);
    stop(rig.child);
}

#[test]
fn a_worker_that_hangs_delays_no_list() {
    if emulated::driver().is_none() {
        return println!("skipped: the number of GPUs is fixed");
    }
    let rig = ResidencyRig::new(&[]);
    let id = rig.client.put_bases(&points(8)).unwrap().id();
    let warm = rig.set(id, Warm, &[]);
    let [silent, other] = rig.stop_a_worker(id);
    // The daemon waits for 20 seconds before it replaces the worker.
    let held: Vec<_> = warm.iter().filter(|held| held.device == other).copied().collect();
    for found in [rig.found(id), rig.client.stat(id).unwrap()] {
        assert_eq!((&found.residency, found.unknown_devices), (&held, vec![silent]));
    }
    let report = http(rig.metrics, "/status.json");
    let (head, body) = report.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{report}");
    let report: Value = serde_json::from_str(body).unwrap();
    for of_device in report["residency"].as_array().unwrap() {
        let expected = match of_device["device"].as_u64() {
            Some(device) if device == u64::from(silent) => Value::Null,
            _ => json!({
                "bases": 1, "bytes": held[0].bytes, "pinned_bases": 0, "pinned_bytes": 0,
            }),
        };
        assert_eq!(of_device["total"], expected, "{report}");
    }
    assert_eq!(report["residency"].as_array().unwrap().len(), 2, "{report}");
    // The new worker holds nothing.
    wait_until("the worker is replaced", || rig.found(id).unknown_devices.is_empty());
    assert_eq!(rig.listed(id), held);
    stop(rig.child);
}

#[test]
fn pins_of_a_call_that_is_too_late_are_undone() {
    if emulated::driver().is_none() {
        return println!("skipped: the number of GPUs is fixed");
    }
    let rig = ResidencyRig::new(&[]);
    let id = rig.client.put_bases(&points(9)).unwrap().id();
    // Opens lanes to both workers.
    rig.set(id, Warm, &[]);
    let [silent, other] = rig.stop_a_worker(id);
    let hasty = Client::builder(&rig.target).deadline(Duration::from_secs(6)).retries(0);
    let hasty = BlockingClient::from_builder(hasty).unwrap();
    let is_pinned = || rig.found(id).residency.iter().any(|held| held.pinned);
    thread::scope(|scope| {
        let late = scope.spawn(|| hasty.set_residency(id, Pin, &[other, silent]));
        wait_until("the first pin, or the end of the call", || is_pinned() || late.is_finished());
        let late = late.join().unwrap();
        assert!(
            late.as_ref().is_err_and(|error| error.code() == Code::DeadlineExceeded),
            "{late:?}"
        );
    });
    wait_until("the pin is undone", || !is_pinned());
    wait_until("the charge is returned", || rig.pinned_bytes(other) == 0);
    stop(rig.child);
}
