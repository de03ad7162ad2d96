//! The connections of a client, and which server they reach.

pub mod affinity;
pub mod connect;
pub mod connect_cause;
pub mod connections;
pub mod credentials;
pub mod priority;
pub mod resolve;
pub mod same_server;
pub mod tcp;
