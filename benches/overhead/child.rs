//! A server in its own process, so that its memory is measured apart from the client's.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use ark_bls12_381::G1Projective;
use ark_ec::{CurveGroup, PrimeGroup};
use capstan::{
    client::{BasesId, G1Affine},
    curve::points::{CurvePoint, PointSlice, content_hash},
    server::{Engines, Server, ServerSettings},
    store::{ObjectData, ObjectStore, StoredObject, StoredPoints, unix_time_s},
    tenant::Tenants,
    wire::decode::ObjectId,
};

/// The argument that makes this binary a server.
const SERVE: &str = "serve";

/// If the arguments contain [`SERVE`], serves and never returns.
pub fn serve_if_asked() {
    let arguments: Vec<String> = std::env::args().collect();
    let Some(at) = arguments.iter().position(|argument| argument == SERVE) else { return };
    let folder = Path::new(&arguments[at + 1]);
    let settings = ServerSettings {
        listen: Some(([127, 0, 0, 1], 0).into()),
        unix_socket: Some(folder.join("capstan.sock")),
        data_dir: Some(folder.to_owned()),
        ..ServerSettings::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("threads for a server");
    runtime.block_on(async {
        let engines = Engines::cpu(0, "a bench").expect("threads for an engine");
        let server = Server::bind(settings, engines).await.expect("a free port");
        println!("{}", server.tcp_address().expect("listens on TCP"));
        // Exit when the parent ends: its end of the pipe is closed then.
        std::thread::spawn(|| {
            let _closed = io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        server.serve().await.expect("serves until it is drained");
    });
    std::process::exit(0);
}

/// A running server.
pub struct ChildServer {
    child: Child,
    /// `http://127.0.0.1:port`
    pub tcp: String,
    /// `unix:/path`
    pub unix: String,
}

impl ChildServer {
    /// Starts this binary as a server whose data directory and socket are in `folder`.
    pub fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .arg(SERVE)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut address = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut address).expect("the server starts");
        Self {
            child,
            tcp: format!("http://{}", address.trim()),
            unix: format!("unix:{}", folder.join("capstan.sock").display()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // The process may have exited already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Writes bases `(i + 1) G` for i below `n` into the data directory in the store's format. An
/// upload would check the points, which takes minutes for 2^22 points.
pub fn write_multiples(folder: &Path, n: usize) -> BasesId {
    let generator = G1Projective::generator();
    let mut next = generator;
    let mut points: Vec<G1Affine> = Vec::with_capacity(n);
    while points.len() < n {
        let block = (n - points.len()).min(1 << 16);
        let sums: Vec<G1Projective> = (0..block)
            .map(|_| {
                let sum = next;
                next += generator;
                sum
            })
            .collect();
        points.extend(G1Projective::normalize_batch(&sums));
    }
    let id = ObjectId(content_hash(&points));
    let tenants = Tenants::default();
    let tenant = tenants.find(None, "").expect("the default tenant");
    let store = ObjectStore::open(u64::MAX, 1, Some(folder), &tenants);
    let store = Arc::new(store.expect("a data directory"));
    let bases = StoredObject {
        id,
        data: ObjectData::Bases(StoredPoints {
            points: G1Affine::into_bases(PointSlice::new(Arc::new(points))),
            infinities: 0,
        }),
        payload: None,
        label: "multiples of the generator".into(),
        created_s: unix_time_s(),
        persisted: false,
    };
    let room = store.reserve(&tenant, bases.bytes()).expect("room for the bases");
    let stored = store.insert(&tenant, bases, room, true);
    let runtime = tokio::runtime::Runtime::new().expect("threads for the store");
    runtime.block_on(stored).expect("space on the disk");
    BasesId(id.0)
}
