//! What operators see of a server with a GPU: spans in its log, plans in `capstan info`, and plans
//! and times of jobs in `capstan bench --explain`.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use ark_ff::{BigInteger, PrimeField};
use capstan::{
    client::{NttOptions, Verification, blocking::BlockingClient},
    curve::{Fr, G1Affine},
    device::{self, OpenOptions},
    engine::{
        JobControl, MsmNttEngine,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::CudaEngine,
    },
    server::{Engines, ServerSettings},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use crate::{
    common::{TestServer, points, scalars, serve_with},
    daemon::cli_binary,
    known_msms::untested_policy,
    rig::{DeviceRig, first_device, options},
    transforms::{engine, plan, rows},
};

/// Enough scalars for an MSM to run on the GPU.
const N: usize = 300;

fn served(rig: &DeviceRig) -> TestServer {
    let oracle = ArkworksEngine::new(1).unwrap();
    let engines = Engines::on_gpus(engine(rig), oracle, "a test", 0);
    serve_with(ServerSettings::default(), engines)
}

type Fields = BTreeMap<String, String>;

/// A span or an event: its name after those of the spans around it, and its fields.
#[derive(Debug, Clone)]
struct Recorded {
    path: String,
    fields: Fields,
}

/// Records the spans and events of this process while it is switched on.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Option<Vec<Recorded>>>>);

impl Listener {
    /// The process's listener, installed on first use.
    fn installed() -> Self {
        static LISTENER: OnceLock<Listener> = OnceLock::new();
        let install = || {
            let listener = Self::default();
            let subscriber = tracing_subscriber::registry().with(listener.clone());
            tracing::subscriber::set_global_default(subscriber).unwrap();
            listener
        };
        LISTENER.get_or_init(install).clone()
    }

    fn push(&self, recorded: Recorded) {
        if let Some(all) = self.0.lock().unwrap().as_mut() {
            all.push(recorded);
        }
    }
}

/// Collects fields as text.
#[derive(Default)]
struct Texts(Fields);

impl Visit for Texts {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("capstan") || metadata.target().starts_with("device")
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut texts = Texts::default();
        attributes.record(&mut texts);
        context.span(id).unwrap().extensions_mut().insert(texts);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Texts>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut texts = Texts::default();
        event.record(&mut texts);
        let path = context.event_span(event).map_or(String::new(), |span| path(&span));
        self.push(Recorded { path: path + "/event", fields: texts.0 });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let texts = span.extensions_mut().remove::<Texts>().unwrap();
        self.push(Recorded { path: path(&span), fields: texts.0 });
    }
}

fn path<'a, S: LookupSpan<'a>>(span: &tracing_subscriber::registry::SpanRef<'a, S>) -> String {
    let names: Vec<_> = span.scope().from_root().map(|span| span.name()).collect();
    names.join("/")
}

/// Records spans and events during `work` and until, for each (path, count) of `ends`, that many
/// spans have ended: workers end theirs after the answer was sent.
fn record(ends: &[(&str, usize)], work: impl FnOnce()) -> Vec<Recorded> {
    let listener = Listener::installed();
    *listener.0.lock().unwrap() = Some(Vec::new());
    work();
    let complete = |all: &Vec<Recorded>| {
        let count = |name: &str| all.iter().filter(|one| one.path == name).count();
        ends.iter().all(|(name, least)| count(name) >= *least)
    };
    let begun = std::time::Instant::now();
    while !complete(listener.0.lock().unwrap().as_ref().unwrap()) {
        let all = listener.0.lock().unwrap();
        assert!(begun.elapsed().as_secs() < 60, "not all of {ends:?} in {all:#?}");
        drop(all);
        std::thread::sleep(Duration::from_millis(2));
    }
    listener.0.lock().unwrap().take().unwrap()
}

/// Every spelling of a number that would reveal it: the whole or a limb, decimal or hexadecimal.
fn spellings(number: &Fr) -> Vec<String> {
    let mut all = vec![number.into_bigint().to_string(), number.0.to_string()];
    for integer in [number.into_bigint(), number.0] {
        all.push(hex::encode(integer.to_bytes_le()));
        all.push(hex::encode(integer.to_bytes_be()));
        for limb in integer.0 {
            all.extend([format!("{limb}"), format!("{limb:x}"), format!("{limb:X}")]);
        }
        all.push(format!("{:?}", &integer.to_bytes_le()[..4]).replace(['[', ']'], ""));
    }
    all
}

/// The first record that reveals one of `numbers`.
fn reveals<'a>(all: &'a [Recorded], numbers: &[Fr]) -> Option<&'a Recorded> {
    let spellings: Vec<_> = numbers.iter().flat_map(spellings).collect();
    all.iter().find(|recorded| {
        let revealing = |text: &String| spellings.iter().any(|number| text.contains(number));
        recorded.fields.values().any(revealing)
    })
}

/// The fields of all spans of this path, each of which must have the fields `names`.
fn spans<'a>(all: &'a [Recorded], path: &str, names: &[&str]) -> Vec<&'a Fields> {
    let of_path: Vec<_> =
        all.iter().filter(|one| one.path == path).map(|recorded| &recorded.fields).collect();
    assert!(!of_path.is_empty(), "no {path} in {all:#?}");
    for fields in &of_path {
        for name in names {
            assert!(fields.contains_key(*name), "{path} has no {name}: {fields:?}");
        }
    }
    of_path
}

fn number(fields: &Fields, name: &str) -> u64 {
    fields[name].parse().unwrap_or_else(|_| panic!("{name} is not a number: {fields:?}"))
}

#[test]
fn spans_describe_jobs_and_never_scalars() {
    let rig = DeviceRig::new();
    let server = served(&rig);
    let client = BlockingClient::connect(&server.target).unwrap();
    let (bases, factors) = (points::<G1Affine>(N), scalars(N));
    // The job that imports the points outlives its call.
    let msm = record(&[("job", 1), ("call/job", 2), ("call", 3)], || {
        let bases = client.put_bases(&bases).unwrap();
        for _ in 0..2 {
            let _sum = client.msm(&bases, &factors).unwrap();
        }
    });
    for call in spans(&msm, "call", &["op", "caller", "tenant"]) {
        assert!(call["caller"] == "anonymous" && call["tenant"] == "default", "{call:?}");
    }
    let names = ["id", "op", "n", "run_us", "queue_us"];
    let (import, jobs) = (spans(&msm, "job", &names), spans(&msm, "call/job", &names));
    assert!(jobs.len() == 2 && jobs[0]["id"] != jobs[1]["id"], "{jobs:?}");
    for (job, op) in [(import[0], "\"import\""), (jobs[0], "\"msm\""), (jobs[1], "\"msm\"")] {
        assert!(job["op"] == op && number(job, "n") == N as u64);
    }
    let starts = spans(&msm, "call/job/msm_start", &["group", "n", "vectors", "tables", "plan"]);
    assert_eq!(starts.len(), 2);
    assert!(starts[0]["plan"].ends_with("no tables") && number(starts[0], "tables") == 1);
    // The second use of bases has tables.
    assert!(starts[1]["plan"].ends_with(" tables") && number(starts[1], "tables") > 1);
    for end in ["call/job/msm_pass", "call/job/msm_finish/msm_pass"] {
        let passes = msm.iter().filter(|one| one.path == end);
        for Recorded { fields, .. } in passes {
            // Sorting alone has several kernels.
            assert!(number(fields, "launches") > 3, "{fields:?}");
            assert_eq!((number(fields, "first"), number(fields, "points")), (0, N as u64));
        }
    }
    let all = msm.iter().filter(|one| one.path.ends_with("/msm_pass")).count();
    let times = ["sort_us", "accumulate_us", "reduce_us"];
    let finishes = spans(&msm, "call/job/msm_finish", &[&["passes"][..], &times].concat());
    let passes: u64 = finishes.iter().map(|fields| number(fields, "passes")).sum();
    assert_eq!(passes, all as u64);

    let values = scalars(5 << 10);
    let ntt = record(&[("call/job", 1), ("call", 1)], || {
        let options =
            NttOptions { batch: 5, verify: Verification::Probabilistic, ..Default::default() };
        client.ntt(&mut values.clone(), options).unwrap();
    });
    let job = spans(&ntt, "call/job", &["id", "op", "n", "steps", "run_us", "queue_us"])[0];
    assert_eq!((number(job, "n"), number(job, "steps")), (1 << 10, 2));
    let names = ["lg_n", "rows", "group", "slots", "plan", "transform_us", "check_us"];
    let whole = spans(&ntt, "call/job/ntt", &names)[0];
    assert_eq!((number(whole, "lg_n"), number(whole, "rows")), (10, 5));
    let sent = spans(&ntt, "call/job/ntt/ntt_send", &["first", "rows", "launches"]);
    let received = spans(&ntt, "call/job/ntt/ntt_receive", &["first", "rows"]);
    for groups in [&sent, &received] {
        assert_eq!(groups.iter().map(|fields| number(fields, "rows")).sum::<u64>(), 5);
    }
    assert!(sent.iter().all(|fields| number(fields, "launches") > 1), "{sent:?}");

    assert!(msm.iter().any(|one| one.path.ends_with("/event")), "no events were recorded");
    let some: Vec<_> = values.iter().step_by(16).copied().collect();
    for (all, numbers) in [(&msm, &factors), (&ntt, &some)] {
        assert!(reveals(all, numbers).is_none(), "{:?}", reveals(all, numbers));
    }
    // The search finds a scalar if there is one.
    for text in spellings(&factors[7]) {
        let revealed = record(&[], || tracing::info!(target: "device", text));
        assert!(reveals(&revealed, &factors).is_some(), "{text}");
    }
}

/// If there is memory for several groups of rows, a second thread receives their results.
#[test]
fn spans_of_another_thread_are_in_their_job() {
    let rig = DeviceRig::new();
    let ample = OpenOptions { memory_percent: 40, ..options(Duration::from_secs(60)).0 };
    let opened = device::open(&first_device(), &ample).unwrap();
    let engine = CudaEngine::new(CpuEngine::new(2).unwrap(), opened, untested_policy()).unwrap();
    // More rows than a group of 8 MiB has.
    let given = rows(1, 140_000);
    let mut found = given.clone();
    let all = record(&[("ntt", 1)], || {
        let executor =
            engine.ntt_in_place(&plan(1, 0), &mut found, &JobControl::default()).unwrap();
        assert_eq!(executor.engine, "cuda");
    });
    assert!(given.iter().zip(&found).all(|(x, y)| y[..] == [x[0] + x[1], x[0] - x[1]]));
    assert!(number(spans(&all, "ntt", &["slots"])[0], "slots") > 1);
    let [sent, received] = ["ntt/ntt_send", "ntt/ntt_receive"].map(|path| {
        let groups = spans(&all, path, &["first", "rows"]);
        groups.iter().map(|fields| number(fields, "rows")).collect::<Vec<_>>()
    });
    assert!(sent.len() > 1 && sent == received, "{sent:?}, {received:?}");
    assert_eq!(sent.iter().sum::<u64>(), given.len() as u64);
    drop(rig);
}

/// Runs the command line.
fn capstan(server: &TestServer, line: &[&str]) -> String {
    let mut command = Command::new(cli_binary());
    let done = command.args(line).env("CAPSTAN_SERVER", &server.target).output().unwrap();
    assert!(done.status.success(), "{line:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn info_shows_msm_plans() {
    let rig = DeviceRig::new();
    let server = served(&rig);
    let text = capstan(&server, &["info"]);
    let lines: Vec<_> = text.lines().filter(|line| line.contains(" 2^10 ")).collect();
    assert!(lines.len() >= 4, "{text}");
    for group in ["g1", "g2"] {
        let own: Vec<_> = lines.iter().filter(|line| line.contains(group)).collect();
        assert!(own[0].contains(" 1 ") && own[0].contains("no tables"), "{own:?}");
        assert!(own[1].contains(" 2 ") && !own[1].contains("no tables"), "{own:?}");
    }
    let info: serde_json::Value =
        serde_json::from_str(&capstan(&server, &["info", "--json"])).unwrap();
    let gpus = info["devices"].as_array().unwrap().iter().filter(|device| !device["gpu"].is_null());
    let (arena, mut plans) = (rig.gpu.arena().bytes(), 0);
    for plan in gpus.flat_map(|device| device["gpu"]["msm_plans"].as_array().unwrap()) {
        let [lg_n, uses, tables, bytes] =
            ["lg_n", "uses", "tables", "table_bytes"].map(|name| plan[name].as_u64().unwrap());
        let width = if plan["group"] == "g1" { 96 } else { 192 };
        assert_eq!(bytes, (tables * width) << lg_n, "{plan}");
        assert!(bytes <= arena && [1, 2, 8].contains(&uses) && (uses == 1) == (tables == 1));
        plans += 1;
    }
    assert!(plans >= lines.len(), "{info}");
}

#[test]
fn bench_explain_shows_how_jobs_ran() {
    let rig = DeviceRig::new();
    let server = served(&rig);
    let bench = |op, sizes| {
        let many = ["bench", "--op", op, "--sizes", sizes, "--repeats", "2", "--concurrency", "1"];
        capstan(&server, &[&many[..], &["--explain"]].concat())
    };
    for (op, sizes, large, by) in [("msm", "4,9", "2^9", "windows"), ("ntt", "4,12", "2^12", "2^")]
    {
        let text = bench(op, sizes);
        let line = |size: &str| {
            let begins = format!("{size}, concurrency 1: ");
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(&begins));
            lines.next().unwrap_or_else(|| panic!("no line for {size}: {text}")).to_owned()
        };
        assert!(line("2^4").starts_with("cpu, "), "{text}");
        let large = line(large);
        assert!(large.starts_with("cuda, ") && large.contains(by), "{text}");
    }
    let text = bench("ntt", "12");
    assert!(text.contains("; on the device transform "), "{text}");
}
