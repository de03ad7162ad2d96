//! The Store service: bases, matrices, vectors, regions, and files of stored objects.

pub mod import;
pub mod list;
pub mod loading;
pub mod object_checks;
pub mod read_object;
pub mod regions;
pub mod store;
