//! Kernel images embedded by the build.

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

/// Each kernel module's name and image; the image is `None` in a build without nvcc.
pub fn images() -> &'static [(&'static str, Option<&'static [u8]>)] {
    embedded::IMAGES
}

/// Architectures that the images hold machine code for, such as "90"; empty in a build without
/// nvcc. PTX of the newest one serves later architectures.
pub fn archs() -> &'static [&'static str] {
    embedded::ARCHS
}

/// Version of the CUDA toolkit that compiled the images, major and minor; zeros without nvcc.
pub(super) fn toolkit() -> (u32, u32) {
    embedded::TOOLKIT
}
