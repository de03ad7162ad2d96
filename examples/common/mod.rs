//! Shared by the lessons and the client's tests: a server in this process, and random input.
#![allow(dead_code)] // no lesson uses everything

use std::{iter, sync::mpsc, thread};

use ark_ec::CurveGroup;
use ark_std::{UniformRand, rand::Rng, test_rng};
use capstan::{
    client::{CurvePoint, Fr},
    server::{Drainer, Engines, Server, ServerSettings},
};

/// A server on its own threads.
pub struct TestServer {
    /// Address of the TCP listener: `http://127.0.0.1:port`.
    pub target: String,
    drainer: Drainer,
    thread: Option<thread::JoinHandle<()>>,
}

impl TestServer {
    /// Drains the server and waits until it has stopped.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.drainer.drain(None);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A server with default settings, on a free loopback port.
pub fn server() -> TestServer {
    serve(ServerSettings::default())
}

/// A server with the given settings, on a free loopback port.
pub fn serve(settings: ServerSettings) -> TestServer {
    serve_with(settings, Engines::cpu(0, "requested").expect("threads start"))
}

/// A server with the given settings and engines, on a free loopback port.
pub fn serve_with(settings: ServerSettings, engines: Engines) -> TestServer {
    let settings = ServerSettings { listen: Some(([127, 0, 0, 1], 0).into()), ..settings };
    let (sender, listening) = mpsc::channel();
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("threads start");
        runtime.block_on(async {
            let server = Server::bind(settings, engines).await.expect("a port is free");
            let drainer = server.drainer();
            let listening = (server.tcp_address().expect("the server listens on TCP"), drainer);
            sender.send(listening).expect("the caller waits");
            server.serve().await.expect("the server runs until it is drained");
        });
    });
    let (address, drainer) = listening.recv().expect("the server starts");
    let target = format!("{scheme}://{address}");
    TestServer { target, drainer, thread: Some(thread) }
}

/// Distinct points in arithmetic progression, which is fast to generate.
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
