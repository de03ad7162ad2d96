//! A fake Capstan server whose calls fail, hang or stall as configured.

mod run_answer;
mod store_answers;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use capstan::wire::v1::{
    self, admin_server::Admin, admin_server::AdminServer, compute_server::Compute,
    compute_server::ComputeServer, store_server::Store, store_server::StoreServer,
};
pub use run_answer::RunAnswer;
use tokio::sync::{Notify, Semaphore};
use tokio_stream::{Stream, wrappers::TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};
use tonic_types::{ErrorDetails, StatusExt};

/// How the server answers every call.
pub enum FakeMode {
    /// Unary calls fail with this status.
    Refuse(Status),
    /// Unary calls never end.
    Hang,
    /// Job streams fail with this status after the header; other streams with CANCELLED at once.
    RefuseStream(Status),
    /// Streams are read, never answered; reading pauses after 4 messages until
    /// [`FakeServer::resume_reading`].
    NeverAnswer,
    /// The first stream and the first `Stat` fail with UNAVAILABLE and later ones are served, as if
    /// the server had restarted.
    FailFirst,
    /// Unary calls and runs return a result that claims this verification.
    ClaimVerified(v1::Verify),
    /// Runs return wrong outputs.
    Misanswer(RunAnswer),
    /// `List` has three pages of one matrix each; if `ends` is false, the last one follows itself.
    ListPages { ends: bool },
    /// `Stat` finds two points of this id, and `PutProgram` answers it, whatever is asked for.
    OtherObject([u8; 32]),
}

/// A status in the form that the server sends.
pub fn refusal(code: Code, reason: &str, retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "capstan", std::collections::HashMap::new());
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Status::with_error_details(code, "no", details)
}

/// Counts a call, and fails the first one with UNAVAILABLE.
fn fail_first_call(counted: &AtomicU32) -> Result<(), Status> {
    match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Err(refusal(Code::Unavailable, "DRAINING", Some(Duration::from_millis(1)))),
        _ => Ok(()),
    }
}

fn claim(verified: v1::Verify) -> v1::Execution {
    v1::Execution { verified: verified.into(), ..Default::default() }
}

#[derive(Clone)]
pub struct FakeServer {
    pub target: String,
    inner: Arc<Inner>,
}

struct Inner {
    mode: FakeMode,
    calls: AtomicU32,
    streams: AtomicU32,
    stats: AtomicU32,
    ended: AtomicU32,
    open: AtomicU32,
    saw_deadline: AtomicBool,
    entered: Notify,
    dropped: Notify,
    /// Closed to resume reading.
    pause: Semaphore,
}

impl FakeServer {
    pub async fn start(mode: FakeMode) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap());
        let inner = Inner {
            mode,
            calls: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            stats: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            open: AtomicU32::new(0),
            saw_deadline: AtomicBool::new(false),
            entered: Notify::new(),
            dropped: Notify::new(),
            pause: Semaphore::new(0),
        };
        let fake = Self { target, inner: Arc::new(inner) };
        let serving = Server::builder()
            .add_service(AdminServer::new(fake.clone()))
            .add_service(ComputeServer::new(fake.clone()))
            .add_service(StoreServer::new(fake.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        fake
    }

    pub fn calls(&self) -> u32 {
        self.inner.calls.load(Ordering::SeqCst)
    }

    /// Numbers of streams and of `Stat` calls so far.
    pub fn resumed(&self) -> (u32, u32) {
        (self.inner.streams.load(Ordering::SeqCst), self.inner.stats.load(Ordering::SeqCst))
    }

    /// Number of streams that their sender ended.
    pub fn streams_ended(&self) -> u32 {
        self.inner.ended.load(Ordering::SeqCst)
    }

    pub fn saw_deadline(&self) -> bool {
        self.inner.saw_deadline.load(Ordering::SeqCst)
    }

    pub async fn handler_started(&self) {
        self.inner.entered.notified().await;
    }

    pub async fn handler_dropped(&self) {
        self.inner.dropped.notified().await;
    }

    /// Resumes reading.
    pub fn resume_reading(&self) {
        self.inner.pause.close();
    }

    /// Waits until all handlers have been dropped.
    pub async fn all_handlers_dropped(&self) {
        while self.inner.open.load(Ordering::SeqCst) > 0 {
            self.handler_dropped().await;
        }
    }

    async fn read_without_answer<T>(&self, mut stream: Streaming<T>) {
        let mut messages = 0;
        loop {
            match stream.message().await {
                Ok(Some(_)) => messages += 1,
                Ok(None) => {
                    // A reset also looks like an end, but drops this handler at its next await.
                    tokio::task::yield_now().await;
                    self.inner.ended.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Err(_) => return,
            }
            if messages == 4 {
                self.inner.entered.notify_one();
                // Flow control lets the messages in flight pass, not all: the client is half-way.
                let _closed = self.inner.pause.acquire().await;
            }
        }
    }
}

/// Counts open handlers and signals when one is dropped.
struct OpenHandler(Arc<Inner>);

impl OpenHandler {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.open.fetch_add(1, Ordering::SeqCst);
        Self(inner.clone())
    }
}

impl Drop for OpenHandler {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.notify_one();
    }
}

#[tonic::async_trait]
impl Compute for FakeServer {
    type NttStreamStream =
        Pin<Box<dyn Stream<Item = Result<v1::NttStreamResponse, Status>> + Send>>;
    type RunStream = Pin<Box<dyn Stream<Item = Result<v1::RunResponse, Status>> + Send>>;

    async fn msm(
        &self,
        request: Request<v1::MsmRequest>,
    ) -> Result<Response<v1::MsmResponse>, Status> {
        self.inner.calls.fetch_add(1, Ordering::SeqCst);
        let deadline = request.metadata().contains_key("grpc-timeout");
        self.inner.saw_deadline.store(deadline, Ordering::SeqCst);
        match &self.inner.mode {
            FakeMode::Refuse(status) => Err(status.clone()),
            FakeMode::ClaimVerified(verified) => {
                let execution = Some(claim(*verified));
                let result = Some(v1::MsmResult { execution, ..Default::default() });
                Ok(Response::new(v1::MsmResponse { result }))
            }
            _ => {
                let _gone = OpenHandler::new(&self.inner);
                self.inner.entered.notify_one();
                std::future::pending().await
            }
        }
    }

    async fn msm_stream(
        &self,
        request: Request<Streaming<v1::MsmStreamRequest>>,
    ) -> Result<Response<v1::MsmStreamResponse>, Status> {
        let mut stream = request.into_inner();
        let _ = stream.message().await;
        match &self.inner.mode {
            FakeMode::RefuseStream(status) => Err(status.clone()),
            FakeMode::FailFirst => {
                fail_first_call(&self.inner.streams)?;
                while stream.message().await?.is_some() {}
                Ok(Response::new(v1::MsmStreamResponse { result: Some(Default::default()) }))
            }
            _ => {
                self.read_without_answer(stream).await;
                std::future::pending().await
            }
        }
    }

    async fn ntt(
        &self,
        request: Request<v1::NttRequest>,
    ) -> Result<Response<v1::NttResponse>, Status> {
        let FakeMode::ClaimVerified(verified) = &self.inner.mode else {
            return Err(Status::unimplemented("not faked"));
        };
        let Some(v1::ntt_request::Input::Inline(rows)) = request.into_inner().input else {
            panic!("the fake takes inline rows only");
        };
        let execution = Some(claim(*verified));
        let result = Some(v1::NttResult { execution, ..Default::default() });
        let output = Some(v1::ntt_response::Output::Rows(rows));
        Ok(Response::new(v1::NttResponse { result, output }))
    }

    async fn ntt_stream(
        &self,
        _: Request<Streaming<v1::NttStreamRequest>>,
    ) -> Result<Response<Self::NttStreamStream>, Status> {
        Err(Status::unimplemented("not faked"))
    }

    /// Answers each output with the elements of the first input.
    async fn run(
        &self,
        request: Request<Streaming<v1::RunRequest>>,
    ) -> Result<Response<Self::RunStream>, Status> {
        let header = request.into_inner().message().await?.and_then(|first| first.message);
        let Some(v1::run_request::Message::Header(header)) = header else {
            panic!("the first message is a header");
        };
        let Some(v1::program_input::Source::Inline(input)) = &header.inputs[0].source else {
            panic!("the fake takes inline inputs only");
        };
        let answer = match &self.inner.mode {
            FakeMode::ClaimVerified(verified) => RunAnswer::Whole(*verified),
            FakeMode::Misanswer(answer) => *answer,
            _ => return Err(Status::unimplemented("not faked")),
        };
        let responses = answer.responses(&input.data, header.outputs.len() as u32);
        Ok(Response::new(Box::pin(tokio_stream::iter(responses.into_iter().map(Ok)))))
    }

    async fn estimate(
        &self,
        _: Request<v1::EstimateRequest>,
    ) -> Result<Response<v1::EstimateResponse>, Status> {
        Err(Status::unimplemented("not faked"))
    }
}

#[tonic::async_trait]
impl Store for FakeServer {
    type GetStream = Pin<Box<dyn Stream<Item = Result<v1::GetResponse, Status>> + Send>>;

    async fn put(
        &self,
        request: Request<Streaming<v1::PutRequest>>,
    ) -> Result<Response<v1::PutResponse>, Status> {
        if let FakeMode::RefuseStream(_) = self.inner.mode {
            return Err(refusal(Code::Cancelled, "CANCELLED", None));
        }
        let mut stream = request.into_inner();
        if let FakeMode::FailFirst = self.inner.mode {
            let header = stream.message().await?.and_then(|first| first.message);
            fail_first_call(&self.inner.streams)?;
            while stream.message().await?.is_some() {}
            return Ok(Response::new(store_answers::put(header)));
        }
        let _gone = OpenHandler::new(&self.inner);
        self.read_without_answer(stream).await;
        std::future::pending().await
    }

    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        Err(Status::unimplemented("not faked"))
    }

    async fn stat(
        &self,
        _: Request<v1::StatRequest>,
    ) -> Result<Response<v1::StatResponse>, Status> {
        match self.inner.mode {
            FakeMode::OtherObject(id) => return Ok(Response::new(store_answers::other(id))),
            FakeMode::FailFirst => fail_first_call(&self.inner.stats)?,
            _ => {}
        }
        Err(refusal(Code::NotFound, "OBJECT_UNKNOWN", None))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        match self.inner.mode {
            FakeMode::ListPages { ends } => {
                Ok(Response::new(store_answers::page(request.get_ref(), ends)))
            }
            _ => Err(Status::unimplemented("not faked")),
        }
    }

    async fn release(
        &self,
        _: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        Err(refusal(Code::NotFound, "OBJECT_UNKNOWN", None))
    }

    async fn set_residency(
        &self,
        _: Request<v1::SetResidencyRequest>,
    ) -> Result<Response<v1::SetResidencyResponse>, Status> {
        Err(Status::unimplemented("not faked"))
    }

    async fn put_program(
        &self,
        _: Request<v1::PutProgramRequest>,
    ) -> Result<Response<v1::PutProgramResponse>, Status> {
        let FakeMode::OtherObject(id) = self.inner.mode else {
            return Err(Status::unimplemented("not faked"));
        };
        let program_id = id.to_vec().into();
        Ok(Response::new(v1::PutProgramResponse { program_id, existed: true }))
    }

    async fn open_region(
        &self,
        _: Request<v1::OpenRegionRequest>,
    ) -> Result<Response<v1::OpenRegionResponse>, Status> {
        Err(Status::unimplemented("not faked"))
    }
}

#[tonic::async_trait]
impl Admin for FakeServer {
    async fn get_info(
        &self,
        _: Request<v1::GetInfoRequest>,
    ) -> Result<Response<v1::GetInfoResponse>, Status> {
        let limits = v1::Limits { message_payload_bytes: 1 << 20, ..Default::default() };
        Ok(Response::new(v1::GetInfoResponse { limits: Some(limits), ..Default::default() }))
    }

    async fn drain(
        &self,
        _: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        Err(refusal(Code::PermissionDenied, "ADMIN_ONLY", None))
    }
}
