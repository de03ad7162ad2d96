//! The types of a kernel's parameters, and how a launch packs its arguments.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::{DeviceFault, DeviceSlice, Stream};

/// Maximum number of parameters of a kernel.
pub(super) const PARAMETERS_MAX: usize = 12;

/// A kernel's arguments, each in the low bytes of a word.
type Words = [u64; PARAMETERS_MAX];

/// A parameter of type `T*`; its argument is a [`DeviceSlice`].
pub struct DevicePtr<T>(PhantomData<T>);

/// The type of one parameter: [`DevicePtr`], `u32` or `u64`.
pub trait KernelParameter {
    type Argument<'a>;
    const BYTES: usize;

    fn to_word(argument: Self::Argument<'_>, stream: &Stream) -> Result<u64, DeviceFault>;
}

/// The types of all parameters, a tuple of [`KernelParameter`]s.
pub trait KernelParameters {
    type Argument<'a>;
    const BYTES: &'static [usize];

    fn pack(arguments: Self::Argument<'_>, stream: &Stream) -> Result<Words, DeviceFault>;
}

impl<T: Pod> KernelParameter for DevicePtr<T> {
    type Argument<'a> = DeviceSlice<'a, T>;
    const BYTES: usize = size_of::<u64>();

    fn to_word(argument: DeviceSlice<'_, T>, stream: &Stream) -> Result<u64, DeviceFault> {
        argument.address(stream)
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl KernelParameter for $integer {
            type Argument<'a> = $integer;
            const BYTES: usize = size_of::<$integer>();

            // Little-endian like the device: the low bytes come first.
            fn to_word(argument: $integer, _: &Stream) -> Result<u64, DeviceFault> {
                Ok(argument.into())
            }
        }
    )*};
}

integers!(u32, u64);

/// Implements [`KernelParameters`] for tuples of these and of fewer types.
macro_rules! tuples {
    () => {};
    ($first:ident $(, $name:ident)*) => {
        impl<$first: KernelParameter $(, $name: KernelParameter)*> KernelParameters
            for ($first, $($name),*)
        {
            type Argument<'a> = ($first::Argument<'a>, $($name::Argument<'a>),*);
            const BYTES: &'static [usize] = &[$first::BYTES $(, $name::BYTES)*];

            #[allow(non_snake_case)] // each argument is named like its type
            fn pack(
                ($first, $($name),*): Self::Argument<'_>,
                stream: &Stream,
            ) -> Result<Words, DeviceFault> {
                let mut words = [0; PARAMETERS_MAX];
                let packed =
                    [$first::to_word($first, stream)? $(, $name::to_word($name, stream)?)*];
                words[..packed.len()].copy_from_slice(&packed);
                Ok(words)
            }
        }

        tuples!($($name),*);
    };
}

tuples!(A, B, C, D, E, F, G, H, I, J, K, L);
