//! Tenants that tokens name: what one of them puts or uses is invisible to the others.

use std::{fs, path::Path};

use capstan::{
    client::{
        Client, ClientError, Code, Fr, G1Affine, ProgramBuilder, ProgramRun, PutOptions,
        ResidencyAction,
    },
    server::ServerSettings,
};

use crate::identity::{
    caller,
    daemon::{TestServer, messages, retry_until_ok},
    http, known, start,
    tokens::{Tokens, settings},
};

/// A server for the tenants `a` and `b`, with a client of each.
struct TwoTenants {
    tokens: Tokens,
    server: TestServer,
    a: Client,
    b: Client,
}

impl TwoTenants {
    async fn new(change: impl FnOnce(&Tokens, ServerSettings) -> ServerSettings) -> Self {
        let tokens = Tokens::new();
        let [a, b] = ["a", "b"].map(|tenant| tokens.add(tenant, Some(tenant), None));
        let server = start(change(&tokens, settings(&tokens.path)));
        let connect = async |token| http(&server).token(token).connect().await.unwrap();
        let (a, b) = (connect(a).await, connect(b).await);
        Self { tokens, server, a, b }
    }
}

fn write_tenants(tokens: &Path, text: &str) -> std::path::PathBuf {
    let path = tokens.with_file_name("tenants.toml");
    fs::write(&path, text).unwrap();
    path
}

fn is_unknown<T>(answer: Result<T, ClientError>) -> bool {
    answer.is_err_and(|error| error.code() == Code::NotFound)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_belong_to_the_tenant_that_put_them() {
    let tenants = TwoTenants::new(|_, settings| settings).await;
    let TwoTenants { a, b, .. } = &tenants;
    let scalars = messages::random(8);
    let vector = a.put_vector(&scalars[..]).await.unwrap();
    assert!(is_unknown(b.get_vector(&vector).await), "b reads a's vector");
    assert!(is_unknown(b.release_vector(vector.id).await), "b releases a's vector");
    // The same id is another vector.
    let other = b.put_vector_as(vector.id, &scalars[..4], None).await.unwrap();
    b.release_vector(other.id).await.unwrap();
    assert_eq!(a.get_vector(&vector).await.unwrap().len(), 8 * 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bases_are_shared_by_content_but_seen_by_their_tenants_only() {
    let folder = tempfile::tempdir().unwrap();
    for persist in [false, true] {
        let data_dir = Some(folder.path().to_owned());
        let change = |_: &Tokens, settings| ServerSettings { data_dir, ..settings };
        let TwoTenants { a, b, server, .. } = TwoTenants::new(change).await;
        let points = messages::points::<G1Affine>(8);
        let scalars: Vec<Fr> = messages::random(8);
        let put = async |client: &Client, label: &str| {
            let options = PutOptions { label: label.into(), persist, ..PutOptions::default() };
            client.put_bases_with(options, &points).await.unwrap()
        };
        let of_a = put(&a, "of a").await;
        assert!(is_unknown(b.stat(of_a.id()).await), "b sees a's bases");
        assert!(b.list(None).await.unwrap().is_empty());
        assert!(is_unknown(b.msm(&of_a, &scalars[..]).await), "b uses a's bases");
        assert!(is_unknown(b.release(of_a.id()).await), "b releases a's bases");
        let pin = async |client: &Client| {
            client.set_residency(of_a.id(), ResidencyAction::Pin, &[]).await
        };
        assert!(is_unknown(pin(&b).await), "b pins a's bases");
        assert!(pin(&a).await.unwrap().is_empty(), "no GPU holds them");
        let of_b = put(&b, "of b").await;
        assert_eq!(of_a.id(), of_b.id(), "bases are named by their content");
        let labels = async |client: &Client| {
            let list = client.list(None).await.unwrap();
            list.into_iter().map(|bases| bases.label).collect::<Vec<_>>()
        };
        assert_eq!(
            (labels(&a).await, labels(&b).await),
            (vec!["of a".into()], vec!["of b".into()])
        );
        a.release(of_a.id()).await.unwrap();
        assert!(is_unknown(a.msm(&of_a, &scalars[..]).await));
        let sum = b.msm(&of_b, &scalars[..]).await.unwrap();
        assert_eq!(sum, messages::sum(&points, &scalars));
        if persist {
            drop(server);
            let restarted = |_: &Tokens, settings| {
                let data_dir = Some(folder.path().to_owned());
                ServerSettings { data_dir, ..settings }
            };
            let tenants = TwoTenants::new(restarted).await;
            let TwoTenants { a, b, .. } = &tenants;
            let loaded = async || match labels(b).await {
                loaded if loaded == ["of b"] => Ok(()),
                loaded => Err(loaded),
            };
            retry_until_ok("b's bases are loaded", loaded).await;
            assert!(labels(a).await.is_empty(), "a has released its bases");
            assert_eq!(b.msm(&of_b, &scalars[..]).await.unwrap(), sum);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_matrix_belongs_to_the_tenant_that_put_it() {
    let tenants = TwoTenants::new(|_, settings| settings).await;
    let TwoTenants { a, b, .. } = &tenants;
    let matrix = messages::some_matrix();
    let id = a.put_matrix(&matrix).await.unwrap().id();
    assert!(is_unknown(b.stat_matrix(id).await), "b sees a's matrix");
    assert!(is_unknown(b.get_matrix(id).await), "b reads a's matrix");
    assert!(is_unknown(b.release_matrix(id).await), "b releases a's matrix");
    assert!(b.list_matrices().await.unwrap().is_empty());
    assert_eq!(b.put_matrix(&matrix).await.unwrap().id(), id, "named by its content");
    a.release_matrix(id).await.unwrap();
    assert_eq!(b.get_matrix(id).await.unwrap(), matrix);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tenant_has_the_limits_of_the_file_which_is_read_again() {
    let limits = "[tenants.a]\nuploads_max = 1\n[tenants.b]\n";
    let tenants = TwoTenants::new(|tokens, settings| {
        let tenants = Some(write_tenants(&tokens.path, limits));
        ServerSettings { tenants, ..settings }
    });
    let TwoTenants { a, b, server, tokens } = tenants.await;
    let scalars = messages::random(4);
    let first = a.put_vector(&scalars[..]).await.unwrap();
    let refused = a.put_vector(&scalars[..]).await.unwrap_err();
    assert_eq!(refused.reason_text(), "TENANT_QUOTA", "{refused}");
    for _ in 0..3 {
        b.put_vector(&scalars[..]).await.unwrap();
    }
    write_tenants(&tokens.path, "[tenants.a]\nuploads_max = 2\n");
    server.reloader.reload();
    let put = async || a.put_vector(&scalars[..]).await;
    retry_until_ok("a may put two vectors", put).await;
    a.release_vector(first.id).await.unwrap();
    let refused = b.put_vector(&scalars[..]).await.unwrap_err();
    assert_eq!((refused.code(), refused.reason_text()), (Code::PermissionDenied, "TENANT_UNKNOWN"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_that_calls_of_a_tenant_keep_are_limited() {
    let limits = "[tenants.a]\nvectors_max = 1\n[tenants.b]\n";
    let tenants = TwoTenants::new(|tokens, settings| {
        let tenants = Some(write_tenants(&tokens.path, limits));
        ServerSettings { tenants, ..settings }
    });
    let TwoTenants { a, b, server: _server, .. } = tenants.await;
    let mut program = ProgramBuilder::new();
    let powers = program.powers(Fr::from(1), Fr::from(2), 4).unwrap();
    let program = program.build().unwrap();
    let keep = async |client: &Client| {
        let result = client.run(ProgramRun::new(&program).keep(powers)).await?;
        result.kept(powers)
    };
    let first = keep(&a).await.unwrap();
    let refused = keep(&a).await.unwrap_err();
    assert_eq!(refused.reason_text(), "TENANT_QUOTA", "{refused}");
    assert!(refused.to_string().contains("vectors_max"), "{refused}");
    // Uploads have another limit, and each tenant has its limits.
    a.put_vector(&messages::random(4)[..]).await.unwrap();
    for _ in 0..3 {
        keep(&b).await.unwrap();
    }
    a.release_vector(first.id).await.unwrap();
    keep(&a).await.expect("the slot is free again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_tenants_lists_callers_whose_credentials_name_none() {
    let tokens = Tokens::new();
    let (listed, other) = (tokens.add("ci", None, None), tokens.add("dev", None, None));
    let text = "[tenants.a]\ncallers = [\"token:ci\"]\n";
    let tenants = Some(write_tenants(&tokens.path, text));
    let server = start(ServerSettings { tenants, ..settings(&tokens.path) });
    let as_caller = async |token: &str| caller(http(&server).token(token)).await.unwrap();
    assert_eq!(as_caller(&listed).await, known("token:ci", "a"));
    assert_eq!(as_caller(&other).await, known("token:dev", "default"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_knows_its_own_load_exactly_and_that_of_others_roughly() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let with_socket =
        |_: &Tokens, settings| ServerSettings { admin_socket: Some(socket.clone()), ..settings };
    let tenants = TwoTenants::new(with_socket).await;
    let TwoTenants { a, b, .. } = &tenants;
    let operator = Client::connect(format!("unix:{}", socket.display())).await.unwrap();
    let load = async |client: &Client| client.info().await.unwrap().load.unwrap();
    b.put_bases(&messages::points::<G1Affine>(5)).await.unwrap();
    let own_bytes = load(b).await.store_bytes;
    assert_eq!(own_bytes, load(&operator).await.store_bytes, "nobody else stores anything");
    for count in [3, 7, 11] {
        a.put_bases(&messages::points::<G1Affine>(count)).await.unwrap();
    }
    let (all, seen) = (load(&operator).await, load(b).await);
    let others = all.store_bytes - own_bytes;
    assert!(!others.is_power_of_two() && others > own_bytes, "{others}");
    assert_eq!(seen.store_bytes, own_bytes + (1 << others.ilog2()));
    assert_eq!((all.objects, seen.objects), (4, 1 + 2));
    // Messages that are on their way count, too: they are smaller than the difference.
    let vector = b.put_vector(&messages::random(3000)[..]).await.unwrap();
    a.put_vector(&messages::random(6000)[..]).await.unwrap();
    let (all, seen) = (load(&operator).await, load(b).await);
    assert!(all.bytes_in_flight >= 9000 * 32, "{all:?}");
    let rounded = (3000 * 32 + (1 << 17))..(9000 * 32);
    assert!(rounded.contains(&seen.bytes_in_flight), "{seen:?}");
    b.release_vector(vector.id).await.unwrap();
}
