//! What computes in the process of a command: the engine, or a server on a loopback port.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "server")]
pub use self::server::{EmbeddedServer, ServeError};
use capstan_engine::{Engine, EngineOptions};
use capstan_gpu::device::{self, DeviceFault, FaultClass};

use crate::error::Result;

/// A share of the free device memory: other processes may need the rest.
const MEMORY_PERCENT: u64 = 25;
/// Time for the failed call to be reported after a GPU is lost.
const REPORT_WAIT: Duration = Duration::from_secs(5);

/// Opens the engine: GPUs compute if they pass their self-test, otherwise the CPU. If a GPU is lost
/// later, the process ends, after `report` was called with the cause.
///
/// Errors: `Internal` if no threads can be started.
pub fn local_engine(report: fn(&str)) -> Result<Engine> {
    let is_serving = Arc::default();
    let engine = Engine::with(options(&is_serving, report))?;
    is_serving.store(true, Ordering::Release);
    Ok(engine)
}

/// A GPU that fails before `is_serving` is set is left out.
fn options(is_serving: &Arc<AtomicBool>, report: fn(&str)) -> EngineOptions {
    let is_serving = is_serving.clone();
    EngineOptions {
        memory_percent: MEMORY_PERCENT,
        on_fault: Arc::new(move |fault| on_fault(fault, &is_serving, report)),
        ..EngineOptions::default()
    }
}

/// After a fatal fault the driver may hang at exit, so the process ends without it.
fn on_fault(fault: &DeviceFault, is_serving: &AtomicBool, report: fn(&str)) {
    if fault.class() != FaultClass::Fatal || !is_serving.load(Ordering::Acquire) {
        return;
    }
    let text = format!("a GPU was lost and the process ends: {fault}");
    device::exit_later(REPORT_WAIT, 1, move || report(&text));
}

#[cfg(feature = "server")]
mod server {
    use std::sync::{Arc, atomic::Ordering};

    use capstan_engine::engines::cpu::ArkworksEngine;
    pub use capstan_server::grpc::ServeError;
    use capstan_server::{
        grpc::{Drainer, Engines, Server, ServerSettings},
        service_error::ServiceError,
    };
    use tokio::task::{JoinHandle, spawn_blocking};

    use super::options;

    /// A server that is a task of the caller's runtime.
    pub struct EmbeddedServer {
        /// The address for clients: `http://127.0.0.1:port`.
        pub target: String,
        drainer: Drainer,
        task: JoinHandle<Result<(), ServeError>>,
    }

    impl EmbeddedServer {
        /// Starts a server with default settings. GPUs compute if they pass their self-test,
        /// otherwise the CPU; `GetInfo` reports the engine and the reason. If a GPU is lost later,
        /// the process ends, after `report` was called with the cause.
        ///
        /// Errors: see [`ServeError`].
        pub async fn start(report: fn(&str)) -> Result<Self, ServeError> {
            let engines = spawn_blocking(move || engines(report))
                .await
                .expect("opening an engine does not panic")?;
            let settings = ServerSettings {
                listen: Some(([127, 0, 0, 1], 0).into()),
                ..ServerSettings::default()
            };
            let server = Server::bind(settings, engines).await?;
            let address = server.tcp_address().expect("the settings name a TCP address");
            let drainer = server.drainer();
            let task = tokio::spawn(server.serve());
            Ok(Self { target: format!("http://{address}"), drainer, task })
        }

        /// Drains the server and waits until it has stopped.
        ///
        /// Errors: see [`ServeError`].
        pub async fn stop(self) -> Result<(), ServeError> {
            self.drainer.drain(None);
            self.task.await.expect("serving does not panic")
        }
    }

    fn engines(report: fn(&str)) -> Result<Engines, ServiceError> {
        on_gpus(report).or_else(|reason| Engines::cpu(0, reason.to_string()))
    }

    /// Engines on all GPUs of the host that can be used.
    ///
    /// Errors: why no GPU can be used.
    fn on_gpus(report: fn(&str)) -> Result<Engines, Box<dyn std::error::Error>> {
        let oracle = ArkworksEngine::new(0)?;
        let is_serving = Arc::default();
        let engine = options(&is_serving, report).open_gpus()?;
        let reasons = engine.left_out().iter().map(|device| device.reason.to_string());
        let reason = [engine.summary()].into_iter().chain(reasons).collect::<Vec<_>>().join("; ");
        is_serving.store(true, Ordering::Release);
        Ok(Engines::on_gpus(engine, oracle, reason, 0))
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use crate::client::Client;

    #[tokio::test]
    async fn serves_until_it_is_stopped() {
        let server = EmbeddedServer::start(|_| ()).await.unwrap();
        let target = server.target.clone();
        let info = Client::connect(&target).await.unwrap().info().await.unwrap();
        assert!(["cpu", "cuda"].contains(&info.engine.as_str()), "{}", info.engine);
        assert!(!info.engine_reason.is_empty());
        server.stop().await.unwrap();
        assert!(Client::connect(&target).await.is_err());
    }
}
