//! Counts, offsets and lengths that contradict each other or are out of range.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine, G2Affine, points::PointEncoding},
    wire::v1,
};
use tonic::Code;

use crate::{
    daemon::messages,
    table::{Call, Row, World, good, invalid, refused},
};

const LENGTH: &str = "LENGTH_MISMATCH";
const LARGE: &str = "SIZE_TOO_LARGE";

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    unary(&mut rows, world);
    streamed(&mut rows, world);
    empty_inputs(&mut rows, world);
    odd_sizes(&mut rows, world);
    ntt_sizes(&mut rows);
    plans(&mut rows);
    puts(&mut rows);
    rows
}

fn u8s(n: usize) -> v1::InlineVector {
    messages::scalars(v1::ScalarEncoding::U8, vec![1; n])
}

fn canonical(n: usize) -> v1::InlineVector {
    messages::scalars(v1::ScalarEncoding::Canonical, vec![0; 32 * n])
}

fn unary(rows: &mut Vec<Row>, world: &World) {
    for (name, count, batch) in
        [("too few", 7, 1), ("too many", 9, 1), ("none", 0, 1), ("no second vector", 8, 2)]
    {
        let spec = v1::MsmSpec { batch, ..world.spec() };
        let call = Call::msm(spec, u8s(count));
        rows.push(invalid(format!("{name} scalars"), call, LENGTH, "scalars"));
    }
    let half = messages::scalars(v1::ScalarEncoding::Canonical, vec![0; 8 * 32 - 16]);
    let call = Call::msm(world.spec(), half.clone());
    rows.push(invalid("half a scalar", call, LENGTH, "inline.data"));
    let call = Call::ntt(messages::ntt_spec(3), half);
    rows.push(invalid("half an element", call, LENGTH, "inline.data"));
    let bases = messages::inline_bytes(PointEncoding::Compressed, vec![0; 72]);
    let call = Call::msm(messages::spec(v1::Group::G1 as i32, bases), u8s(1));
    rows.push(invalid("half a point", call, LENGTH, "spec.bases.inline.data"));
    let g2 = messages::inline_bytes(PointEncoding::Montgomery, vec![0; 96]);
    let call = Call::msm(messages::spec(v1::Group::G2 as i32, g2), u8s(1));
    rows.push(invalid("a point of G1 as G2", call, LENGTH, "spec.bases.inline.data"));
    for (offset, length, field) in [
        (9, 0, "spec.bases.stored.offset"),
        (0, 9, "spec.bases.stored.length"),
        (8, 1, "spec.bases.stored.length"),
        (1, i64::MAX as u64, "spec.bases.stored.length"),
        (u64::MAX, 0, "spec.bases.stored.offset"),
        (0, u64::MAX, "spec.bases.stored.length"),
    ] {
        let bases = messages::stored(&world.g1_id, offset, length);
        let call = Call::msm(messages::spec(v1::Group::G1 as i32, bases), u8s(8));
        rows.push(invalid(format!("{length} bases from {offset} on"), call, LARGE, field));
    }
    let spec = v1::MsmSpec { batch: 65_537, ..world.spec() };
    rows.push(invalid("a batch too large", Call::msm(spec, u8s(8)), LARGE, "spec.batch"));
}

fn streamed(rows: &mut Vec<Row>, world: &World) {
    let of = v1::ScalarEncoding::U32;
    let stream =
        |count, chunks| Call::msm_stream(world.spec(), messages::new_vector(of, count), chunks);
    let piece = |offset, len| messages::chunk(offset, vec![0; len]);
    for count in [0, 7, 9, u32::MAX.into()] {
        let call = stream(count, vec![piece(0, 32)]);
        rows.push(invalid(format!("a header with count {count}"), call, LENGTH, "scalars"));
    }
    let call = stream(u64::MAX, vec![]);
    rows.push(invalid("a size that overflows", call, LARGE, "count"));
    rows.push(invalid("truncated at once", stream(8, vec![]), LENGTH, "chunk"));
    rows.push(invalid("truncated", stream(8, vec![piece(0, 31)]), LENGTH, "chunk"));
    rows.push(invalid("a hole", stream(8, vec![piece(0, 8), piece(9, 23)]), LENGTH, "chunk"));
    for (offset, len) in [(0, 33), (32, 1), (31, 2), (u64::MAX, 1), (u64::MAX, 2), (1 << 40, 4)] {
        let call = stream(8, vec![piece(offset, len)]);
        rows.push(invalid(format!("a chunk of {len} at {offset}"), call, LARGE, "chunk"));
    }
    let twice = vec![piece(0, 20), piece(0, 20), piece(10, 22)];
    let zero = messages::compressed::<G1Affine>(messages::sum(&world.g1[..1], &[Fr::from(0)]));
    rows.push(good("pieces that overlap", stream(8, twice), zero.clone()));
    let single_bytes = (0..32).rev().map(|at| piece(at, 1)).collect();
    rows.push(good("single bytes, the last one first", stream(8, single_bytes), zero.clone()));
    let empty = vec![piece(0, 0), piece(32, 0), piece(0, 32)];
    rows.push(good("empty chunks", stream(8, empty), zero));
    let large = vec![piece(0, (1 << 20) + (128 << 10))];
    rows.push(refused("a message above the limit", stream(8, large), Code::OutOfRange, ""));
    let mut headless =
        messages::msm_stream(world.spec(), messages::new_vector(of, 8), vec![piece(0, 32)]);
    let header = headless.remove(0);
    let none = Call::MsmStream(headless.clone());
    rows.push(invalid("a chunk before the header", none, "MISSING", "header"));
    rows.push(invalid("no message", Call::MsmStream(vec![]), "MISSING", "header"));
    let empty = vec![v1::MsmStreamRequest::default()];
    rows.push(invalid("an empty message", Call::MsmStream(empty), "MISSING", "header"));
    let twice = vec![header.clone(), header.clone()];
    rows.push(invalid("two headers", Call::MsmStream(twice), "OUT_OF_RANGE", "message"));
    let then_empty = vec![header, v1::MsmStreamRequest::default()];
    rows.push(invalid(
        "an empty message after the header",
        Call::MsmStream(then_empty),
        "OUT_OF_RANGE",
        "message",
    ));
    scattered_bytes(rows);
}

/// Chunks that each leave a hole, so that the server would need memory for every byte received.
fn scattered_bytes(rows: &mut Vec<Row>) {
    let single_bytes = (0..6000).map(|i| messages::chunk(2 * i, vec![0])).collect();
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 1 << 20);
    let call = Call::put_vector(vector, single_bytes);
    rows.push(invalid("scattered bytes", call, "OUT_OF_RANGE", "chunk.offset"));
}

fn empty_inputs(rows: &mut Vec<Row>, world: &World) {
    let zero = messages::sum::<G1Affine>(&[], &[]);
    let infinity = messages::compressed::<G1Affine>(zero);
    for (name, bases) in [
        ("inline", messages::inline_bytes(PointEncoding::Compressed, Bytes::new())),
        ("stored", messages::stored(&world.g1_id, 8, 0)),
    ] {
        let spec = messages::spec(v1::Group::G1 as i32, bases);
        let call = Call::msm(spec.clone(), u8s(0));
        rows.push(good(format!("no bases, {name}"), call, infinity.clone()));
        let three = v1::MsmSpec { batch: 3, ..spec.clone() };
        let call = Call::msm(three, u8s(0));
        let expected = Bytes::from([&infinity[..]; 3].concat());
        rows.push(good(format!("no bases in a batch, {name}"), call, expected));
        let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 0);
        let call = Call::msm_stream(spec, vector, vec![]);
        rows.push(good(format!("no bases streamed, {name}"), call, infinity.clone()));
    }
    let bases = messages::inline::<G2Affine>(&[]);
    let call = Call::msm(messages::spec(v1::Group::G2 as i32, bases), u8s(0));
    rows.push(good(
        "no bases of G2",
        call,
        messages::compressed::<G2Affine>(messages::sum::<G2Affine>(&[], &[])),
    ));
    let zeros = Bytes::from(vec![0; 64]);
    let spec = v1::NttSpec { row_length: Some(0), ..messages::ntt_spec(1) };
    rows.push(good("a row of zeros", Call::ntt(spec, canonical(0)), zeros));
    let one = messages::canonical(&[Fr::from(7)]);
    let input = messages::scalars(v1::ScalarEncoding::Canonical, one.clone());
    rows.push(good("an NTT of size 1", Call::ntt(messages::ntt_spec(0), input), one));
}

fn odd_sizes(rows: &mut Vec<Row>, world: &World) {
    for n in [1, 2, 3, 31, 32, 33, 63, 65] {
        let points = messages::points::<G1Affine>(n);
        let scalars = messages::random(n);
        let spec = messages::spec(v1::Group::G1 as i32, messages::inline(&points));
        let inline =
            messages::scalars(v1::ScalarEncoding::Canonical, messages::canonical(&scalars));
        let sum = messages::compressed::<G1Affine>(messages::sum(&points, &scalars));
        rows.push(good(format!("{n} terms"), Call::msm(spec, inline), sum));
    }
    let spec = messages::spec(v1::Group::G1 as i32, messages::stored(&world.g1_id, 3, 2));
    let sum = messages::sum(&world.g1[3..5], &[Fr::from(1), Fr::from(1)]);
    let sum = messages::compressed::<G1Affine>(sum);
    rows.push(good("a slice of bases", Call::msm(spec, u8s(2)), sum));
}

fn ntt_sizes(rows: &mut Vec<Row>) {
    for count in [0, 1, 3, 5, 7, 9] {
        let call = Call::ntt(messages::ntt_spec(3), canonical(count));
        rows.push(invalid(format!("{count} elements for 8"), call, LENGTH, "input"));
    }
    for lg_n in [33, 64, u32::MAX] {
        let call = Call::ntt(messages::ntt_spec(lg_n), canonical(1));
        rows.push(invalid(format!("lg_n {lg_n}"), call, LARGE, "spec.lg_n"));
    }
    let spec = v1::NttSpec { row_length: Some(9), ..messages::ntt_spec(3) };
    let call = Call::ntt(spec, canonical(9));
    rows.push(invalid("a row longer than n", call, LARGE, "spec.row_length"));
    let spec = v1::NttSpec { batch: 65_537, ..messages::ntt_spec(0) };
    rows.push(invalid("too many rows", Call::ntt(spec, canonical(1)), LARGE, "spec.batch"));
    let spec = v1::NttSpec { row_length: Some(0), ..messages::ntt_spec(16) };
    let call = Call::ntt(spec, canonical(0));
    rows.push(invalid("a result above one message", call, LARGE, "keep"));
    let narrow = messages::scalars(v1::ScalarEncoding::U64, vec![0; 16]);
    let call = Call::ntt(messages::ntt_spec(1), narrow);
    rows.push(invalid("narrow elements", call, "OUT_OF_RANGE", "encoding"));
    let spec =
        v1::NttSpec { output_encoding: v1::ScalarEncoding::U64 as i32, ..messages::ntt_spec(1) };
    let call = Call::ntt(spec, canonical(2));
    rows.push(invalid("a narrow result", call, "OUT_OF_RANGE", "spec.output_encoding"));
}

/// Requests that can never fit are refused before the payload, without a retry delay.
fn plans(rows: &mut Vec<Row>) {
    let bytes = |name: &str, call| refused(name, call, Code::ResourceExhausted, "CONNECTION_BYTES");
    for lg_n in [20, 26, 32] {
        let spec = v1::NttSpec { row_length: Some(0), batch: 1 << 16, ..messages::ntt_spec(lg_n) };
        let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 0);
        let call = Call::ntt_stream(spec, vector, vec![]);
        rows.push(bytes(&format!("an NTT of 2^{lg_n} zeros without payload"), call));
    }
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 33 << 20);
    rows.push(bytes("a vector", Call::put_vector(vector, vec![])));
    let upload = messages::bases::<G1Affine>(PointEncoding::Compressed, 1 << 20);
    rows.push(bytes("bases", Call::put_bases(upload, vec![])));
}

fn puts(rows: &mut Vec<Row>) {
    let put = |count, chunks| {
        Call::put_bases(messages::bases::<G1Affine>(PointEncoding::Compressed, count), chunks)
    };
    let piece = |offset, len| messages::chunk(offset, vec![0; len]);
    rows.push(invalid("no points", put(0, vec![]), "SIZE_ZERO", "count"));
    rows.push(invalid("truncated bases", put(2, vec![piece(48, 48)]), LENGTH, "chunk"));
    rows.push(invalid("too many bytes of bases", put(2, vec![piece(0, 97)]), LARGE, "chunk"));
    rows.push(invalid("bases whose size overflows", put(u64::MAX, vec![]), LARGE, "count"));
    let vector = || messages::new_vector(v1::ScalarEncoding::U16, 4);
    let call = Call::put_vector(vector(), vec![piece(0, 7)]);
    rows.push(invalid("a truncated vector", call, LENGTH, "chunk"));
    let call = Call::put_vector(vector(), vec![piece(7, 2)]);
    rows.push(invalid("too many bytes of a vector", call, LARGE, "chunk"));
    for (field, len) in [("upload_id", 0), ("upload_id", 15), ("upload_id", 17)] {
        let vector = v1::VectorUpload { upload_id: vec![1; len].into(), ..vector() };
        let call = Call::put_vector(vector, vec![]);
        rows.push(invalid(format!("an upload id of {len}"), call, LENGTH, field));
    }
    let many = v1::VectorUpload { streams: 65, ..vector() };
    let call = Call::put_vector(many, vec![]);
    rows.push(invalid("too many streams", call, LARGE, "streams"));
    let mut bases = |name: &str, reason, field, spoil: fn(&mut v1::BasesUpload)| {
        let mut upload = messages::bases::<G1Affine>(PointEncoding::Compressed, 1);
        spoil(&mut upload);
        let call = Call::put_bases(upload, vec![piece(0, 48)]);
        rows.push(invalid(name, call, reason, field));
    };
    bases("a short hash", LENGTH, "payload_hash", |b| b.payload_hash = vec![1; 31].into());
    bases("a long label", LARGE, "label", |b| b.label = "x".repeat(129));
    bases("a label with a newline", "BAD_ENCODING", "label", |b| b.label = "a\nb".into());
    let bad = "BAD_ENCODING";
    bases("a label from right to left", bad, "label", |b| b.label = "a\u{202e}b".into());
    bases("a label with an invisible character", bad, "label", |b| b.label = "a\u{200b}".into());
}
