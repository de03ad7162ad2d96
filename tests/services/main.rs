//! The suites of servers, clients and programs: one binary, because each binary is linked with the
//! whole library.

mod architectures;
#[path = "../../src/gpu/build/archs.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod archs;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../chaos/mod.rs"]
mod chaos;
#[cfg(all(feature = "cli", feature = "server"))]
#[path = "../cli/mod.rs"]
mod cli;
#[cfg(all(feature = "client", feature = "server"))]
mod client;
#[cfg(all(feature = "client", feature = "server"))]
mod client_faults;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../client_programs/mod.rs"]
mod client_programs;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../daemon/mod.rs"]
mod daemon;
#[path = "../common/daemon_process.rs"]
mod daemon_process;
#[path = "../common/emulated.rs"]
mod emulated;
#[path = "../encodings/mod.rs"]
mod encodings;
#[path = "../../examples/common/mod.rs"]
mod example_support;
#[path = "../fake/mod.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod fake;
#[cfg(all(feature = "groth16", feature = "server"))]
#[path = "../groth16/mod.rs"]
mod groth16;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../identity/mod.rs"]
mod identity;
#[path = "../common/idle.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod idle;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../kzg/mod.rs"]
mod kzg;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../many_servers/mod.rs"]
mod many_servers;
#[path = "../common/msm_inputs.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod msm_inputs;
#[cfg(all(feature = "client", feature = "otlp"))]
mod otlp;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../proxies/mod.rs"]
mod proxies;
#[path = "../proxy/mod.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod proxy;
#[path = "../rig/mod.rs"]
mod rig;
#[cfg(all(feature = "client", feature = "server"))]
#[path = "../service/mod.rs"]
mod service;
#[cfg(feature = "server")]
mod settings;
#[path = "../common/shell_blocks.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod shell_blocks;
#[path = "../common/sparse_inputs.rs"]
mod sparse_inputs;
#[path = "../common/stable_port.rs"]
mod stable_port;
#[path = "../common/sweep.rs"]
mod sweep;
#[path = "../common/tls_files.rs"]
#[allow(dead_code)] // without some features, nothing uses it
mod tls_files;
