//! The types of a kernel's parameters, and how a launch packs its arguments.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::{DeviceFault, DeviceSlice, Stream};

/// Maximum number of parameters of a kernel.
pub(super) const PARAMETERS_MAX: usize = 12;

/// A parameter of type `T*`; its argument is a [`DeviceSlice`].
pub struct DevicePtr<T>(PhantomData<T>);

/// The type of one parameter: [`DevicePtr`], `u32` or `u64`.
pub trait KernelParameter: sealed::SealedParameter {
    /// The argument's type.
    type Argument<'a>;

    #[doc(hidden)]
    const BYTES: usize;

    #[doc(hidden)]
    fn to_word(given: Self::Argument<'_>, stream: &Stream) -> Result<u64, DeviceFault>;
}

/// The types of all parameters, a tuple of [`KernelParameter`]s.
pub trait KernelParameters: sealed::SealedParameters {
    /// The arguments' types, a tuple.
    type Argument<'a>;

    #[doc(hidden)]
    const BYTES: &'static [usize];

    #[doc(hidden)]
    fn pack(
        given: Self::Argument<'_>,
        stream: &Stream,
        words: &mut [u64; PARAMETERS_MAX],
    ) -> Result<(), DeviceFault>;
}

mod sealed {
    pub trait SealedParameter {}
    pub trait SealedParameters {}
}

impl<T: Pod> sealed::SealedParameter for DevicePtr<T> {}

impl<T: Pod> KernelParameter for DevicePtr<T> {
    type Argument<'a> = DeviceSlice<'a, T>;
    const BYTES: usize = size_of::<u64>();

    fn to_word(given: DeviceSlice<'_, T>, stream: &Stream) -> Result<u64, DeviceFault> {
        given.address(stream)
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl sealed::SealedParameter for $integer {}

        impl KernelParameter for $integer {
            type Argument<'a> = $integer;
            const BYTES: usize = size_of::<$integer>();

            // Little-endian like the device: the low bytes come first.
            fn to_word(given: $integer, _: &Stream) -> Result<u64, DeviceFault> {
                Ok(given.into())
            }
        }
    )*};
}

integers!(u32, u64);

macro_rules! tuples {
    ($(($($name:ident $given:ident),+))*) => {$(
        impl<$($name: KernelParameter),+> sealed::SealedParameters for ($($name,)+) {}

        impl<$($name: KernelParameter),+> KernelParameters for ($($name,)+) {
            type Argument<'a> = ($($name::Argument<'a>,)+);
            const BYTES: &'static [usize] = &[$($name::BYTES),+];

            fn pack(
                ($($given,)+): Self::Argument<'_>,
                stream: &Stream,
                words: &mut [u64; PARAMETERS_MAX],
            ) -> Result<(), DeviceFault> {
                let packed = [$($name::to_word($given, stream)?),+];
                words[..packed.len()].copy_from_slice(&packed);
                Ok(())
            }
        }
    )*};
}

tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l)
}
