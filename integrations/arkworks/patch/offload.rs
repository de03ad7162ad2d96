//! Lets another crate compute MSMs, for example on a server.
//!
//! Capstan's `patch-ark-ec` adds this module to ark-ec. It has no unsafe code: a hook learns the
//! address of the bases and the type of their group, and returns the sum as a value of that type.

use core::{
    any::{Any, TypeId},
    marker::PhantomData,
};
use std::sync::OnceLock;

use super::VariableBaseMSM;

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Computes an MSM, or leaves it to arkworks.
///
/// `sum` is an `Option<G>`, in which `G` is the group of the bases: a hook finds out by
/// `downcast_mut` which one. It is `None`; if it stays so, arkworks computes the sum.
pub type Hook = fn(call: &MsmCall<'_>, sum: &mut dyn Any);

/// Makes every call of `VariableBaseMSM` in this process ask `hook` first.
///
/// Errors: the installed hook, if there is one. It cannot be replaced.
pub fn set_hook(hook: Hook) -> Result<(), Hook> {
    match HOOK.set(hook) {
        Ok(()) => Ok(()),
        Err(_) => Err(*HOOK.get().expect("setting fails only if there is a hook")),
    }
}

/// A multi-scalar multiplication.
#[derive(Clone, Copy)]
pub struct MsmCall<'a> {
    bases_address: usize,
    len: usize,
    scalars: Scalars<'a>,
}

impl<'a> MsmCall<'a> {
    /// The address of the first base. The bases lie one after another as `G::MulBase`.
    pub fn bases_address(&self) -> usize {
        self.bases_address
    }

    /// The number of bases and scalars to use: the smaller of both numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bases or no scalars. The sum is zero then.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The scalars: at least [`Self::len`].
    pub fn scalars(&self) -> Scalars<'a> {
        self.scalars
    }
}

/// The scalars of an MSM. They may be secret, so this type does not print them.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // the names say it
pub enum Scalars<'a> {
    Bigints(Bigints<'a>),
    U1(&'a [bool]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl<'a> Scalars<'a> {
    pub(super) fn bigints<B: 'static>(scalars: &'a [B]) -> Self {
        Self::Bigints(Bigints {
            first: scalars.as_ptr().cast(),
            len: scalars.len(),
            element: TypeId::of::<B>(),
            scalars: PhantomData,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Bigints(scalars) => scalars.len,
            Self::U1(scalars) => scalars.len(),
            Self::U8(scalars) => scalars.len(),
            Self::U16(scalars) => scalars.len(),
            Self::U32(scalars) => scalars.len(),
            Self::U64(scalars) => scalars.len(),
        }
    }
}

/// A borrowed slice of the scalar field's `BigInt`, whatever type this is.
#[derive(Clone, Copy)]
pub struct Bigints<'a> {
    first: *const (),
    len: usize,
    element: TypeId,
    scalars: PhantomData<&'a [u64]>,
}

impl Bigints<'_> {
    /// The number of scalars.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no scalars.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first of [`Self::len`] scalars, which can be read as long as this value's lifetime
    /// lasts. `None` if they are not of type `B`.
    pub fn as_ptr<B: 'static>(&self) -> Option<*const B> {
        (self.element == TypeId::of::<B>()).then(|| self.first.cast())
    }
}

/// The hook's sum. `None` if there is no hook, or if it leaves the sum to arkworks.
pub(super) fn sum<V: VariableBaseMSM>(bases: &[V::MulBase], scalars: Scalars<'_>) -> Option<V> {
    let hook = HOOK.get()?;
    let len = bases.len().min(scalars.len());
    let bases_address = bases.as_ptr() as usize;
    let mut sum: Option<V> = None;
    hook(&MsmCall { bases_address, len, scalars }, &mut sum);
    sum
}
