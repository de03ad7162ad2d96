//! What the lessons (and the client's tests) share: a server in this process, and some input.
#![allow(dead_code)] // no lesson needs everything

use std::{iter, sync::mpsc, thread};

use ark_ec::CurveGroup;
use ark_std::{UniformRand, rand::Rng, test_rng};
use capstan::{
    client::{CurvePoint, Fr},
    server::{Drainer, Engines, Server, Settings},
};

/// A server on threads of its own.
pub struct Running {
    /// Where its TCP listener is: `http://127.0.0.1:port`.
    pub target: String,
    drainer: Drainer,
    thread: Option<thread::JoinHandle<()>>,
}

impl Running {
    /// Drains it and waits until it has gone.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.drainer.drain(None);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends well");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A server on a free port of the loopback, with defaults otherwise.
pub fn server() -> Running {
    serve(Settings::default())
}

/// A server with these settings, but on a free port.
pub fn serve(settings: Settings) -> Running {
    serve_with(settings, Engines::cpu(0, "asked for").expect("threads for an engine"))
}

/// The same with these engines.
pub fn serve_with(settings: Settings, engines: Engines) -> Running {
    let settings = Settings { listen: Some(([127, 0, 0, 1], 0).into()), ..settings };
    let (told, listening) = mpsc::channel();
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("threads for a server");
        runtime.block_on(async {
            let server = Server::bind(settings, engines).await.expect("a free port");
            let drainer = server.drainer();
            let listening = (server.tcp_address().expect("listens on TCP"), drainer);
            told.send(listening).expect("somebody waits");
            server.serve().await.expect("serves until it is drained");
        });
    });
    let (address, drainer) = listening.recv().expect("the server starts");
    let target = format!("{scheme}://{address}");
    Running { target, drainer, thread: Some(thread) }
}

/// Different points, quickly: an arithmetic progression.
pub fn points<A: CurvePoint>(n: usize) -> Vec<A> {
    let mut rng = test_rng();
    let (first, step) = (A::Group::rand(&mut rng), A::Group::rand(&mut rng));
    let points: Vec<_> =
        iter::successors(Some(first), |point| Some(*point + step)).take(n).collect();
    A::Group::normalize_batch(&points)
}

/// Random elements.
pub fn scalars(n: usize) -> Vec<Fr> {
    let mut rng = test_rng();
    (0..n).map(|_| Fr::rand(&mut rng)).collect()
}

/// Random bytes.
pub fn bytes(n: usize) -> Vec<u8> {
    let mut rng = test_rng();
    (0..n).map(|_| rng.r#gen()).collect()
}
