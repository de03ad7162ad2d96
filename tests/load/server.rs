//! A server whose runtime ends idle threads soon, so that tests need not wait long for them.

use std::{sync::mpsc, thread, time::Duration};

use capstan::server::{Drainer, Engines, Server, ServerSettings};
use tokio::runtime::{Builder, Runtime};

/// How long an idle thread for blocking work lives.
pub const IDLE_THREAD_MAX: Duration = Duration::from_millis(500);

pub fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_keep_alive(IDLE_THREAD_MAX).build().expect("threads start")
}

/// A server with the CPU engine on its own threads. Dropping it drains it.
pub struct LoadedServer {
    pub target: String,
    drainer: Drainer,
    thread: Option<thread::JoinHandle<()>>,
}

impl LoadedServer {
    pub fn start(settings: ServerSettings) -> Self {
        let settings = ServerSettings { listen: Some(([127, 0, 0, 1], 0).into()), ..settings };
        let engines = Engines::cpu(0, "requested").expect("threads start");
        let (sender, listening) = mpsc::channel();
        let thread = thread::spawn(move || {
            runtime().block_on(async {
                let server = Server::bind(settings, engines).await.expect("a port is free");
                let address = server.tcp_address().expect("the server listens on TCP");
                sender.send((address, server.drainer())).expect("the caller waits");
                server.serve().await.expect("the server runs until it is drained");
            });
        });
        let (address, drainer) = listening.recv().expect("the server starts");
        Self { target: format!("http://{address}"), drainer, thread: Some(thread) }
    }
}

impl Drop for LoadedServer {
    fn drop(&mut self) {
        self.drainer.drain(None);
        // Do not wait if the test has failed: work that it left behind may keep the server alive.
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().expect("the server does not panic");
        }
    }
}
