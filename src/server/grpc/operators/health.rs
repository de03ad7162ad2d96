//! Health checks by the protocol `grpc.health.v1`.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use tonic::{Code, Request, Response, Status};
use tonic_health::{
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_check_response::ServingStatus,
        health_server::{Health, HealthServer},
    },
    server::{HealthReporter, HealthService},
};

/// tonic's service refuses to watch a service that it does not know. By the protocol, such a watch
/// gets SERVICE_UNKNOWN and stays open.
pub struct HealthChecks(HealthService);

/// The service, and the reporter that sets which services are healthy.
pub fn health_checks() -> (HealthReporter, HealthServer<HealthChecks>) {
    let reporter = HealthReporter::new();
    let service = HealthService::from_health_reporter(reporter.clone());
    (reporter, HealthServer::new(HealthChecks(service)))
}

#[tonic::async_trait]
impl Health for HealthChecks {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        match self.0.watch(request).await {
            Ok(known) => Ok(known.map(StreamExt::boxed)),
            Err(refused) if refused.code() == Code::NotFound => {
                let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
                let told = stream::iter([Ok(unknown)]).chain(stream::pending());
                Ok(Response::new(told.boxed()))
            }
            Err(refused) => Err(refused),
        }
    }
}
