//! Kernel images embedded by the build, and the versions that they are built for.

use std::fmt;

/// The alignment that the driver requires of images.
#[allow(dead_code)] // a build without nvcc has no image
#[repr(C)]
struct Aligned<B: ?Sized> {
    align: [u128; 0],
    bytes: B,
}

mod embedded {
    #[allow(unused_imports)] // a build without nvcc has no image
    use super::Aligned;
    use super::{KernelImage, MajorMinor};

    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// A compute capability or a CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MajorMinor {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for MajorMinor {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}.{}", self.major, self.minor)
    }
}

/// A module's compiled code.
#[derive(Clone, Copy)]
pub(super) struct KernelImage {
    pub name: &'static str,
    /// `None` in a build without nvcc.
    pub code: Option<&'static [u8]>,
}

pub(super) fn image(name: &str) -> Option<KernelImage> {
    embedded::IMAGES.iter().find(|image| image.name == name).copied()
}

/// Architectures that the images hold machine code for, such as "90"; empty in a build without
/// nvcc. PTX of the newest one serves later architectures.
pub fn archs() -> &'static [&'static str] {
    embedded::ARCHS
}

/// Version of the CUDA toolkit that compiled the images; zeros without nvcc.
pub(super) fn toolkit() -> MajorMinor {
    embedded::TOOLKIT
}
