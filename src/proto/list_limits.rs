//! Limits on the lists of messages in a request, checked before it is decoded: an entry of two
//! bytes takes more than a hundred when it is decoded.

use std::any::TypeId;

use bytes::Buf;
use capstan_math::{
    error::{FieldProblem, InputError, Result},
    program::{INPUTS_MAX, OUTPUTS_MAX, STEPS_MAX},
};
use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::v1;

/// A repeated field of messages.
struct ListLimit {
    /// The number of the field of each level.
    path: &'static [u32],
    /// Its name in errors.
    name: &'static str,
    max: usize,
}

impl ListLimit {
    const fn steps(path: &'static [u32]) -> Self {
        Self { path, name: "program.steps", max: STEPS_MAX }
    }
}

const OF_PUT_PROGRAM: [ListLimit; 1] = [ListLimit::steps(&[1, 1])];
const OF_ESTIMATE: [ListLimit; 1] = [ListLimit::steps(&[1, 1, 1])];
const OF_RUN: [ListLimit; 3] = [
    ListLimit::steps(&[1, 1, 1, 1]),
    ListLimit { path: &[1, 2], name: "inputs", max: INPUTS_MAX },
    ListLimit { path: &[1, 3], name: "outputs", max: OUTPUTS_MAX },
];

fn limits<M: 'static>() -> &'static [ListLimit] {
    let message = TypeId::of::<M>();
    if message == TypeId::of::<v1::RunRequest>() {
        &OF_RUN
    } else if message == TypeId::of::<v1::EstimateRequest>() {
        &OF_ESTIMATE
    } else if message == TypeId::of::<v1::PutProgramRequest>() {
        &OF_PUT_PROGRAM
    } else {
        &[]
    }
}

/// Checks the encoding of an `M`, which may lie in two places. What is no message is left to its
/// decoder, which reads no further than this check does.
///
/// Errors: `Invalid` for a list that is too long.
pub fn check_lists<M: 'static>([begun, rest]: [&[u8]; 2]) -> Result<()> {
    limits::<M>().iter().try_for_each(|list| {
        let mut entries = 0;
        // An error ends the count.
        let _ = count_entries(&mut begun.chain(rest), 0, list.path, &mut entries);
        if entries > list.max {
            return Err(InputError::field(list.name, FieldProblem::too_long(list.max, entries)));
        }
        Ok(())
    })
}

/// Adds the entries at `path` in a message that ends where `rest` bytes remain. A message that
/// appears twice counts twice, since prost merges both.
fn count_entries(
    unread: &mut impl Buf,
    rest: usize,
    path: &[u32],
    entries: &mut usize,
) -> Result<(), DecodeError> {
    while unread.remaining() > rest {
        let (number, wire_type) = decode_key(unread)?;
        match path {
            [first, inner @ ..] if *first == number && wire_type == WireType::LengthDelimited => {
                if inner.is_empty() {
                    *entries += 1;
                    skip_field(wire_type, number, unread, DecodeContext::default())?;
                } else {
                    let len = decode_varint(unread)?;
                    let rest = (unread.remaining() as u64).saturating_sub(len);
                    count_entries(unread, rest as usize, inner, entries)?;
                }
            }
            _ => skip_field(wire_type, number, unread, DecodeContext::default())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn program(steps: usize) -> v1::ProgramRef {
        let steps = vec![v1::Step::default(); steps];
        v1::ProgramRef { program: Some(v1::program_ref::Program::Inline(v1::Program { steps })) }
    }

    fn estimate(steps: usize) -> v1::EstimateRequest {
        v1::EstimateRequest { program: Some(program(steps)), ..Default::default() }
    }

    fn refused<M: Message + 'static>(message: &M) -> Option<String> {
        let bytes = message.encode_to_vec();
        check_lists::<M>([&bytes, &[]]).err().map(|error| error.to_string())
    }

    #[test]
    fn long_lists_are_refused_before_they_are_decoded() {
        assert_eq!(refused(&estimate(STEPS_MAX)), None);
        let too_long = "program.steps: too long: at most 1024, got 1025";
        assert_eq!(refused(&estimate(STEPS_MAX + 1)).as_deref(), Some(too_long));
        let steps = vec![v1::Step::default(); STEPS_MAX + 1];
        let put = v1::PutProgramRequest { program: Some(v1::Program { steps }) };
        assert_eq!(refused(&put).as_deref(), Some(too_long));
        let run =
            |header| v1::RunRequest { message: Some(v1::run_request::Message::Header(header)) };
        let (program, inputs, outputs) = (Some(program(1025)), Vec::new(), Vec::new());
        let header = v1::RunHeader { program, inputs, outputs, ..Default::default() };
        assert_eq!(refused(&run(header)).as_deref(), Some(too_long));
        let inputs = vec![v1::ProgramInput::default(); INPUTS_MAX + 1];
        let header = v1::RunHeader { inputs, ..Default::default() };
        assert_eq!(
            refused(&run(header)).as_deref(),
            Some("inputs: too long: at most 256, got 257")
        );
        let outputs = vec![v1::ProgramOutput::default(); OUTPUTS_MAX + 1];
        let header = v1::RunHeader { outputs, ..Default::default() };
        assert_eq!(
            refused(&run(header)).as_deref(),
            Some("outputs: too long: at most 256, got 257")
        );
    }

    /// prost merges fields that appear twice, skips unknown ones, and reads up to an error.
    #[test]
    fn entries_are_counted_wherever_they_are() {
        let half = estimate(STEPS_MAX / 2 + 1).encode_to_vec();
        let group = [0x7b, 0x08, 1, 0x7c];
        let truncated = [0x0a, 0x7f];
        for parts in
            [[&half[..], &group, &half], [&group, &half, &half], [&half, &half, &truncated]]
        {
            let bytes = parts.concat();
            let (begun, rest) = bytes.split_at(bytes.len() / 3);
            for message in [[&bytes[..], &[]], [begun, rest]] {
                assert!(check_lists::<v1::EstimateRequest>(message).is_err(), "{parts:?}");
            }
        }
        let bytes = [&half[..], &truncated].concat();
        assert_eq!(check_lists::<v1::EstimateRequest>([&bytes, &[]]), Ok(()));
    }
}
