//! Streamed calls without tonic's encoder and decoder, which copy every message: the bodies of
//! requests and responses pass the generated clients inside extensions of the request.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{self, Context, Poll},
};

use bytes::Bytes;
use futures_util::{
    future::{BoxFuture, ready},
    stream::{self, Empty, Stream, StreamExt},
};
use http_body::Frame;
use parking_lot::Mutex;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::http,
    transport::{self, Channel},
};
use tower::Service;

use crate::connection::{
    affinity::CallRoute,
    priority::Priority,
    same_server::{SameServer, SentHeaders},
};
use crate::wire::{ChunkMessage, DecodedMessage, MessageReader, OutgoingFrames, PRIORITY_METADATA};

/// For HTTP status 431, which has no counterpart in gRPC.
const TOO_MUCH_METADATA: &str =
    "the server refuses the call's metadata as too large (HTTP status 431): use a shorter token";

/// Limit on one response message: 65536 G2 sums take 18 MiB.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// A connection that replaces the bodies of streamed calls, sends the client's token, its priority
/// and the call's route with each call, and replaces responses of another server.
#[derive(Clone)]
pub(crate) struct FrameChannel {
    pub channel: Channel,
    /// The header `authorization`.
    pub authorization: Option<http::HeaderValue>,
    pub priority: Priority,
    /// The connection's number.
    pub number: usize,
    pub server: Arc<SameServer>,
    /// The route of the calls that this clone makes.
    pub route: CallRoute,
}

/// The body of a request, to be sent instead of tonic's.
#[derive(Clone)]
struct RequestBody(Arc<Mutex<Option<Body>>>);

/// The body of a response, hidden from tonic.
#[derive(Clone, Default)]
pub(crate) struct ResponseBody(Arc<Mutex<Option<Body>>>);

impl Service<http::Request<Body>> for FrameChannel {
    type Response = http::Response<Body>;
    type Error = transport::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // `call` refuses.
        if self.server.refusal_in_fork().is_some() {
            return Poll::Ready(Ok(()));
        }
        self.channel.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(status) = self.server.refusal_in_fork() {
            return Box::pin(ready(Ok(status.into_http())));
        }
        let sent = request.extensions_mut().remove::<RequestBody>();
        if let Some(body) = sent.and_then(|RequestBody(body)| body.lock().take()) {
            *request.body_mut() = body;
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(http::header::AUTHORIZATION, authorization.clone());
        }
        if let Some(word) = self.priority.word() {
            let word = http::HeaderValue::from_static(word);
            request.headers_mut().insert(PRIORITY_METADATA, word);
        }
        self.route.add_to(request.headers_mut());
        let kept = request.extensions_mut().remove::<ResponseBody>();
        let response = self.channel.call(request);
        let (number, server, channel) = (self.number, self.server.clone(), self.channel.clone());
        let (authorization, instance) = (self.authorization.clone(), self.route.instance.clone());
        Box::pin(async move {
            let sent = SentHeaders { authorization, instance };
            let mut response = server.check(number, &channel, &sent, response.await?).await;
            if response.status() == http::StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
                return Ok(Status::invalid_argument(TOO_MUCH_METADATA).into_http());
            }
            // tonic turns other HTTP statuses into errors.
            if let Some(ResponseBody(kept)) = kept
                && response.status() == http::StatusCode::OK
            {
                *kept.lock() = Some(mem::take(response.body_mut()));
            }
            Ok(response)
        })
    }
}

/// A request that sends `messages` without copying the data of chunks.
pub(crate) fn send<S>(request: Request<S>) -> Request<Empty<S::Item>>
where
    S: Stream<Item: ChunkMessage> + Send + Unpin + 'static,
{
    let mut body = None;
    let mut request = request.map(|messages| {
        body = Some(Body::new(MessageFrames { messages, data: None }));
        stream::empty()
    });
    request.extensions_mut().insert(RequestBody(Arc::new(Mutex::new(body))));
    request
}

/// Makes the response to `request` readable by [`ResponseBody::messages`] only.
pub(crate) fn keep_response<T>(request: &mut Request<T>) -> ResponseBody {
    let kept = ResponseBody::default();
    request.extensions_mut().insert(kept.clone());
    kept
}

/// Sends the messages of `request` by `call`. Returns the first message of the response, once it
/// has arrived, and the reader of the others.
///
/// Errors: those of the call; the status of a response without messages.
pub(crate) async fn exchange<S, M, F>(
    request: Request<S>,
    call: impl FnOnce(Request<Empty<S::Item>>) -> F,
) -> Result<(Option<M>, MessageReader<M>), Status>
where
    S: Stream<Item: ChunkMessage> + Send + Unpin + 'static,
    M: DecodedMessage,
    F: Future<Output = Result<Response<Streaming<M>>, Status>>,
{
    let mut request = send(request);
    let kept = keep_response(&mut request);
    let mut responses = kept.messages(call(request).await?, RESPONSE_BYTES_MAX).await?;
    Ok((responses.message().await?, responses))
}

impl ResponseBody {
    /// The messages of the response, each at most `len_max` bytes long.
    ///
    /// Errors: the status of a response without messages.
    pub async fn messages<M: DecodedMessage>(
        self,
        response: Response<Streaming<M>>,
        len_max: usize,
    ) -> Result<MessageReader<M>, Status> {
        let body = self.0.lock().take();
        if let Some(body) = body {
            return Ok(MessageReader::of_response(body, len_max));
        }
        response.into_inner().message().await?;
        Err(Status::internal("the response has no messages"))
    }
}

/// The body of a request that sends `messages`.
struct MessageFrames<S> {
    messages: S,
    /// The rest of the message whose first frame was sent.
    data: Option<Bytes>,
}

impl<S: Stream<Item: ChunkMessage> + Unpin> http_body::Body for MessageFrames<S> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let Some(message) = task::ready!(self.messages.poll_next_unpin(context)) else {
            return Poll::Ready(None);
        };
        let OutgoingFrames { first, data } = OutgoingFrames::new(&message);
        self.data = data;
        Poll::Ready(Some(Ok(Frame::data(first))))
    }
}

#[cfg(test)]
impl FrameChannel {
    /// A connection of the parent process, as a child process has it.
    pub fn of_parent_process() -> Self {
        let mut server = SameServer::new(1, CallRoute::default());
        server.process = 0;
        Self {
            channel: transport::Endpoint::from_static("http://host.invalid").connect_lazy(),
            authorization: None,
            priority: Priority::default(),
            number: 0,
            server: Arc::new(server),
            route: CallRoute::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::wire::v1::{GetInfoRequest, admin_client::AdminClient};

    #[tokio::test]
    async fn a_connection_of_the_parent_process_makes_no_call() {
        let mut admin = AdminClient::new(FrameChannel::of_parent_process());
        let refused = admin.get_info(GetInfoRequest {}).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains("connect again after a fork"), "{refused}");
    }
}
