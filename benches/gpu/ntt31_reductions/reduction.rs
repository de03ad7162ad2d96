//! The ways to multiply of `kernels/bench/reductions31.cuh`, and the constants that they need.

use capstan::field::{Arithmetic, Element31, Field31};

/// Words of the struct `MeasuredPrime31`.
pub const PARAMETER_WORDS: usize = 40;
/// Powers of the root of order 32 in it.
const UNITS: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    Shoup,
    Harvey,
    Montgomery,
    Plantard,
    Barrett,
    BarrettShort,
    Remainder,
}

impl Reduction {
    pub const ALL: [Self; 7] = [
        Self::Shoup,
        Self::Harvey,
        Self::Montgomery,
        Self::Plantard,
        Self::Barrett,
        Self::BarrettShort,
        Self::Remainder,
    ];

    /// In the names of its kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shoup => "shoup",
            Self::Harvey => "harvey",
            Self::Montgomery => "montgomery",
            Self::Plantard => "plantard",
            Self::Barrett => "barrett",
            Self::BarrettShort => "barrett_short",
            Self::Remainder => "remainder",
        }
    }

    /// Whether its words fit in 32 bits.
    pub const fn suits(self, p: u32) -> bool {
        match self {
            Self::Harvey => p < 1 << 30,
            Self::BarrettShort => p < u32::MAX / 3,
            _ => true,
        }
    }

    /// Appends a twiddle factor in the form that products take.
    pub fn push_twiddle(self, field: Field31, factor: Element31, to: &mut Vec<u32>) {
        let (value, p) = (field.value(factor), u64::from(field.modulus()));
        match self {
            Self::Shoup | Self::Harvey => {
                to.extend([value, ((u64::from(value) << 32) / p) as u32]);
            }
            Self::Plantard => {
                let inflated = ((u128::from(value) << 64) / u128::from(p)) as u64 + 1;
                to.extend([inflated as u32, (inflated >> 32) as u32]);
            }
            Self::Montgomery => to.push(montgomery_form(factor)),
            Self::Barrett | Self::BarrettShort | Self::Remainder => to.push(value),
        }
    }

    /// A power that kernels multiply by themselves.
    pub fn power(self, field: Field31, power: Element31) -> u32 {
        match self {
            Self::Barrett | Self::BarrettShort | Self::Remainder => field.value(power),
            _ => montgomery_form(power),
        }
    }

    /// The kernels' last argument.
    pub fn parameters(self, field: Field31) -> [u32; PARAMETER_WORDS] {
        let p = field.modulus();
        // The order of every unit modulo 2^32 divides 2^30.
        let p_inverse = p.wrapping_pow((1 << 30) - 1);
        let bits = p.ilog2() + 1;
        let reciprocal = ((1_u64 << (31 + bits)) / u64::from(p)) as u32;
        let two_p = 2 * p;
        let constants = [p, p.wrapping_neg(), p_inverse, 0];
        let more = [two_p, two_p.wrapping_neg(), reciprocal, bits - 1];
        let mut words: Vec<_> = constants.into_iter().chain(more).collect();
        let root = field.root_of_unity(UNITS.ilog2() + 1).expect("all primes have it");
        for exponent in 0..UNITS {
            self.push_twiddle(field, field.power(root, exponent), &mut words);
        }
        words.resize(PARAMETER_WORDS, 0);
        words.try_into().expect("resized")
    }
}

fn montgomery_form(element: Element31) -> u32 {
    bytemuck::cast(element)
}
