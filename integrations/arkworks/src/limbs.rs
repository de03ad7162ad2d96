//! The bytes of scalars, without a copy: scalars are often secret, and a copy would have to be
//! wiped. The only module with unsafe code.
#![allow(unsafe_code)]

use std::{
    mem::{align_of, offset_of, size_of},
    slice,
};

use ark_ec::scalar_mul::variable_base::offload::{Bigints, MsmCall, Scalars};
use ark_ff::BigInt;
use capstan::client::{ScalarEncoding, ScalarInput};

// What the cast below relies on: a `BigInt<4>` is its limbs only, lowest first, and the bytes of a
// limb are in the order of the encoding.
const _: () = {
    assert!(cfg!(target_endian = "little"));
    assert!(size_of::<BigInt<4>>() == 32 && offset_of!(BigInt<4>, 0) == 0);
    assert!(align_of::<BigInt<4>>() == align_of::<u64>());
};

/// The scalars of `call` for the client. `None` if they do not have the width of BLS12-381's.
pub(crate) fn scalar_input<'a>(call: &MsmCall<'a>) -> Option<ScalarInput<'a>> {
    let len = call.len();
    let (encoding, bytes) = match call.scalars() {
        Scalars::Bigints(scalars) => {
            let limbs = bytemuck::cast_slice(&limbs(scalars)?[..len]);
            (ScalarEncoding::Canonical, limbs)
        }
        Scalars::U1(scalars) => {
            (ScalarEncoding::Unsigned(1), bytemuck::cast_slice(&scalars[..len]))
        }
        Scalars::U8(scalars) => (ScalarEncoding::Unsigned(1), &scalars[..len]),
        Scalars::U16(scalars) => {
            (ScalarEncoding::Unsigned(2), bytemuck::cast_slice(&scalars[..len]))
        }
        Scalars::U32(scalars) => {
            (ScalarEncoding::Unsigned(4), bytemuck::cast_slice(&scalars[..len]))
        }
        Scalars::U64(scalars) => {
            (ScalarEncoding::Unsigned(8), bytemuck::cast_slice(&scalars[..len]))
        }
    };
    Some(ScalarInput::Bytes { encoding, bytes })
}

fn limbs(scalars: Bigints<'_>) -> Option<&[[u64; 4]]> {
    let first = scalars.as_ptr::<BigInt<4>>()?;
    // SAFETY: `Bigints` is made from a slice only, of which `as_ptr` has checked the type, and
    // which it borrows. The layouts of `BigInt<4>` and of four limbs agree, as asserted above.
    Some(unsafe { slice::from_raw_parts(first.cast(), scalars.len()) })
}
