//! A server in the caller's process, on a free port of the loopback.

pub use capstan_server::grpc::ServeError;
use capstan_server::grpc::{Drainer, Engines, Server, ServerSettings};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error;

/// A server that is a task of the caller's runtime.
pub struct EmbeddedServer {
    /// The address for clients: `http://127.0.0.1:port`.
    pub target: String,
    drainer: Drainer,
    task: JoinHandle<Result<(), ServeError>>,
}

impl EmbeddedServer {
    /// Starts a server with default settings. GPUs compute if they pass their self-test, otherwise
    /// the CPU; `GetInfo` reports the engine and the reason. If a GPU is lost later, the process
    /// ends, after `report` was called with the cause.
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

fn engines(report: fn(&str)) -> error::Result<Engines> {
    gpu::engines(report).or_else(|reason| Engines::cpu(0, reason.to_string()))
}

mod gpu {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::Duration,
    };

    use capstan_engine::{EngineOptions, engines::cpu::ArkworksEngine};
    use capstan_gpu::device::{self, DeviceFault, FaultClass};
    use capstan_server::grpc::Engines;

    /// A share of the free device memory: other processes may need the rest.
    const MEMORY_PERCENT: u64 = 25;
    /// Time for the failed call to be reported after a GPU is lost.
    const REPORT_WAIT: Duration = Duration::from_secs(5);

    /// An engine on all GPUs of the host that can be used.
    ///
    /// Errors: why no GPU can be used.
    pub fn engines(report: fn(&str)) -> Result<Engines, Box<dyn std::error::Error>> {
        let oracle = ArkworksEngine::new(0)?;
        // A GPU that fails before it serves is left out.
        let is_serving = Arc::new(AtomicBool::new(false));
        let is_watched = is_serving.clone();
        let options = EngineOptions {
            memory_percent: MEMORY_PERCENT,
            on_fault: Arc::new(move |fault| on_fault(fault, &is_watched, report)),
            ..EngineOptions::default()
        };
        let engine = options.open_gpus()?;
        let reasons = engine.left_out().iter().map(|device| device.reason.to_string());
        let reason = [engine.summary()].into_iter().chain(reasons).collect::<Vec<_>>().join("; ");
        is_serving.store(true, Ordering::Release);
        Ok(Engines::on_gpus(engine, oracle, reason, 0))
    }

    /// After a fatal fault the driver may hang at exit, so the process ends without it.
    fn on_fault(fault: &DeviceFault, is_serving: &AtomicBool, report: fn(&str)) {
        if fault.class() != FaultClass::Fatal || !is_serving.load(Ordering::Acquire) {
            return;
        }
        let text = format!("a GPU was lost and the process ends: {fault}");
        thread::spawn(move || {
            thread::sleep(REPORT_WAIT);
            report(&text);
            device::exit_without_handlers(1);
        });
    }
}

#[cfg(test)]
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
