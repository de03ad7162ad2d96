//! Fields of prime order below 2^31 with large subgroups of order 2^k, for NTTs of 32-bit words.

mod extension;
mod field31;

use serde::{Deserialize, Serialize};

pub use extension::{Extension, ExtensionField};
pub use field31::{Element31, Field31};

/// What [`Prime31`] knows of each prime.
struct Parameters {
    modulus: u32,
    two_adicity: u32,
    generator: u32,
    name: &'static str,
}

macro_rules! primes {
    ($($(#[$doc:meta])* $prime:ident: $modulus:literal, $two_adicity:literal, $generator:literal,
       $name:literal;)+) => {
        /// A prime p below 2^31. The root of unity of order 2^k is `g^((p-1)/2^k)`, where g is the
        /// smallest generator of the multiplicative group, as in arkworks and Plonky3.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Prime31 { $($(#[$doc])* $prime),+ }

        impl Prime31 {
            /// All primes.
            pub const ALL: &[Self] = &[$(Self::$prime),+];

            const fn parameters(self) -> Parameters {
                let (modulus, two_adicity, generator, name) = match self {
                    $(Self::$prime => ($modulus, $two_adicity, $generator, $name)),+
                };
                Parameters { modulus, two_adicity, generator, name }
            }
        }
    };
}

primes! {
    /// 7 * 2^20 + 1: NTTs up to 2^20.
    P7340033: 7_340_033, 20, 3, "7340033";
    /// 25 * 2^22 + 1: NTTs up to 2^22.
    P104857601: 104_857_601, 22, 3, "104857601";
    /// 7 * 2^26 + 1: NTTs up to 2^26.
    P469762049: 469_762_049, 26, 3, "469762049";
    /// 119 * 2^23 + 1: NTTs up to 2^23.
    P998244353: 998_244_353, 23, 3, "998244353";
    /// 27 * 2^26 + 1: NTTs up to 2^26.
    P1811939329: 1_811_939_329, 26, 13, "1811939329";
    /// 15 * 2^27 + 1: NTTs up to 2^27.
    BabyBear: 2_013_265_921, 27, 31, "babybear";
    /// 127 * 2^24 + 1: NTTs up to 2^24.
    KoalaBear: 2_130_706_433, 24, 3, "koalabear";
}

impl Prime31 {
    /// The prime.
    pub const fn modulus(self) -> u32 {
        self.parameters().modulus
    }

    /// log2 of the largest power of two that divides p - 1, and so of the largest possible NTT.
    pub const fn two_adicity(self) -> u32 {
        self.parameters().two_adicity
    }

    /// The smallest generator of the multiplicative group.
    pub const fn generator(self) -> u32 {
        self.parameters().generator
    }

    /// `babybear`, `koalabear`, or the prime.
    pub const fn name(self) -> &'static str {
        self.parameters().name
    }
}

impl std::fmt::Display for Prime31 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
