//! The types of a kernel's parameters, and how a launch packs its arguments.

use std::{ffi::c_void, marker::PhantomData};

use bytemuck::Pod;

use super::{DeviceFault, DeviceSlice, Stream};

/// Maximum number of parameters of a kernel.
pub(super) const PARAMETERS_MAX: usize = 13;

/// Maximum number of words of a kernel's arguments: eight field elements by value, and pointers.
const WORDS_MAX: usize = 48;

/// A kernel's arguments. Each begins at a new word.
pub struct PackedArguments {
    words: [u64; WORDS_MAX],
    used: usize,
    starts: [usize; PARAMETERS_MAX],
    count: usize,
}

impl PackedArguments {
    fn new() -> Self {
        Self { words: [0; WORDS_MAX], used: 0, starts: [0; PARAMETERS_MAX], count: 0 }
    }

    fn push(&mut self, argument: &[u8]) {
        let to: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words[self.used..]);
        to[..argument.len()].copy_from_slice(argument);
        self.starts[self.count] = self.used;
        self.count += 1;
        self.used += argument.len().div_ceil(size_of::<u64>());
    }

    /// The address of each argument.
    pub(super) fn addresses(&mut self) -> [*mut c_void; PARAMETERS_MAX] {
        let words = self.words.as_mut_ptr();
        self.starts.map(|start| words.wrapping_add(start).cast())
    }
}

/// A parameter of type `T*`; its argument is a [`DeviceSlice`].
pub struct DevicePtr<T>(PhantomData<T>);

/// The type of one parameter: [`DevicePtr`], an `Option` of it, whose argument `None` is a null
/// pointer, `u32`, `u64`, or an array, which the kernel takes as a struct by value.
pub trait KernelParameter {
    type Argument<'a>;
    const BYTES: usize;

    fn pack(
        argument: Self::Argument<'_>,
        stream: &Stream,
        to: &mut PackedArguments,
    ) -> Result<(), DeviceFault>;
}

/// The types of all parameters, a tuple.
pub trait KernelParameters {
    type Argument<'a>;
    const BYTES: &'static [usize];

    fn pack(arguments: Self::Argument<'_>, stream: &Stream)
    -> Result<PackedArguments, DeviceFault>;
}

impl<T: Pod> KernelParameter for DevicePtr<T> {
    type Argument<'a> = DeviceSlice<'a, T>;
    const BYTES: usize = size_of::<u64>();

    fn pack(
        argument: DeviceSlice<'_, T>,
        stream: &Stream,
        to: &mut PackedArguments,
    ) -> Result<(), DeviceFault> {
        to.push(&argument.address(stream)?.to_le_bytes());
        Ok(())
    }
}

impl<T: Pod> KernelParameter for Option<DevicePtr<T>> {
    type Argument<'a> = Option<DeviceSlice<'a, T>>;
    const BYTES: usize = DevicePtr::<T>::BYTES;

    fn pack(
        argument: Option<DeviceSlice<'_, T>>,
        stream: &Stream,
        to: &mut PackedArguments,
    ) -> Result<(), DeviceFault> {
        match argument {
            Some(slice) => DevicePtr::pack(slice, stream, to)?,
            None => to.push(&0_u64.to_le_bytes()),
        }
        Ok(())
    }
}

impl<T: Pod, const N: usize> KernelParameter for [T; N] {
    type Argument<'a> = Self;
    const BYTES: usize = size_of::<Self>();

    fn pack(argument: Self, _: &Stream, to: &mut PackedArguments) -> Result<(), DeviceFault> {
        to.push(bytemuck::cast_slice(&argument));
        Ok(())
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl KernelParameter for $integer {
            type Argument<'a> = $integer;
            const BYTES: usize = size_of::<$integer>();

            fn pack(
                argument: $integer,
                _: &Stream,
                to: &mut PackedArguments,
            ) -> Result<(), DeviceFault> {
                to.push(&argument.to_le_bytes());
                Ok(())
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
            ) -> Result<PackedArguments, DeviceFault> {
                let mut packed = PackedArguments::new();
                $first::pack($first, stream, &mut packed)?;
                $($name::pack($name, stream, &mut packed)?;)*
                Ok(packed)
            }
        }

        tuples!($($name),*);
    };
}

tuples!(A, B, C, D, E, F, G, H, I, J, K, L, M);
