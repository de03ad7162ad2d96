//! The Admin service.

use std::{sync::Arc, time::Duration};

use tonic::{Request, Response, Status};

use crate::grpc::{
    calls::call::{self, CallContext, coarse},
    computing::single_step,
    devices::device_query::READINGS_WAIT,
    state::ServerState,
};
use crate::{
    buffer::Quota,
    curve::TWO_ADICITY,
    engine::{DeviceInfo, MsmPlan},
    error::Error,
    telemetry::AuditAction,
    wire::v1::{self, admin_server::Admin},
};

pub struct AdminService {
    pub state: Arc<ServerState>,
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn get_info(
        &self,
        request: Request<v1::GetInfoRequest>,
    ) -> Result<Response<v1::GetInfoResponse>, Status> {
        call::run(&self.state, "get_info", request, async |call, _| Ok(info(&call).await?)).await
    }

    async fn drain(
        &self,
        request: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        call::run(&self.state, "drain", request, async |call, request| {
            let state = &call.state;
            if !call.is_operator() {
                call.audit(AuditAction::RefusedAdmin, format_args!("drain"));
                return Err(Error::AdminOnly.into());
            }
            let grace = match request.grace_ms {
                0 => state.settings.drain_grace,
                grace_ms => Duration::from_millis(grace_ms),
            };
            let grace_ms = grace.as_millis() as u64;
            call.audit(AuditAction::Drain, format_args!("server, grace_ms {grace_ms}"));
            tracing::info!(caller = %call.caller.subject, grace_ms, "a caller drains the server");
            state.drain.begin(grace);
            Ok(v1::DrainResponse { jobs: state.budget.jobs.used() as u32 })
        })
        .await
    }
}

async fn info(call: &CallContext) -> Result<v1::GetInfoResponse, Error> {
    let CallContext { state, tenant, caller, .. } = call;
    let settings = &state.settings;
    let executor = state.compute.executor.clone();
    let engine_name = executor.description().kind;
    let devices = match state.devices.query_within(READINGS_WAIT, executor.clone()).await {
        Some(devices) => devices,
        None => match state.devices.last() {
            Some(devices) => devices,
            None => state.devices.query(executor).await?,
        },
    };
    Ok(v1::GetInfoResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        engine: engine_name.into(),
        engine_reason: state.engine_reason.clone(),
        devices: devices.into_iter().map(|info| device(info, call.sees_others())).collect(),
        limits: Some(v1::Limits {
            message_payload_bytes: settings.message_payload_bytes_max,
            bytes_in_flight: settings.bytes_in_flight_max,
            connection_bytes_in_flight: settings.connection_bytes_in_flight_max,
            jobs: settings.jobs_max,
            connection_jobs: settings.connection_jobs_max,
            store_bytes: settings.store_bytes_max,
            ntt_lg_n: ntt_lg_n(state),
            idle_timeout_ms: settings.idle_timeout.as_millis() as u64,
            peer_bytes_per_second: settings.peer_bytes_per_second_min,
            connections: settings.connections_max,
            objects: settings.objects_max,
            region_bytes: match settings.unix_socket {
                Some(_) => settings.region_bytes_max,
                None => 0,
            },
            program_time_s: settings.program_time_max.as_secs(),
        }),
        load: Some(load(call)),
        uptime_s: state.started.elapsed().as_secs(),
        draining: state.drain.is_draining(),
        caller: Some(v1::Caller {
            subject: caller.subject.to_string(),
            tenant: tenant.name.to_string(),
        }),
    })
}

fn load(call: &CallContext) -> v1::Load {
    let CallContext { state, tenant, .. } = call;
    let used = |all, own: &Quota| call.visible_use(all, own.used());
    v1::Load {
        bytes_in_flight: used(state.budget.bytes.used(), &tenant.bytes),
        jobs: used(state.budget.jobs.used(), &tenant.jobs) as u32,
        store_bytes: used(state.objects.budget().used(), &tenant.store_bytes),
        connections: used(state.connections.used(), &tenant.connections) as u32,
        objects: used(state.objects.slots().used(), &tenant.objects) as u32,
        region_bytes: used(state.regions.bytes(), &tenant.region_bytes),
    }
}

/// Without `is_exact`, what jobs lease is rounded, and readings that show what other tenants do are
/// left out.
fn device(mut info: DeviceInfo, is_exact: bool) -> v1::Device {
    if let Some(gpu) = info.gpu.as_mut().filter(|_| !is_exact) {
        let leased_bytes = coarse(gpu.arena_bytes.saturating_sub(gpu.arena_free_bytes));
        gpu.arena_free_bytes = gpu.arena_bytes.saturating_sub(leased_bytes);
        (gpu.clock_mhz, gpu.temperature_c, gpu.power_mw) = (None, None, None);
    }
    v1::Device {
        name: info.name,
        kind: info.kind.into(),
        units: info.units,
        memory_bytes: info.memory_bytes,
        gpu: info.gpu.map(|gpu| v1::Gpu {
            index: gpu.index,
            capability: gpu.capability,
            driver_version: gpu.driver_version,
            cuda_version: gpu.cuda_version,
            emulated: gpu.emulated,
            kernel_archs: gpu.kernel_archs,
            self_test: gpu.self_test,
            arena_bytes: gpu.arena_bytes,
            arena_free_bytes: gpu.arena_free_bytes,
            clock_mhz: gpu.clock_mhz,
            clock_max_mhz: gpu.clock_max_mhz,
            memory_clock_mhz: gpu.memory_clock_mhz,
            temperature_c: gpu.temperature_c,
            power_mw: gpu.power_mw,
            ecc: gpu.ecc,
            ecc_uncorrected: gpu.ecc_uncorrected,
            msm_plans: gpu.msm_plans.into_iter().map(msm_plan).collect(),
        }),
    }
}

fn msm_plan(plan: MsmPlan) -> v1::MsmPlan {
    v1::MsmPlan {
        group: v1::Group::from(plan.group).into(),
        lg_n: plan.lg_n,
        uses: plan.uses,
        plan: plan.plan,
        window_bits: plan.window_bits,
        tables: plan.tables,
        table_bytes: plan.table_bytes,
    }
}

/// The largest lg_n that can be admitted, for one row without a check.
fn ntt_lg_n(state: &ServerState) -> u32 {
    let settings = &state.settings;
    let bytes_max = settings.bytes_in_flight_max.min(settings.connection_bytes_in_flight_max);
    let fits = |lg_n: &u32| {
        single_step::bytes_of_ntt(&state.compute, *lg_n).is_ok_and(|bytes| bytes <= bytes_max)
    };
    (0..=TWO_ADICITY).rev().find(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::GpuInfo;

    #[test]
    fn what_others_lease_of_a_gpu_is_rounded_and_readings_are_left_out() {
        let gpu = GpuInfo {
            arena_bytes: 1000,
            arena_free_bytes: 300,
            clock_mhz: Some(1980),
            clock_max_mhz: Some(1980),
            temperature_c: Some(40),
            power_mw: Some(350_000),
            ..GpuInfo::default()
        };
        let info = DeviceInfo {
            name: "a GPU".into(),
            kind: "cuda",
            units: 132,
            memory_bytes: 2000,
            gpu: Some(gpu),
        };
        let shown = |is_exact| device(info.clone(), is_exact).gpu.unwrap();
        let (exact, rounded) = (shown(true), shown(false));
        assert_eq!((exact.arena_free_bytes, exact.power_mw), (300, Some(350_000)));
        assert_eq!((exact.clock_mhz, exact.temperature_c), (Some(1980), Some(40)));
        // 700 bytes are leased, of which 512 are shown.
        assert_eq!((rounded.arena_free_bytes, rounded.arena_bytes), (488, 1000));
        assert_eq!((rounded.clock_mhz, rounded.clock_max_mhz), (None, Some(1980)));
        assert_eq!((rounded.temperature_c, rounded.power_mw), (None, None));
    }
}
