//! What a server keeps: bases, matrices and vectors.

pub mod bases;
pub mod held;
pub mod list;
pub mod matrices;
pub mod matrix_handle;
pub mod put_again;
pub mod release;
pub mod vectors;
