//! The service: listeners, limits, handlers. The only module that knows tonic's server side.

pub mod settings;

pub use settings::{Settings, Tls};
