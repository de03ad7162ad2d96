//! Kernel images embedded by the build.

use super::MajorMinor;

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

    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// The image of a kernel module.
pub(super) struct KernelImage {
    pub name: &'static str,
    /// `None` in a build without nvcc.
    pub code: Option<&'static [u8]>,
}

pub(super) fn image(name: &str) -> Option<KernelImage> {
    let (name, code) = *embedded::IMAGES.iter().find(|(known, _)| *known == name)?;
    Some(KernelImage { name, code })
}

/// Architectures that the images hold machine code for, such as "90"; empty in a build without
/// nvcc. PTX of the newest one serves later architectures.
pub fn archs() -> &'static [&'static str] {
    embedded::ARCHS
}

/// Version of the CUDA toolkit that compiled the images; zeros without nvcc.
pub(super) fn toolkit() -> MajorMinor {
    let (major, minor) = embedded::TOOLKIT;
    MajorMinor { major, minor }
}
