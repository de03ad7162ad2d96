//! Missing fields and unknown enum values.

use capstan::{
    curve::{G1Affine, points::PointEncoding},
    wire::v1,
};

use crate::{
    daemon::messages,
    table::{Call, Row, World, invalid},
};

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    for (value, reason) in [(0, "UNSPECIFIED"), (99, "OUT_OF_RANGE"), (-1, "OUT_OF_RANGE")] {
        msm(&mut rows, world, value, reason);
        ntt(&mut rows, value, reason);
        uploads(&mut rows, world, value, reason);
    }
    missing(&mut rows, world);
    rows
}

fn u8s() -> v1::InlineVector {
    messages::scalars(v1::ScalarEncoding::U8, vec![1; 8])
}

fn elements() -> v1::InlineVector {
    messages::scalars(v1::ScalarEncoding::Canonical, vec![0; 64])
}

fn msm(rows: &mut Vec<Row>, world: &World, value: i32, reason: &'static str) {
    let mut row = |field, spoil: &dyn Fn(&mut v1::MsmSpec)| {
        let mut spec = world.spec();
        spoil(&mut spec);
        let call = Call::msm(spec.clone(), u8s());
        rows.push(invalid(format!("{field} = {value}"), call, reason, field));
        let vector = messages::new_vector(v1::ScalarEncoding::U8, 8);
        let call = Call::msm_stream(spec, vector, vec![]);
        rows.push(invalid(format!("{field} = {value}, streamed"), call, reason, field));
    };
    row("spec.group", &|spec| spec.group = value);
    row("spec.result_encoding", &|spec| spec.result_encoding = value);
    row("spec.verify", &|spec| spec.verify = value);
    row("spec.bases.inline.encoding", &|spec| {
        let inline = v1::InlineBases { encoding: value, data: vec![0; 96].into() };
        spec.bases = Some(v1::msm_spec::Bases::Inline(inline));
    });
    let scalars = v1::InlineVector { encoding: value, ..u8s() };
    let call = Call::msm(world.spec(), scalars);
    rows.push(invalid(format!("scalars of {value}"), call, reason, "inline.encoding"));
}

fn ntt(rows: &mut Vec<Row>, value: i32, reason: &'static str) {
    let mut row = |field, spoil: &dyn Fn(&mut v1::NttSpec)| {
        let mut spec = messages::ntt_spec(1);
        spoil(&mut spec);
        let call = Call::ntt(spec.clone(), elements());
        rows.push(invalid(format!("ntt {field} = {value}"), call, reason, field));
        let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 2);
        let call = Call::ntt_stream(spec, vector, vec![]);
        rows.push(invalid(format!("ntt {field} = {value}, streamed"), call, reason, field));
    };
    row("spec.direction", &|spec| spec.direction = value);
    row("spec.input_order", &|spec| spec.input_order = value);
    row("spec.output_order", &|spec| spec.output_order = value);
    row("spec.output_encoding", &|spec| spec.output_encoding = value);
    row("spec.verify", &|spec| spec.verify = value);
    let input = v1::InlineVector { encoding: value, ..elements() };
    let call = Call::ntt(messages::ntt_spec(1), input);
    rows.push(invalid(format!("elements of {value}"), call, reason, "inline.encoding"));
}

fn uploads(rows: &mut Vec<Row>, world: &World, value: i32, reason: &'static str) {
    let upload = messages::bases::<G1Affine>(PointEncoding::Compressed, 1);
    let group = v1::BasesUpload { group: value, ..upload.clone() };
    let call = Call::put_bases(group, vec![]);
    rows.push(invalid(format!("put to group {value}"), call, reason, "group"));
    let encoding = v1::BasesUpload { encoding: value, ..upload };
    let call = Call::put_bases(encoding, vec![]);
    rows.push(invalid(format!("put of encoding {value}"), call, reason, "encoding"));
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 1);
    let vector = v1::VectorUpload { encoding: value, ..vector };
    let call = Call::put_vector(vector, vec![]);
    rows.push(invalid(format!("vector of encoding {value}"), call, reason, "encoding"));
    let call = Call::List(v1::ListRequest { group: Some(value), ..Default::default() });
    rows.push(invalid(format!("list of group {value}"), call, reason, "group"));
    let get = v1::GetRequest {
        id: Some(v1::get_request::Id::ObjectId(world.g1_id.clone())),
        encoding: Some(value),
        ..v1::GetRequest::default()
    };
    rows.push(invalid(format!("get as {value}"), Call::Get(get), reason, "encoding"));
    let payload = v1::Payload { hash: vec![7; 32].into(), encoding: value };
    let id = Some(v1::stat_request::Id::Payload(payload));
    let (name, call) = (format!("payload of {value}"), Call::Stat(v1::StatRequest { id }));
    rows.push(invalid(name, call, reason, "payload.encoding"));
}

fn missing(rows: &mut Vec<Row>, world: &World) {
    let mut row = |call, field| {
        rows.push(invalid(format!("{field} is missing"), call, "MISSING", field));
    };
    let msm = || messages::msm(world.spec(), u8s());
    row(Call::Msm(v1::MsmRequest { spec: None, ..msm() }), "spec");
    row(Call::Msm(v1::MsmRequest { scalars: None, ..msm() }), "scalars");
    row(Call::Msm(v1::MsmRequest::default()), "scalars");
    let spec = v1::MsmSpec { bases: None, ..world.spec() };
    row(Call::msm(spec, u8s()), "spec.bases");
    let ntt = || messages::ntt(messages::ntt_spec(1), elements());
    row(Call::Ntt(v1::NttRequest { spec: None, ..ntt() }), "spec");
    row(Call::Ntt(v1::NttRequest { input: None, ..ntt() }), "input");
    row(Call::NttStream(vec![]), "header");
    let header = |header| {
        let message = Some(v1::ntt_stream_request::Message::Header(header));
        Call::NttStream(vec![v1::NttStreamRequest { message }])
    };
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 2);
    row(header(v1::NttStreamHeader { input: Some(vector), ..Default::default() }), "spec");
    row(
        header(v1::NttStreamHeader { spec: Some(messages::ntt_spec(1)), ..Default::default() }),
        "header.input",
    );
    let header = v1::MsmStreamHeader { spec: Some(world.spec()), ..Default::default() };
    let message = Some(v1::msm_stream_request::Message::Header(header));
    row(Call::MsmStream(vec![v1::MsmStreamRequest { message }]), "header.scalars");
    row(Call::Put(vec![]), "header");
    row(Call::Put(vec![v1::PutRequest::default()]), "header");
    let chunk = v1::put_request::Message::Chunk(messages::chunk(0, vec![1]));
    row(Call::Put(vec![v1::PutRequest { message: Some(chunk) }]), "header");
    row(Call::Get(v1::GetRequest::default()), "id");
    row(Call::Stat(v1::StatRequest::default()), "id");
    row(Call::Release(v1::ReleaseRequest::default()), "id");
}
