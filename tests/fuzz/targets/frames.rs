//! The frames of a gRPC body.

use std::{
    cell::RefCell,
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use capstan::wire::{MessageReader, v1::PutRequest};
use futures_util::FutureExt;
use http_body::Frame;
use prost::Message;
use tonic::{Code, body::Body};

use crate::{
    driver::{SMALL, Target},
    rig::messages,
};

const LEN_MAX: usize = 4096;

struct Frames(VecDeque<Bytes>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[derive(Debug, PartialEq)]
struct Read {
    messages: Vec<PutRequest>,
    end: Option<Code>,
}

/// Reads all messages. `admitted` gets the lengths of those that lie in several frames.
fn read(frames: VecDeque<Bytes>) -> Read {
    let mut reader = MessageReader::<PutRequest>::of_request(Body::new(Frames(frames)), LEN_MAX);
    let mut messages = Vec::new();
    let end = loop {
        let admitted = RefCell::new(None);
        let admit = |len| {
            admitted.replace(Some(len));
            Ok(())
        };
        let message = reader.admitted_message(admit).now_or_never().expect("all frames are here");
        assert!(admitted.take().is_none_or(|len| len <= LEN_MAX), "admits a message too long");
        match message {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => break None,
            Err(status) => break Some(status.code()),
        }
    };
    Read { messages, end }
}

/// The first eight bytes are the lengths of the first frames.
fn check(input: &[u8]) {
    let Some((lengths, body)) = input.split_first_chunk::<8>() else { return };
    let whole = read([Bytes::copy_from_slice(body)].into());
    let (mut rest, mut frames) = (Bytes::copy_from_slice(body), VecDeque::new());
    for length in lengths {
        frames.push_back(rest.split_to(usize::from(*length).min(rest.len())));
    }
    frames.push_back(rest);
    assert_eq!(read(frames), whole, "depends on where frames end");
    assert!(
        whole.end.is_none_or(|code| [Code::Internal, Code::OutOfRange].contains(&code)
            || code == Code::Unimplemented),
        "{:?}",
        whole.end
    );
    for message in &whole.messages {
        let again = PutRequest::decode(Bytes::from(message.encode_to_vec()));
        assert_eq!(again.as_ref(), Ok(message));
    }
}

fn body(messages: Vec<PutRequest>) -> Vec<u8> {
    let framed = messages.iter().map(|message| {
        let bytes = message.encode_to_vec();
        [&[0], &(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
    });
    framed.collect::<Vec<_>>().concat()
}

#[test]
fn frames() {
    let vector = messages::new_vector(capstan::wire::v1::ScalarEncoding::U8, 300);
    let chunks = || vec![messages::chunk(0, vec![1; 200]), messages::chunk(200, vec![2; 100])];
    let all = body(messages::put_vector(vector, chunks()));
    let seeds = vec![
        [&[0; 8], &all[..]].concat(),
        [&[1, 2, 1, 1, 1, 3, 40, 7], &all[..]].concat(),
        [&[5, 0, 255, 0, 4, 0, 0, 1], &all[..]].concat(),
    ];
    Target { name: "frames", seeds, words: &[], check, cases: 20_000, memory: SMALL }.run();
}
