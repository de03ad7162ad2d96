//! Export of spans by OTLP: the daemon, and a collector in this process.

use crate::daemon_process;
use std::sync::mpsc::{Receiver, Sender, channel};

use capstan::{
    client::{Client, Fr, ProgramBuilder, ProgramRun},
    wire::v1::{GetInfoRequest, admin_client::AdminClient},
};
use daemon_process::{DaemonProcess, capstand};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::Span,
};
use parking_lot::Mutex;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Endpoint, Server},
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

struct ExportedSpan {
    resource: Resource,
    span: Span,
}

struct Collector(Mutex<Sender<ExportedSpan>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            for span in spans {
                let exported = ExportedSpan { resource: resource.clone(), span };
                self.0.lock().send(exported).expect("the test waits");
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Starts a collector; returns its endpoint and the spans that it receives.
async fn collect() -> (String, Receiver<ExportedSpan>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, spans) = channel();
    let collector = TraceServiceServer::new(Collector(sender.into()));
    let served = Server::builder().add_service(collector);
    tokio::spawn(served.serve_with_incoming(TcpListenerStream::new(listener)));
    (endpoint, spans)
}

fn start(endpoint: &str) -> DaemonProcess {
    let flags = ["--listen", "127.0.0.1:0", "--threads", "1", "--metrics-listen", "none"];
    let own = ["--engine", "cpu", "--otlp-endpoint", endpoint];
    DaemonProcess::start(capstand(&[&flags[..], &own].concat()))
}

/// Computes powers, without a trace.
async fn run_program(target: &str) {
    let mut program = ProgramBuilder::new();
    let powers = program.powers(Fr::from(1), Fr::from(2), 4).unwrap();
    let program = program.build().unwrap();
    let client = Client::builder(target).connections(1).connect().await.unwrap();
    client.run(ProgramRun::new(&program).send(powers)).await.unwrap();
}

async fn get_info(target: &str, trace_parent: String) {
    let channel = Endpoint::from_shared(target.to_owned()).unwrap().connect().await.unwrap();
    let mut request = Request::new(GetInfoRequest {});
    request.metadata_mut().insert("traceparent", trace_parent.parse().unwrap());
    request.metadata_mut().insert("authorization", "Bearer sesame".parse().unwrap());
    AdminClient::new(channel).get_info(request).await.unwrap();
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|found| found.value.as_ref()?.value.as_ref());
    match value {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn spans_of_calls_are_exported_as_children_of_the_callers_span() {
    let runtime = Runtime::new().unwrap();
    let (endpoint, spans) = runtime.block_on(collect());
    let daemon = start(&endpoint);
    runtime.block_on(async {
        get_info(&daemon.target(), format!("00-{TRACE}-{PARENT}-01")).await;
        // The caller does not record its trace.
        get_info(&daemon.target(), format!("00-{TRACE}-{PARENT}-00")).await;
        run_program(&daemon.target()).await;
    });
    // The daemon exports its last spans before it ends.
    daemon.stop();
    let exported: Vec<_> = spans.try_iter().collect();
    let of_op = |name: &str, op: &str| {
        let is_of_op = |span: &&Span| span.name == name && text(&span.attributes, "op") == op;
        exported.iter().map(|exported| &exported.span).filter(is_of_op).collect::<Vec<_>>()
    };
    // The client makes another one when it connects.
    let [info, _connect] = of_op("call", "get_info")[..] else {
        panic!("a span for an unsampled call")
    };
    assert_eq!(hex::encode(&info.trace_id), TRACE);
    assert_eq!(hex::encode(&info.parent_span_id), PARENT);
    let ([run], [job]) = (&of_op("call", "run")[..], &of_op("job", "run")[..]) else {
        panic!("{:?}", exported.iter().map(|exported| &exported.span).collect::<Vec<_>>());
    };
    assert!(run.trace_id != info.trace_id && run.parent_span_id.is_empty(), "{run:?}");
    assert_eq!((&job.trace_id, &job.parent_span_id), (&run.trace_id, &run.span_id));
    assert_eq!(exported.len(), 4, "others are exported");
    for ExportedSpan { resource, span } in &exported {
        assert_eq!(text(&resource.attributes, "service.name"), "capstand");
        assert!(!format!("{span:?}").contains("sesame"), "a token is exported");
    }
    for call in [info, run] {
        assert_eq!(text(&call.attributes, "caller"), "anonymous");
        assert_eq!(text(&call.attributes, "outcome"), "OK");
    }
}

/// The collector accepts connections, but never speaks.
#[test]
fn a_silent_collector_stops_neither_calls_nor_the_exit() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let daemon = start(&endpoint);
    Runtime::new().unwrap().block_on(async {
        // More than the queue of the exporter takes.
        let client = daemon.client().connect().await.unwrap();
        for _ in 0..3000 {
            client.info().await.unwrap();
        }
    });
    daemon.stop();
}
