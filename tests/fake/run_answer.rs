//! What the fake server returns of a run.

use capstan::wire::v1;

/// What runs return.
#[derive(Debug, Clone, Copy)]
pub enum RunAnswer {
    /// Every output.
    Whole(v1::Verify),
    /// Chunks of an output that the call does not want.
    Stray,
    /// One byte less than wanted.
    Short,
    /// No result after the chunks.
    Unfinished,
    /// One output too few in the result.
    FewOutputs,
    /// Elements that are not below r.
    NotCanonical,
    /// Points before the result, which the call does not want.
    UnwantedPoints,
}

impl RunAnswer {
    /// The responses to a run of `outputs` vectors that are all `elements`.
    pub fn responses(self, elements: &[u8], outputs: u32) -> Vec<v1::RunResponse> {
        use v1::run_response::Message;
        let data = match self {
            Self::Short => elements[1..].to_vec(),
            Self::NotCanonical => vec![0xff; elements.len()],
            _ => elements.to_vec(),
        };
        let first = if let Self::Stray = self { outputs } else { 0 };
        let chunk = |output| {
            let chunk = Some(v1::Chunk { offset: 0, data: data.clone().into() });
            Message::Chunk(v1::RunOutputChunk { output, chunk })
        };
        let mut messages: Vec<_> = (first..first + outputs).map(chunk).collect();
        let verified = if let Self::Whole(verified) = self { verified } else { v1::Verify::None };
        let points = if let Self::FewOutputs = self { outputs - 1 } else { outputs };
        let points = vec![Default::default(); points as usize];
        let execution = Some(v1::Execution { verified: verified.into(), ..Default::default() });
        if let Self::UnwantedPoints = self {
            let points = v1::RunOutputPoints { output: 0, points: vec![0; 144].into() };
            messages.push(Message::Points(points));
        }
        if !matches!(self, Self::Unfinished) {
            let result = v1::RunResult { points, execution, ..Default::default() };
            messages.push(Message::Result(result));
        }
        let response = |message| v1::RunResponse { message: Some(message) };
        messages.into_iter().map(response).collect()
    }
}
