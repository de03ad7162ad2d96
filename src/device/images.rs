//! The kernels that the build embedded.

/// The alignment that the driver reads images with.
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

/// Name of every kernel module and its image; `None` in a build without nvcc.
pub fn images() -> &'static [(&'static str, Option<&'static [u8]>)] {
    embedded::IMAGES
}

/// The architectures that images hold machine code for, such as "90"; none in a build without nvcc.
/// PTX of the newest serves later ones.
pub fn archs() -> &'static [&'static str] {
    embedded::ARCHS
}

/// The toolkit that made the images, major and minor; zeros in a build without nvcc.
pub(super) fn toolkit() -> (u32, u32) {
    embedded::TOOLKIT
}
