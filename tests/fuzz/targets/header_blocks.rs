//! The calls of an HTTP/2 connection, as the server counts them and as h2 accepts them.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use capstan::server::{HeaderBlockLimit, ReceivedBlocks};
use futures_util::FutureExt;
use h2::server::{Builder, Connection, SendResponse};
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::driver::{MemoryBound, Target};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0x42;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 0x20;
const RESERVED_BIT: u32 = 1 << 31;
const LAST_STREAM: u32 = u32::MAX >> 1;

/// More than any input, and than any answer to one.
const PIPE_BYTES: usize = 1 << 20;

/// The side of a connection that accepts calls, as the server's transport sets it up.
struct H2Server {
    connection: Connection<DuplexStream, Bytes>,
    peer: DuplexStream,
    /// h2 resets the streams of calls that are dropped.
    calls: Vec<(Request<h2::RecvStream>, SendResponse<Bytes>)>,
    answers: Vec<u8>,
    is_closed: bool,
}

impl H2Server {
    fn new() -> Self {
        let (mut peer, server) = duplex(PIPE_BYTES);
        let preface = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        peer.write_all(&preface).now_or_never().expect("has room").expect("is open");
        let mut builder = Builder::new();
        builder.max_frame_size(256 << 10).max_header_list_size(16 << 10);
        let shaken = builder.handshake(server).now_or_never().expect("the preface is here");
        let (calls, answers, is_closed) = (Vec::new(), Vec::new(), false);
        Self { connection: shaken.expect("is valid"), peer, calls, answers, is_closed }
    }

    /// Reads `bytes`, and accepts the calls in them.
    fn receive(&mut self, bytes: &[u8]) {
        let written = self.peer.write_all(bytes).now_or_never().expect("has room");
        self.is_closed |= written.is_err();
        while !self.is_closed {
            match self.connection.poll_accept(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(call))) => self.calls.push(call),
                Poll::Ready(_) => self.is_closed = true,
                Poll::Pending => break,
            }
        }
        while let Some(Ok(1..)) = self.peer.read_buf(&mut self.answers).now_or_never() {}
    }

    /// Whether h2 has answered with the error of a call.
    fn has_refused(&self) -> bool {
        let mut rest = &self.answers[..];
        while let [high, middle, low, kind, ..] = *rest {
            if ![SETTINGS, PING, WINDOW_UPDATE].contains(&kind) {
                return true;
            }
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            rest = rest.get(9 + length..).unwrap_or_default();
        }
        false
    }
}

/// The first byte is the length of the pieces in which the rest arrives.
fn check(input: &[u8]) {
    let Some((piece, sent)) = input.split_first() else { return };
    let (mut limit, mut server, mut counted) = (HeaderBlockLimit::default(), H2Server::new(), 0);
    for mut received in sent.chunks(usize::from(*piece).max(1)) {
        while !received.is_empty() {
            let (end, is_call) = match limit.receive(received) {
                ReceivedBlocks::Call { end } => (end, true),
                ReceivedBlocks::None => (received.len(), false),
                // The server closes the connection.
                ReceivedBlocks::TooLarge => return,
            };
            counted += usize::from(is_call);
            server.receive(&received[..end]);
            received = &received[end..];
            let accepted = server.calls.len();
            assert!(accepted <= counted, "{accepted} calls, of which {counted} are counted");
            if server.is_closed {
                return;
            }
            let is_exact = accepted == counted || server.has_refused();
            assert!(is_exact, "{counted} calls are counted, of which h2 has {accepted}");
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal field that is not added to the table.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [&[0], &text(name)[..], &text(value)].concat()
}

/// POST http://x/y
fn request() -> Vec<u8> {
    [&[0x83, 0x86, 1, 1, b'x', 4, 2, b'/', b'y'], &field("te", "trailers")[..]].concat()
}

/// A header block that h2 answers with an error of its stream.
fn malformed() -> Vec<u8> {
    [&field("connection", "close")[..], &request()].concat()
}

fn call(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &request())
}

fn seeds() -> Vec<Vec<u8>> {
    let request = request();
    let (first, rest) = request.split_at(6);
    let on_itself = [&[0, 0, 0, 2, 15], &request[..]].concat();
    let padded = [&[3], &request[..], &[0; 3]].concat();
    let with_priority = [&[0; 5], &request[..]].concat();
    let seeds = [
        vec![
            call(1),
            frame(DATA, 0, 1, b"data"),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &field("a", "b")),
            frame(HEADERS, END_HEADERS | END_STREAM, 3, &request),
            frame(HEADERS, 0, 5, first),
            frame(CONTINUATION, 0, 5, &[]),
            frame(CONTINUATION, END_HEADERS, 5, rest),
            frame(HEADERS, END_HEADERS | PADDED, 7, &padded),
            frame(HEADERS, END_HEADERS | WITH_PRIORITY, 9, &with_priority),
        ],
        vec![
            call(1),
            frame(PING, 0, 0, &[0; 8]),
            frame(WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
            frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 15]),
            frame(UNKNOWN, 0xff, 9, b"ignored"),
            frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]),
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            call(101),
            call(LAST_STREAM),
        ],
        // What h2 masks, or refuses without closing the connection.
        vec![call(RESERVED_BIT | 1), call(3), call(RESERVED_BIT | 5), call(7)],
        vec![frame(HEADERS, END_HEADERS, LAST_STREAM - 1, &malformed()), call(1), call(3)],
        vec![frame(HEADERS, END_HEADERS | WITH_PRIORITY, 2, &on_itself), call(1), call(3)],
        vec![frame(HEADERS, END_HEADERS, 1, &malformed()), call(3), call(5)],
    ];
    let whole = seeds.iter().map(|frames| [&[255], &frames.concat()[..]].concat());
    let in_bytes = seeds.iter().map(|frames| [&[1], &frames.concat()[..]].concat());
    whole.chain(in_bytes).collect()
}

#[test]
fn header_blocks() {
    // The buffers of h2 do not depend on the input.
    let memory = MemoryBound { per_byte: 512, always: 1 << 20 };
    let seeds = seeds();
    Target { name: "header_blocks", seeds, words: &[], check, cases: 10_000, memory }.run();
}
