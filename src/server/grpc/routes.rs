//! Routes of all services, and transport limits.

use std::{sync::Arc, time::Duration};

use tonic::{service::Routes, transport::Server};
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};

use super::{
    ServeError, ServerSettings,
    computing::compute::ComputeService,
    objects::store::StoreService,
    operators::{admin::AdminService, reflection},
    state::ServerState,
};
use crate::wire::{
    DESCRIPTOR_SET,
    v1::{
        admin_server::{AdminServer, SERVICE_NAME as ADMIN},
        compute_server::{ComputeServer, SERVICE_NAME as COMPUTE},
        store_server::{SERVICE_NAME as STORE, StoreServer},
    },
};

/// Maximum size of a request's metadata, in bytes; h2's default is 16 MiB.
const HEADER_LIST_BYTES: u32 = 16 << 10;

/// Interval of pings, and time to answer one before the connection is closed.
const KEEPALIVE: Duration = Duration::from_secs(20);

pub fn routes(
    state: &Arc<ServerState>,
    health: HealthServer<impl Health>,
) -> Result<Routes, ServeError> {
    let settings = &state.settings;
    let limit = settings.message_bytes_max();
    let compute = ComputeServer::new(ComputeService { state: state.clone() });
    let store = StoreServer::new(StoreService { state: state.clone() });
    let admin = AdminServer::new(AdminService { state: state.clone() });
    let routes = Routes::new(compute.max_decoding_message_size(limit))
        .add_service(store.max_decoding_message_size(limit))
        .add_service(admin.max_decoding_message_size(limit))
        .add_service(health);
    if !settings.reflection {
        return Ok(routes);
    }
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
    };
    // Many tools know v1alpha only. Each answer repeats its request.
    let (v1, v1alpha) = (builder().build_v1()?, builder().build_v1alpha()?);
    Ok(routes
        .add_service(v1.max_decoding_message_size(reflection::REQUEST_BYTES_MAX))
        .add_service(v1alpha.max_decoding_message_size(reflection::REQUEST_BYTES_MAX)))
}

/// Routes of the administrative socket.
pub fn admin_routes(state: &Arc<ServerState>, health: HealthServer<impl Health>) -> Routes {
    let admin = AdminServer::new(AdminService { state: state.clone() });
    let limit = state.settings.message_bytes_max();
    Routes::new(admin.max_decoding_message_size(limit)).add_service(health)
}

/// The transport with its limits: the defaults of tonic and h2 are for trusted callers.
pub fn transport(settings: &ServerSettings) -> Server {
    Server::builder()
        .initial_stream_window_size(settings.http2_stream_window_bytes)
        .initial_connection_window_size(settings.http2_connection_window_bytes)
        .max_frame_size(settings.http2_frame_bytes_max)
        .max_connection_age(settings.connection_age_max)
        .max_concurrent_streams(settings.streams_per_connection_max)
        .http2_max_header_list_size(HEADER_LIST_BYTES)
        // Rapid reset, CVE-2023-44487.
        .http2_max_pending_accept_reset_streams(Some(20))
        .http2_max_local_error_reset_streams(Some(256))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
}

pub async fn report(health: &HealthReporter, status: ServingStatus) {
    for service in ["", COMPUTE, STORE, ADMIN] {
        health.set_service_status(service, status).await;
    }
}
