//! Matrices: put, read, listed, released, kept over a restart.

use std::path::Path;

use bytes::Bytes;
use capstan::{
    client::{Client, PutOptions},
    curve::{Fr, G1Affine, points::PointEncoding},
    server::ServerSettings,
    sparse::{SparseBuilder, SparseMatrix, content_hash},
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status, transport::Channel};

use crate::service::daemon::{
    TestServer, compute, messages, programs, reason, retry_until_ok, store, until_idle,
};

fn start(folder: &Path) -> TestServer {
    let data_dir = Some(folder.to_owned());
    TestServer::start(ServerSettings { data_dir, ..ServerSettings::default() })
}

fn upload(matrix: &SparseMatrix) -> v1::MatrixUpload {
    let hash = blake3::hash(matrix.as_bytes()).as_bytes().to_vec();
    v1::MatrixUpload {
        payload_hash: hash.into(),
        label: "constraints".into(),
        ..messages::matrix(matrix)
    }
}

/// Puts a matrix; returns the server's description, and whether it had it already.
async fn put(
    channel: &Channel,
    upload: v1::MatrixUpload,
    chunks: Vec<v1::Chunk>,
) -> Result<(v1::Matrix, bool), Status> {
    let messages = messages::put_matrix(upload, chunks);
    let answer = store(channel).put(stream::iter(messages)).await?;
    let v1::PutResponse { object, existed } = answer.into_inner();
    Ok((matrix_of(object), existed))
}

fn matrix_of(object: Option<v1::Object>) -> v1::Matrix {
    match object.expect("an object").kind {
        Some(v1::object::Kind::Matrix(matrix)) => matrix,
        _ => panic!("not a matrix"),
    }
}

fn all_bytes(matrix: &SparseMatrix) -> Vec<v1::Chunk> {
    vec![messages::chunk(0, matrix.as_bytes().to_vec())]
}

async fn stat(channel: &Channel, id: &Bytes) -> Result<v1::Matrix, Status> {
    let id = Some(v1::stat_request::Id::ObjectId(id.clone()));
    let answer = store(channel).stat(v1::StatRequest { id }).await?.into_inner();
    match answer.status {
        Some(v1::stat_response::Status::Object(object)) => Ok(matrix_of(Some(object))),
        _ => panic!("not an object"),
    }
}

async fn get(channel: &Channel, request: v1::GetRequest) -> Result<Vec<u8>, Status> {
    let mut answers = store(channel).get(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await? {
        let chunk = answer.chunk.expect("always a chunk");
        assert_eq!(chunk.offset, all.len() as u64);
        all.extend_from_slice(&chunk.data);
    }
    Ok(all)
}

fn get_request(id: &Bytes, offset: u64, length: u64) -> v1::GetRequest {
    let id = Some(v1::get_request::Id::ObjectId(id.clone()));
    v1::GetRequest { id, offset, length, ..Default::default() }
}

async fn list(channel: &Channel, group: Option<v1::Group>) -> v1::ListResponse {
    let request = v1::ListRequest { group: group.map(Into::into), ..Default::default() };
    store(channel).list(request).await.unwrap().into_inner()
}

async fn release(channel: &Channel, id: &Bytes) -> Result<(), Status> {
    let id = Some(v1::release_request::Id::ObjectId(id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_matrix_is_put_read_listed_and_released() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let matrix = messages::some_matrix();
    let bytes = matrix.as_bytes();
    let (stored, existed) = put(&channel, upload(&matrix), all_bytes(&matrix)).await.unwrap();
    assert!(!existed);
    assert_eq!(stored.object_id, content_hash(&matrix).to_vec());
    let v1::Matrix { rows, columns, terms, coefficients, .. } = stored;
    assert_eq!((rows, columns, terms, coefficients), (4, 5, 6, 2));
    assert_eq!((stored.bytes, &*stored.label), (bytes.len() as u64, "constraints"));
    assert!(!stored.persisted);
    // A second put needs no payload.
    assert_eq!(put(&channel, upload(&matrix), vec![]).await.unwrap(), (stored.clone(), true));
    let id = &stored.object_id;
    assert_eq!(stat(&channel, id).await.unwrap(), stored);
    for (offset, length, expected) in
        [(0, 0, bytes), (1, 0, &bytes[1..]), (65, 7, &bytes[65..72]), (128, 0, &[])]
    {
        assert_eq!(get(&channel, get_request(id, offset, length)).await.unwrap(), expected);
    }
    let encoding = Some(v1::PointEncoding::Montgomery.into());
    let encoded = v1::GetRequest { encoding, ..get_request(id, 0, 0) };
    let refused = get(&channel, encoded).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "OUT_OF_RANGE"));
    let listed = list(&channel, None).await;
    assert_eq!((listed.bases.len(), listed.matrices), (0, vec![stored.clone()]));
    assert!(list(&channel, Some(v1::Group::G1)).await.matrices.is_empty());
    release(&channel, id).await.unwrap();
    for refused in [stat(&channel, id).await.err(), release(&channel, id).await.err()] {
        assert_eq!(refused.expect("unknown").code(), Code::NotFound);
    }
    assert!(list(&channel, None).await.matrices.is_empty());
    until_idle(&channel, "the matrix is released").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_list_each_object_once_in_order() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let client = Client::connect(format!("http://{}", daemon.address)).await.unwrap();
    let points = messages::points::<G1Affine>(6);
    for count in 1..=5 {
        client.put_bases(&points[..count]).await.unwrap();
    }
    let matrix = client.put_matrix(&messages::some_matrix()).await.unwrap();
    let whole = list(&channel, None).await;
    assert_eq!((whole.bases.len(), whole.matrices.len(), whole.next_page_token.len()), (5, 1, 0));
    for (page_size, pages) in [(1, 6), (4, 2), (5, 2), (6, 1), (u32::MAX, 1)] {
        let mut request = v1::ListRequest { page_size, ..v1::ListRequest::default() };
        let (mut bases, mut matrices) = (Vec::new(), Vec::new());
        for number in 1..=pages {
            let page = store(&channel).list(request.clone()).await.unwrap().into_inner();
            assert!(page.bases.len() + page.matrices.len() <= page_size as usize);
            assert_eq!(page.next_page_token.is_empty(), number == pages, "{page_size}: {number}");
            bases.extend(page.bases);
            matrices.extend(page.matrices);
            request.page_token = page.next_page_token;
        }
        assert_eq!((&bases, &matrices), (&whole.bases, &whole.matrices), "{page_size}");
    }
    // An object that is released between two pages does not disturb the others.
    let group = Some(v1::Group::G1.into());
    let request = v1::ListRequest { group, page_size: 2, ..v1::ListRequest::default() };
    let first = store(&channel).list(request.clone()).await.unwrap().into_inner();
    for bases in &first.bases {
        release(&channel, &bases.object_id).await.unwrap();
    }
    client.release_matrix(matrix.id()).await.unwrap();
    let rest = v1::ListRequest { page_size: 9, page_token: first.next_page_token, ..request };
    let rest = store(&channel).list(rest).await.unwrap().into_inner();
    assert_eq!((rest.bases, rest.matrices.len()), (whole.bases[2..].to_vec(), 0));
}

/// The chunks of a larger matrix come in any order and over several streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_matrix_is_striped_over_streams() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let mut builder = SparseBuilder::new(60_000, 1000);
    for row in 0..60_000_u64 {
        let terms = (0..row % 7).map(|at| (Fr::from(row * at), ((row * 31 + at) % 1000) as usize));
        builder.push_row(terms).unwrap();
    }
    let matrix = builder.build().unwrap();
    let whole = Bytes::copy_from_slice(matrix.as_bytes());
    let step = 512 << 10;
    let mut starts: Vec<_> = (0..whole.len()).step_by(step).collect();
    starts.reverse();
    let chunk = |start: &usize| {
        let end = (start + step).min(whole.len());
        messages::chunk(*start as u64, whole.slice(*start..end))
    };
    let header = v1::MatrixUpload { streams: 2, ..messages::matrix(&matrix) };
    let halves = starts.split_at(starts.len() / 2);
    let send = |starts: &[usize]| put(&channel, header.clone(), starts.iter().map(chunk).collect());
    let (first, second) = tokio::join!(send(halves.0), send(halves.1));
    assert_eq!(first.unwrap(), second.unwrap());
    let id = Bytes::copy_from_slice(&content_hash(&matrix));
    assert_eq!(get(&channel, get_request(&id, 0, 0)).await.unwrap(), whole);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_matrix_is_not_used_as_bases() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let matrix = messages::some_matrix();
    let (stored, _) = put(&channel, upload(&matrix), all_bytes(&matrix)).await.unwrap();
    let spec = messages::spec(v1::Group::G1 as i32, messages::stored(&stored.object_id, 0, 0));
    let scalars = messages::scalars(v1::ScalarEncoding::U8, vec![1; 4]);
    let refused = compute(&channel).msm(messages::msm(spec, scalars)).await.unwrap_err();
    let expected = (Code::FailedPrecondition, "OBJECT_KIND");
    assert_eq!((refused.code(), &*reason(&refused)), expected, "{refused}");
    assert!(refused.message().contains("the object is a matrix"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persisted_matrix_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    let channel = daemon.channel().await;
    let matrix = messages::some_matrix();
    let (fleeting, _) = put(&channel, upload(&matrix), all_bytes(&matrix)).await.unwrap();
    assert!(!fleeting.persisted);
    // Known but not on disk: the payload is needed once more.
    let persist = v1::MatrixUpload { persist: true, ..upload(&matrix) };
    let (stored, existed) = put(&channel, persist.clone(), all_bytes(&matrix)).await.unwrap();
    assert!(stored.persisted && !existed);
    let points = messages::put_points(&messages::points::<G1Affine>(2));
    store(&channel).put(stream::iter(points)).await.unwrap();
    tokio::task::spawn_blocking(move || drop(daemon)).await.unwrap();
    let daemon = start(folder.path());
    let channel = daemon.channel().await;
    let loaded = async || stat(&channel, &stored.object_id).await;
    assert_eq!(retry_until_ok("the matrix is loaded", loaded).await, stored);
    assert_eq!(list(&channel, None).await.matrices, std::slice::from_ref(&stored));
    let read = get(&channel, get_request(&stored.object_id, 0, 0)).await.unwrap();
    assert_eq!(read, matrix.as_bytes());
    assert!(put(&channel, persist, vec![]).await.unwrap().1, "the payload is known");
    release(&channel, &stored.object_id).await.unwrap();
    tokio::task::spawn_blocking(move || drop(daemon)).await.unwrap();
    let files = std::fs::read_dir(folder.path().join("bases")).unwrap();
    assert_eq!(files.count(), 0, "the file is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_puts_a_matrix_once() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = start(folder.path());
    let client = Client::connect(format!("http://{}", daemon.address)).await.unwrap();
    let matrix = messages::some_matrix();
    let handle = client.put_matrix(&matrix).await.unwrap();
    assert_eq!((handle.id().0, handle.shape()), (content_hash(&matrix), matrix.shape()));
    // No chunk is sent again.
    let untouched: capstan::client::Progress = std::sync::Arc::new(|_, _| panic!("sent"));
    let options = PutOptions { progress: Some(untouched), ..PutOptions::default() };
    let again = client.put_matrix_with(options, &matrix).await.unwrap();
    assert_eq!(again.info(), handle.info());
    assert_eq!(client.get_matrix(handle.id()).await.unwrap(), matrix);
    let options = PutOptions { persist: true, label: "a".into(), ..PutOptions::default() };
    let persisted = client.put_matrix_with(options, &matrix).await.unwrap();
    assert!(persisted.info().persisted);
    assert_eq!(client.matrix(handle.id()).await.unwrap().info(), persisted.info());
    assert_eq!(client.list_matrices().await.unwrap(), [persisted.info().clone()]);
    assert!(client.list(None).await.unwrap().is_empty());
    client.release_matrix(handle.id()).await.unwrap();
    assert!(client.stat_matrix(handle.id()).await.unwrap_err().is_not_found());
    let points = messages::points::<G1Affine>(2);
    let bases = client.put_bases(&points).await.unwrap();
    let wrong = capstan::client::MatrixId(bases.id().0);
    let refused = client.get_matrix(wrong).await.unwrap_err();
    assert!(refused.to_string().contains("not a matrix"), "{refused}");
    let encoded = client.get_encoded(bases.id(), PointEncoding::Montgomery, ..).await;
    assert_eq!(encoded.unwrap().len(), 192);
}

/// A product with the stored matrix, inside a program and as its output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_multiply_stored_matrices() {
    let server = TestServer::start(ServerSettings::default());
    let (channel, matrix) = (server.channel().await, messages::some_matrix());
    let (stored, _) = put(&channel, upload(&matrix), all_bytes(&matrix)).await.unwrap();
    let shape = matrix.shape();
    let vectors = messages::random(10);
    let product = programs::sparse_product(0, &stored.object_id, 4, shape.terms.into());
    let steps = [programs::input(2, 5), product, programs::pad(1, 6)];
    let outputs = vec![programs::send(1), programs::send(2)];
    let header = programs::call(steps, vec![programs::inline(&vectors)], outputs);
    let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    let mut products = vec![Fr::from(0); 8];
    for (vector, product) in vectors.chunks(5).zip(products.chunks_mut(4)) {
        matrix.multiply(vector, product);
    }
    let zeros = [Fr::from(0); 2];
    let padded = [&products[..4], &zeros, &products[4..], &zeros].concat();
    assert!(answer.vectors[&0][..] == messages::canonical(&products)[..]);
    assert!(answer.vectors[&1][..] == messages::canonical(&padded)[..]);
    assert_eq!(answer.result.steps[1].operation, "sparse_product");
    until_idle(&channel, "a product").await;
}
