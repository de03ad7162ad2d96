//! Requests with long lists of small entries, which would take many times the bytes of their
//! encoding.

use http_body_util::Full;
use tonic::body::Body;

use crate::{
    daemon::client_without_deadlines,
    table::{World, settings},
};

/// Entries in a message of nearly `message_payload_bytes_max`.
const ENTRIES: usize = 500_000;
/// A message, as its client and the server hold it. Decoded, it would take 66 MiB.
const TAKEN_MAX: u64 = 24 << 20;

const INVALID_ARGUMENT: &str = "3";

/// An encoded field of `number` with these bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut encoded).expect("room");
    encoded.extend_from_slice(bytes);
    encoded
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_are_refused_before_they_take_memory() {
    let world = World::new(settings()).await;
    let entries = |number| field(number, &[]).repeat(ENTRIES);
    let program = field(1, &entries(1));
    // Packed lists of values: the inputs of a step, and the outputs of an estimate.
    let values = [0; ENTRIES];
    let concat = field(1, &field(1, &field(8, &field(1, &values))));
    let calls = [
        ("capstan.v1.Compute/Estimate", field(1, &program)),
        ("capstan.v1.Store/PutProgram", program.clone()),
        ("capstan.v1.Compute/Run", field(1, &field(1, &program))),
        ("capstan.v1.Compute/Run", field(1, &entries(2))),
        ("capstan.v1.Compute/Run", field(1, &entries(3))),
        ("capstan.v1.Store/PutProgram", concat.clone()),
        ("capstan.v1.Compute/Estimate", [field(1, &concat), field(2, &values)].concat()),
    ];
    let (client, origin) = client_without_deadlines(world.daemon.address);
    for (method, message) in calls {
        let row = async {
            let mut body = vec![0];
            body.extend((message.len() as u32).to_be_bytes());
            body.extend(message);
            let request = http::Request::post(format!("{origin}{method}"))
                .header("content-type", "application/grpc")
                .body(Body::new(Full::from(body)));
            let answer = client.request(request.expect("a request")).await.expect("an answer");
            assert_eq!(answer.headers()["grpc-status"], INVALID_ARGUMENT, "{method}");
        };
        world.resources.assert_takes(method, TAKEN_MAX, row).await;
        world.assert_healthy(method).await;
    }
}
