//! Encodings of points and scalars against arkworks', files of both, and every refusal.

mod point_files;
mod points;
mod scalar_text;
mod scalars;
mod trusted_setups;
