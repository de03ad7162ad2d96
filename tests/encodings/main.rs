//! Encodings of points and scalars against arkworks' serialization, and every refusal.

mod points;
mod scalars;
