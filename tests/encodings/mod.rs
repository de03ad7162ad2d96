//! Encodings of points and scalars against arkworks', files of both, and every refusal.

#[cfg(feature = "formats")]
mod point_files;
mod points;
#[cfg(feature = "formats")]
mod scalar_text;
mod scalars;
#[cfg(feature = "formats")]
mod trusted_setups;
