//! `docs/fields.md` says which field a call takes.

use bytes::Bytes;
use capstan::{curve::G1Affine, server::ServerSettings, wire::v1};
use futures_util::stream;
use tonic::{Code, Status};

use crate::service::daemon::{TestServer, compute, messages, reason};

const PAGE: &str = include_str!("../../docs/fields.md");

/// A field, and the canonical encoding of its elements.
struct EncodedField {
    field: v1::Field,
    encoding: v1::ScalarEncoding,
    width: usize,
}

/// A field of each column of the page's table, in its order.
const FIELDS: [EncodedField; 4] = [
    encoded(v1::Field::Bls12381Fr, v1::ScalarEncoding::Canonical, 32),
    encoded(v1::Field::BabyBear, v1::ScalarEncoding::Canonical31, 4),
    encoded(v1::Field::Gf2, v1::ScalarEncoding::PackedBits64, 8),
    encoded(v1::Field::Integers, v1::ScalarEncoding::Limbs32, 4),
];

const fn encoded(field: v1::Field, encoding: v1::ScalarEncoding, width: usize) -> EncodedField {
    EncodedField { field, encoding, width }
}

/// "yes", or "no" if the call is refused for its field or its encoding.
fn cell<T>(result: Result<T, Status>) -> &'static str {
    match result {
        Ok(_) => "yes",
        Err(status) if status.code() == Code::InvalidArgument => {
            let reason = reason(&status);
            assert!(matches!(&*reason, "VALUE_TYPE" | "OUT_OF_RANGE"), "{reason}: {status}");
            let message = status.message();
            let names = ["field", "encoding"].iter().any(|name| message.contains(name));
            assert!(names, "names neither a field nor an encoding: {message}");
            "no"
        }
        Err(status) => panic!("{status}"),
    }
}

#[tokio::test]
async fn the_page_says_which_field_a_call_takes() {
    let server = TestServer::start(ServerSettings::default());
    let channel = server.channel().await;
    let points = messages::points::<G1Affine>(2);
    let mut rows = ["Compute.Ntt", "Compute.NttStream", "Compute.Msm", "Compute.MsmStream"]
        .map(|call| (call, Vec::new()));
    for EncodedField { field, encoding, width } in FIELDS {
        let (count, zeros) = (2, Bytes::from(vec![0; 2 * width]));
        let inline = || messages::scalars(encoding, zeros.clone());
        let vector = || messages::new_vector(encoding, count);
        let chunks = || vec![messages::chunk(0, zeros.clone())];
        let (field, output_encoding) = (field.into(), encoding.into());
        let ntt = v1::NttSpec { field, output_encoding, ..messages::ntt_spec(1) };
        let msm = messages::spec(messages::group::<G1Affine>(), messages::inline(&points));
        let mut client = compute(&channel);
        let unary = client.ntt(messages::ntt(ntt.clone(), inline())).await;
        rows[0].1.push(cell(unary));
        let given = messages::ntt_stream(ntt, vector(), chunks());
        rows[1].1.push(cell(first(client.ntt_stream(stream::iter(given)).await).await));
        rows[2].1.push(cell(client.msm(messages::msm(msm.clone(), inline())).await));
        let given = messages::msm_stream(msm, vector(), chunks());
        rows[3].1.push(cell(client.msm_stream(stream::iter(given)).await));
    }
    for (call, cells) in rows {
        let line = PAGE.lines().find(|line| line.contains(&format!("`{call}`")));
        let line = line.unwrap_or_else(|| panic!("docs/fields.md needs a row of {call}"));
        let end = format!("| {} |", cells.join(" | "));
        assert!(line.ends_with(&end), "{call}: {end}, but docs/fields.md says {line}");
    }
}

/// The first message of a response; a call that is refused has none.
async fn first<T>(
    response: Result<tonic::Response<tonic::Streaming<T>>, Status>,
) -> Result<Option<T>, Status> {
    response?.into_inner().message().await
}
