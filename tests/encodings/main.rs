//! Encodings of points and scalars against arkworks' own serialization, and every refusal.

mod points;
mod scalars;
