//! Raw tonic as the baseline: a client-streaming call whose handler only copies each chunk into a
//! buffer, with the transport settings of Capstan's server and client.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use bytes::Bytes;
use capstan::{
    server::ServerSettings,
    wire::v1::{
        Chunk, GetRequest, GetResponse, ListRequest, ListResponse, OpenRegionRequest,
        OpenRegionResponse, PutProgramRequest, PutProgramResponse, PutRequest, PutResponse,
        ReleaseRequest, ReleaseResponse, SetResidencyRequest, SetResidencyResponse, StatRequest,
        StatResponse,
        put_request::Message,
        store_client::StoreClient,
        store_server::{Store, StoreServer},
    },
};
use futures_util::{future::try_join_all, stream};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status, Streaming,
    codegen::BoxStream,
    transport::{
        Channel, Endpoint, Server,
        server::{Router, TcpIncoming},
    },
};

const CHUNK_BYTES: usize = 256 << 10;

/// Reused buffers, whose memory is mapped already: the best case for tonic.
#[derive(Clone, Default)]
struct CopyingStore(Arc<Mutex<Vec<Vec<u8>>>>);

#[tonic::async_trait]
impl Store for CopyingStore {
    async fn put(
        &self,
        request: Request<Streaming<PutRequest>>,
    ) -> Result<Response<PutResponse>, Status> {
        let mut stream = request.into_inner();
        let spare = self.0.lock().expect("not poisoned").pop();
        let mut buffer = spare.unwrap_or_default();
        buffer.clear();
        while let Some(message) = stream.message().await? {
            if let Some(Message::Chunk(chunk)) = message.message {
                buffer.extend_from_slice(&chunk.data);
            }
        }
        self.0.lock().expect("not poisoned").push(buffer);
        Ok(Response::new(PutResponse::default()))
    }

    type GetStream = BoxStream<GetResponse>;

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn stat(&self, _: Request<StatRequest>) -> Result<Response<StatResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn release(
        &self,
        _: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn set_residency(
        &self,
        _: Request<SetResidencyRequest>,
    ) -> Result<Response<SetResidencyResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn put_program(
        &self,
        _: Request<PutProgramRequest>,
    ) -> Result<Response<PutProgramResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }

    async fn open_region(
        &self,
        _: Request<OpenRegionRequest>,
    ) -> Result<Response<OpenRegionResponse>, Status> {
        Err(Status::unimplemented("raw"))
    }
}

fn router(settings: &ServerSettings, sink: CopyingStore) -> Router {
    Server::builder()
        .initial_stream_window_size(settings.http2_stream_window_bytes)
        .initial_connection_window_size(settings.http2_connection_window_bytes)
        .max_frame_size(settings.http2_frame_bytes_max)
        .add_service(StoreServer::new(sink))
}

/// Serves on TCP and at `socket` until the process ends; returns the TCP target.
pub fn serve(settings: ServerSettings, socket: PathBuf) -> String {
    let (told, listening) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("threads for a server");
        runtime.block_on(async {
            let sink = CopyingStore::default();
            let tcp = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
            let tcp = tcp.with_nodelay(Some(true));
            let unix = UnixListenerStream::new(UnixListener::bind(socket).expect("a socket"));
            told.send(tcp.local_addr().expect("an address")).expect("the receiver waits");
            let (one, two) = tokio::join!(
                router(&settings, sink.clone()).serve_with_incoming(tcp),
                router(&settings, sink).serve_with_incoming(unix),
            );
            one.and(two).expect("serves until the process ends");
        });
    });
    format!("http://{}", listening.recv().expect("the server starts"))
}

/// Connections to a raw server.
pub struct RawClient(Vec<StoreClient<Channel>>);

impl RawClient {
    /// Opens connections with the settings of [`capstan::client`].
    pub async fn connect(target: &str, connections: usize) -> Self {
        let endpoint = Endpoint::from_shared(target.to_owned())
            .expect("a target")
            .tcp_nodelay(true)
            .max_frame_size(512 << 10)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20);
        let channels = (0..connections).map(|_| endpoint.connect());
        let channels = try_join_all(channels).await.expect("the server listens");
        Self(channels.into_iter().map(StoreClient::new).collect())
    }

    /// Sends `payload` in chunks, distributed round-robin over the connections.
    pub async fn put(&self, payload: &Bytes) {
        let lanes = self.0.len();
        let puts = self.0.iter().enumerate().map(|(lane, store)| {
            let (payload, mut store) = (payload.clone(), store.clone());
            let starts = (lane * CHUNK_BYTES..payload.len()).step_by(lanes * CHUNK_BYTES);
            let chunks = starts.map(move |start| {
                let end = (start + CHUNK_BYTES).min(payload.len());
                let chunk = Chunk { offset: start as u64, data: payload.slice(start..end) };
                PutRequest { message: Some(Message::Chunk(chunk)) }
            });
            async move { store.put(stream::iter(chunks)).await }
        });
        try_join_all(puts).await.expect("the server accepts everything");
    }
}
