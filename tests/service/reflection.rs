//! Reflection, and the `Debug` output of messages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use capstan::{
    buffer::{PayloadPool, UploadBuffer},
    client::{Fr, ScalarEncoding, ScalarInput},
    server::ServerSettings,
    wire::v1,
};
use futures_util::{StreamExt, stream};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_reflection::pb::{
    v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest as Ask,
        server_reflection_response::MessageResponse as Answer,
    },
    v1alpha,
};

use crate::service::daemon::{
    TEST_TIMEOUT, TestServer, load, messages, programs, retry_until_ok, until_idle,
};

async fn ask(channel: &Channel, ask: Ask) -> Result<Option<Answer>, Status> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
    let mut client = ServerReflectionClient::new(channel.clone());
    let answers = client.server_reflection_info(stream::iter([request])).await?;
    let answer = answers.into_inner().message().await?;
    Ok(answer.and_then(|answer| answer.message_response))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_lists_every_service_and_describes_it() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let Ok(Some(Answer::ListServicesResponse(list))) =
        ask(&channel, Ask::ListServices(String::new())).await
    else {
        panic!("no list");
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    let ours = ["capstan.v1.Admin", "capstan.v1.Compute", "capstan.v1.Store"];
    let others = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    for service in ours.into_iter().chain(others) {
        assert!(names.iter().any(|name| name == service), "{service} is not in {names:?}");
    }
    for service in ours {
        let Ok(Some(Answer::FileDescriptorResponse(files))) =
            ask(&channel, Ask::FileContainingSymbol(service.into())).await
        else {
            panic!("{service} is not described");
        };
        let name = service.rsplit('.').next().unwrap().as_bytes();
        let found = |file: &Vec<u8>| file.windows(name.len()).any(|word| word == name);
        assert!(files.file_descriptor_proto.iter().any(found), "{service}");
    }
}

/// Many tools know no later version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_describes_services_to_clients_of_v1alpha() {
    use v1alpha::{
        server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let daemon = TestServer::start(ServerSettings::default());
    let mut client = ServerReflectionClient::new(daemon.channel().await);
    let symbol = MessageRequest::FileContainingSymbol("capstan.v1.Compute".into());
    let request =
        v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(symbol) };
    let answers = client.server_reflection_info(stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
        panic!("the service is not described");
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_reflection_that_nobody_reads_count_as_in_flight() {
    let idle_timeout = Duration::from_secs(1);
    let daemon = TestServer::start(ServerSettings { idle_timeout, ..ServerSettings::default() });
    let channel = daemon.channel().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.address)).unwrap();
    // Repeated if this test is late: the server gives up the answer after the idle timeout.
    let unread = retry_until_ok("an unread answer", async || {
        let stalled = endpoint.clone().initial_stream_window_size(0).connect().await.unwrap();
        let ask = Ask::FileContainingSymbol("capstan.v1.Store".into());
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
        let requests = stream::iter([request]).chain(stream::pending());
        let unread = ServerReflectionClient::new(stalled).server_reflection_info(requests).await;
        let begun = Instant::now();
        // With the requests that may be waiting.
        while load(&channel).await.bytes_in_flight <= 4 << 20 {
            if begun.elapsed() > 2 * idle_timeout {
                return Err(unread.map(drop));
            }
        }
        Ok(unread.expect("the response begins"))
    });
    drop(unread.await);
    until_idle(&channel, "an answer that was left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_requests_of_reflection_are_refused() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let asked = async |bytes| ask(&channel, Ask::FileContainingSymbol("x".repeat(bytes))).await;
    // The call ends, as tonic's handler has it. An answer would repeat the request.
    assert!(matches!(asked(8 << 10).await, Ok(None)));
    assert_eq!(asked(1 << 10).await.unwrap_err().code(), Code::NotFound, "an unknown symbol");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_caller_of_reflection_is_given_up() {
    let idle_timeout = Duration::from_millis(300);
    let daemon = TestServer::start(ServerSettings { idle_timeout, ..ServerSettings::default() });
    let mut client = ServerReflectionClient::new(daemon.channel().await);
    let ended = async {
        match client.server_reflection_info(stream::pending()).await {
            Ok(answers) => assert!(!matches!(answers.into_inner().message().await, Ok(Some(_)))),
            Err(_given_up) => {}
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the call ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_can_be_disabled() {
    let daemon =
        TestServer::start(ServerSettings { reflection: false, ..ServerSettings::default() });
    let refused = ask(&daemon.channel().await, Ask::ListServices(String::new())).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

/// The `Debug` output of everything that holds elements.
fn debug_outputs(elements: &[Fr]) -> Vec<String> {
    let (bytes, pool) = (messages::canonical(elements), PayloadPool::new(0, 0).unwrap());
    let vector = || messages::scalars(v1::ScalarEncoding::Canonical, bytes.clone());
    let chunk = || messages::chunk(7, bytes.clone());
    let header =
        messages::vector(&Bytes::new(), v1::ScalarEncoding::Canonical, elements.len() as u64);
    let encoding = ScalarEncoding::Canonical;
    let input = |input: ScalarInput<'_>| format!("{input:?} {input:#?}");
    let rows = v1::ntt_response::Output::Rows(vector());
    let output = v1::RunOutputChunk { output: 0, chunk: Some(chunk()) };
    let output = v1::run_response::Message::Chunk(output);
    let run = programs::call([programs::input(1, 2)], vec![programs::inline(elements)], vec![]);
    let sent = v1::ntt_stream_response::Message::Chunk(chunk());
    vec![
        format!("{:?} {:#?}", chunk(), chunk()),
        format!("{:?} {:#?}", vector(), vector()),
        format!(
            "{:?}",
            messages::msm(messages::spec(1, messages::stored(&Bytes::new(), 0, 0)), vector())
        ),
        format!("{:?}", messages::ntt(messages::ntt_spec(1), vector())),
        format!("{:?}", v1::NttResponse { result: None, output: Some(rows) }),
        format!("{:?}", v1::NttStreamResponse { message: Some(sent) }),
        format!("{:?}", v1::RunResponse { message: Some(output) }),
        format!("{:?}", programs::run(run, vec![programs::chunk(0, 7, bytes.clone())])),
        format!("{:?}", v1::GetResponse { chunk: Some(chunk()) }),
        format!("{:?}", messages::put_vector(header, vec![chunk()])),
        format!("{0:?} {0:#?}", UploadBuffer::from_bytes(&pool, &bytes, vec![]).unwrap()),
        input(elements.into()),
        input(elements.to_vec().into()),
        input(ScalarInput::Bytes { encoding, bytes: &bytes }),
        input(ScalarInput::Shared { encoding, bytes: bytes.clone() }),
    ]
}

/// The output is the same for other elements, so it shows nothing of them.
#[test]
fn debug_output_shows_no_element() {
    let elements = messages::random(4);
    let (one, other) = (debug_outputs(&elements[..2]), debug_outputs(&elements[2..]));
    assert_eq!(one, other);
    assert_ne!(one, debug_outputs(&elements[..1]), "the number of elements is not shown");
}
