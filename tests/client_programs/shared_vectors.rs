//! Vectors in memory that the server shares.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        Client, ClientProgram, Fleet, Fr, MsmOptions, NttOptions, NttTransform, Prime31,
        ProgramBuilder, ProgramRun, PutOptions, RunOptions, SharedVector, VectorValue,
        Verification, blocking::BlockingClient,
    },
    server::ServerSettings,
};
use tempfile::TempDir;

use crate::client_programs::{
    common::{TestServer, points, scalars, serve, server},
    message,
};

const N: usize = 1 << 10;

/// A server on a Unix socket, and the target for clients.
fn local(settings: ServerSettings) -> (TestServer, TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let target = format!("unix:{}", socket.display());
    let server = serve(ServerSettings { unix_socket: Some(socket), ..settings });
    (server, folder, target)
}

/// A transform, and the product of its input and its output.
struct Transform {
    input: VectorValue,
    transformed: VectorValue,
    product: VectorValue,
    program: ClientProgram,
}

impl Transform {
    fn new() -> Self {
        let mut program = ProgramBuilder::new();
        let input = program.input(N as u64).unwrap();
        let transformed = program.ntt(input, NttTransform::forward()).unwrap();
        let product = program.multiply(input, transformed).unwrap();
        Self { input, transformed, product, program: program.build().unwrap() }
    }
}

async fn shared(client: &Client, values: &[Fr]) -> SharedVector {
    let mut vector = client.alloc_vector(values.len()).await.unwrap();
    assert!(vector.to_vec().iter().all(|element| *element == Fr::default()));
    vector.copy_from_slice(values);
    vector
}

/// Elements are copied in and out, and never beyond the end of the vector: a region is longer.
async fn copies_stay_inside(client: &Client, is_shared: bool) {
    let values = scalars(8);
    let mut vector = shared(client, &values).await;
    assert_eq!((vector.is_shared(), vector.len(), vector.is_empty()), (is_shared, 8, false));
    let mut part = [Fr::default(); 3];
    vector.read(5, &mut part);
    assert_eq!(part[..], values[5..]);
    vector.write(1, &part);
    let expected = [&values[..1], &part, &values[4..]].concat();
    assert_eq!(*vector.to_vec(), expected);
    vector.read(8, &mut []);
    vector.write(8, &[]);
    assert!(vector.as_ptr().is_aligned() && vector.as_mut_ptr().cast_const() == vector.as_ptr());

    let mut panics = |access: &mut dyn FnMut(&mut SharedVector)| {
        catch_unwind(AssertUnwindSafe(|| access(&mut vector))).is_err()
    };
    for start in [6, 9, usize::MAX] {
        let mut out = part;
        assert!(panics(&mut |vector| vector.read(start, &mut out)), "read from {start}");
        assert!(panics(&mut |vector| vector.write(start, &part)), "write from {start}");
    }
    for len in [7, 9] {
        let other = vec![Fr::default(); len];
        assert!(panics(&mut |vector| vector.copy_from_slice(&other)), "{len} elements");
    }
    assert_eq!(*vector.to_vec(), expected, "a refused write");
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_are_copied_within_the_bounds_of_a_vector() {
    let (server, _folder, target) = local(ServerSettings::default());
    copies_stay_inside(&Client::connect(&target).await.unwrap(), true).await;
    copies_stay_inside(&Client::connect(&server.target).await.unwrap(), false).await;
}

async fn runs_agree(client: &Client, is_shared: bool) {
    let Transform { input, transformed, product, program } = Transform::new();
    let values = scalars(N);
    let fft = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
    let products: Vec<_> = values.iter().zip(&fft).map(|(a, b)| *a * b).collect();
    let (mut a, mut b) = (shared(client, &values).await, client.alloc_vector(N).await.unwrap());
    assert_eq!((a.is_shared(), b.is_shared()), (is_shared, is_shared));
    for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
        let options = || RunOptions { verify, ..RunOptions::default() };
        let run = ProgramRun::new(&program).input(input, &a).send(product).write_to(transformed, b);
        let mut result = client.run_with(run, options()).await.unwrap();
        b = result.take_vector(transformed).unwrap();
        assert!(*b.to_vec() == fft && result.vector(product).unwrap() == products, "{verify:?}");
        assert!(message(result.take_vector(transformed)).contains("is required"), "taken twice");
        assert!(*a.to_vec() == values, "the input has changed");

        let run = ProgramRun::new(&program).in_place(input, transformed, a);
        a = client.run_with(run, options()).await.unwrap().take_vector(transformed).unwrap();
        assert!(*a.to_vec() == fft, "{verify:?}");
        a.copy_from_slice(&values);
        b.copy_from_slice(&[Fr::from(1); N]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_use_shared_memory_over_a_unix_socket() {
    let (_server, _folder, target) = local(ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    runs_agree(&client, true).await;
    // Dropped vectors are released.
    let released = async {
        while client.info().await.unwrap().load.unwrap().region_bytes > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), released).await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_send_the_elements_where_no_memory_is_shared() {
    let tcp = server();
    runs_agree(&Client::connect(&tcp.target).await.unwrap(), false).await;
    let settings = ServerSettings { region_bytes_max: 0, ..ServerSettings::default() };
    let (_server, _folder, target) = local(settings);
    runs_agree(&Client::connect(&target).await.unwrap(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_calls_take_shared_vectors_as_well() {
    let (_server, _folder, target) = local(ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    let points = points::<capstan::client::G1Affine>(64);
    let bases = client.put_bases(&points).await.unwrap();
    let values = scalars(64);
    let vector = shared(&client, &values).await;
    let expected = client.msm(&bases, &values).await.unwrap();
    assert_eq!(client.msm(&bases, &vector).await.unwrap(), expected);
    let stored = client.put_vector(&vector).await.unwrap();
    let options = MsmOptions::default();
    let sum = client.msm_with(&bases, stored.id, options).await.unwrap();
    assert_eq!(sum.points, [expected]);

    // The parts of several servers are copied.
    let fleet = Fleet::connect([Client::builder(&target)]).await.unwrap();
    let cut = fleet.put_bases_with(PutOptions::default(), &points[..], 2).await.unwrap();
    assert_eq!(fleet.msm(&cut, &vector).await.unwrap(), expected);
    let half = fleet.put_bases_with(PutOptions::default(), &points[..32], 2).await.unwrap();
    let batch = || MsmOptions { batch: 2, ..MsmOptions::default() };
    let sums = fleet.msm_with(&half, &vector, batch()).await.unwrap();
    assert_eq!(sums.points, fleet.msm_with(&half, &values, batch()).await.unwrap().points);

    // Several chunks.
    let values = scalars(1 << 15);
    let vector = shared(&client, &values).await;
    let copied = client.put_vector(&vector).await.unwrap();
    let sent = client.put_vector(&values).await.unwrap();
    let [copied, sent] = [client.get_vector(&copied).await, client.get_vector(&sent).await];
    assert!(copied.unwrap() == sent.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_another_length_and_outputs_read_later_are_refused() {
    let (_server, _folder, target) = local(ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    let Transform { input, transformed, product, program } = Transform::new();
    let values = scalars(N);
    let long = client.alloc_vector(N + 1).await.unwrap();
    let run = ProgramRun::new(&program).input(input, &values).write_to(transformed, long);
    assert!(message(client.run(run).await).starts_with("vector: wrong length: expected 1024"));
    let long = client.alloc_vector(N + 1).await.unwrap();
    let run = ProgramRun::new(&program).input(input, &long).send(transformed);
    assert!(message(client.run(run).await).contains("wrong length"));
    // The product reads the input after the transform.
    let vector = shared(&client, &values).await;
    let run = ProgramRun::new(&program).in_place(input, transformed, vector).send(product);
    assert!(message(client.run(run).await).contains("a later step reads"));
}

#[test]
fn the_blocking_client_allocates_vectors() {
    let (_server, _folder, target) = local(ServerSettings::default());
    let client = BlockingClient::connect(&target).unwrap();
    let Transform { input, product, program, .. } = Transform::new();
    let mut vector = client.alloc_vector(N).unwrap();
    vector.copy_from_slice(&[Fr::from(2); N]);
    let run = ProgramRun::new(&program).in_place(input, product, vector);
    let product_of_transform = client.run(run).unwrap().take_vector(product).unwrap();
    assert_eq!(product_of_transform.to_vec()[0], Fr::from(4 * N as u64));
    assert!(format!("{product_of_transform:?}").contains("1024 Fr, shared"));
    let empty = client.alloc_vector(0).unwrap();
    assert!(empty.is_empty());
}

/// An NTT over BabyBear and its inverse, from shared memory to shared memory.
async fn runs_over_31_bits_agree(client: &Client, is_shared: bool) {
    let field = Prime31::BabyBear;
    let values: Vec<u32> = (1..=N as u32).map(|value| value.pow(2) * 1999 % 2013265921).collect();
    let mut program = ProgramBuilder::new();
    let input = program.input_over(field, 1, N as u64).unwrap();
    let transformed = program.ntt(input, NttTransform::forward()).unwrap();
    let back = program.ntt(transformed, NttTransform::inverse()).unwrap();
    let program = program.build().unwrap();
    let [mut a, mut b] = [alloc31(client).await, alloc31(client).await];
    assert_eq!((a.is_shared(), b.is_shared()), (is_shared, is_shared));
    let expected = client.ntt31(field, &values, NttOptions::default()).await.unwrap().values;
    for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
        let options = || RunOptions { verify, ..RunOptions::default() };
        a.copy_from_slice(&values);
        let run = ProgramRun::new(&program).input(input, &a).send(back).write_to(transformed, b);
        let mut result = client.run_with(run, options()).await.unwrap();
        assert!(message(result.take_vector(transformed)).contains("field"), "over Fr");
        b = result.take_vector31(transformed).unwrap();
        assert!(*b.to_vec() == expected && result.vector31(back).unwrap() == values, "{verify:?}");
        assert!(message(result.take_vector31(transformed)).contains("is required"), "taken twice");
        let run = ProgramRun::new(&program).in_place(input, transformed, a);
        let mut result = client.run_with(run, options()).await.unwrap();
        a = result.take_vector31(transformed).unwrap();
        assert!(*a.to_vec() == expected, "{verify:?}");
    }
    a.write(7, &[field.modulus()]);
    let refused = client.run(ProgramRun::new(&program).input(input, &a).send(back)).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.reason_text(), refused.index()), ("NOT_CANONICAL", Some(7)));
    let run = ProgramRun::new(&program).input(input, &values);
    let of_fr = client.alloc_vector(N).await.unwrap();
    let message = message(client.run(run.write_to(back, of_fr)).await);
    assert!(message.starts_with("vector: ") && message.contains("field"), "{message}");
}

async fn alloc31(client: &Client) -> SharedVector<u32> {
    let vector = client.alloc_vector31(N).await.unwrap();
    assert!(vector.to_vec().iter().all(|element| *element == 0));
    vector
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_over_31_bits_use_shared_memory_if_there_is_some() {
    let (_server, _folder, target) = local(ServerSettings::default());
    runs_over_31_bits_agree(&Client::connect(&target).await.unwrap(), true).await;
    runs_over_31_bits_agree(&Client::connect(&server().target).await.unwrap(), false).await;
}
