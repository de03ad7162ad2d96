//! Alternatives to the planner's plans.

use capstan::ntt::NttPass;

use crate::rig::BenchRig;

/// Passes of a transform to compare with the planner's.
pub struct PassVariant {
    pub passes: Vec<NttPass>,
    pub has_bit_reversal: bool,
}

/// log2 of sizes, and plans in DIF order: passes as lg_r.lg_e.lg_c.multiples, with m for fused
/// twiddles.
const VARIANTS: [(u32, &str); 50] = [
    (10, "10.2.0.0"),
    (10, "5.1.2.2/5.1.2.0"),
    (10, "6.2.1.2/4.2.3.0"),
    (10, "4.2.3.2/6.2.1.0"),
    (10, "6.2.2.2/4.2.2.0"),
    (12, "6.2.2.2/6.2.2.0"),
    (14, "8.2.2.2/6.2.2.0"),
    (14, "6.2.2.2/8.2.0.0"),
    (16, "8.1.0.2/8.1.0.0"),
    (16, "8.2.2.2/8.2.0.0"),
    (16, "8.2.1.2/8.2.0.0"),
    (16, "6.2.2.2/10.2.0.0"),
    (18, "6.2.2.2/6.2.2.2/6.2.2.0"),
    (18, "8.2.2.2/10.2.0.0"),
    (18, "6.2.2.0m/6.2.2.1m/6.2.2.0"),
    (18, "6.2.2.1/6.2.2.2/6.2.2.0"),
    (20, "6.2.2.1/6.2.2.2/8.2.0.0"),
    (20, "6.2.2.0m/6.2.2.1m/8.2.0.0"),
    (20, "6.2.2.2/6.2.2.2/8.2.0.0"),
    (20, "6.2.2.1/8.2.2.2/6.2.2.0"),
    (22, "6.2.2.1/8.2.2.2/8.2.0.0"),
    (22, "6.2.2.0m/8.2.2.1m/8.2.0.0"),
    (22, "8.2.2.0m/6.2.2.1m/8.2.0.0"),
    (22, "6.2.2.0m/6.2.2.1m/10.2.0.0"),
    (22, "6.2.2.1/6.2.2.2/10.2.0.0"),
    (22, "8.2.2.2/6.2.2.2/8.2.0.0"),
    (22, "6.2.2.1/8.2.2.2/8.2.1.0"),
    (22, "6.2.2.2/8.2.2.2/8.2.0.0"),
    (23, "9.3.2.1/8.2.2.2/6.2.2.0"),
    (23, "3.3.7.1/6.2.2.2/6.2.2.2/8.2.0.0"),
    (24, "6.2.2.1/6.2.2.2/6.2.2.2/6.2.2.0"),
    (24, "6.2.2.0m/6.2.2.0m/6.2.2.1m/6.2.2.0"),
    (24, "8.2.2.0m/8.2.2.1m/8.2.0.0"),
    (24, "6.2.2.0m/8.2.2.1m/10.2.0.0"),
    (24, "8.2.2.2/8.2.2.2/8.2.0.0"),
    (24, "6.2.2.1/8.2.2.2/10.2.0.0"),
    (24, "6.2.2.2/8.2.2.2/10.2.0.0"),
    (24, "9.3.2.1/9.3.2.2/6.2.2.0"),
    (25, "3.3.7.1/6.2.2.2/8.2.2.2/8.2.0.0"),
    (26, "6.2.2.1/6.2.2.2/6.2.2.2/8.2.0.0"),
    (26, "8.2.2.0m/8.2.2.1m/10.2.0.0"),
    (26, "6.2.2.1/6.2.2.2/8.2.2.2/6.2.2.0"),
    (26, "8.2.2.2/8.2.2.2/10.2.0.0"),
    (26, "9.3.2.2/9.3.2.2/8.2.0.0"),
    (28, "6.2.2.1/6.2.2.2/8.2.2.2/8.2.0.0"),
    (28, "6.2.2.0m/6.2.2.0m/6.2.2.1m/10.2.0.0"),
    (28, "6.2.2.0m/8.2.2.0m/6.2.2.1m/8.2.0.0"),
    (28, "6.2.2.1/6.2.2.2/6.2.2.2/10.2.0.0"),
    (28, "9.3.2.1/9.3.2.2/10.2.0.0"),
    (28, "8.2.2.2/6.2.2.2/6.2.2.2/8.2.0.0"),
];

/// Like [`VARIANTS`], with bit reversal: for results in natural order.
const BIT_REVERSAL_VARIANTS: [(u32, &str); 8] = [
    (16, "8.1.1.2/8.1.1.0"),
    (16, "8.2.2.2/8.2.1.0"),
    (18, "6.2.2.2/6.2.2.2/6.2.2.0"),
    (20, "6.2.2.1/6.2.2.2/8.2.0.0"),
    (20, "6.2.2.1/6.2.2.2/8.2.2.0"),
    (22, "6.2.2.1/8.2.2.2/8.2.0.0"),
    (22, "6.2.2.1/6.2.2.2/10.2.0.0"),
    (28, "6.2.2.1/6.2.2.2/6.2.2.2/10.2.0.0"),
];

/// The plans that the command line asks for.
pub fn of(rig: &BenchRig, lg_n: u32) -> Vec<PassVariant> {
    let mut found = Vec::new();
    let variant = |text, has_bit_reversal| PassVariant { passes: passes(text), has_bit_reversal };
    if rig.flag("variants") {
        for (list, has_bit_reversal) in [(&VARIANTS[..], false), (&BIT_REVERSAL_VARIANTS[..], true)]
        {
            let these = list.iter().filter(|(size, _)| *size == lg_n);
            found.extend(these.map(|(_, text)| variant(text, has_bit_reversal)));
        }
    }
    if let Some((size, texts)) =
        rig.argument("plans").as_deref().and_then(|text| text.split_once(':'))
        && size.parse() == Ok(lg_n)
    {
        found.extend(texts.split(',').map(|text| variant(text, false)));
    }
    found
}

/// A pass in the command line's syntax.
pub fn name(pass: &NttPass) -> String {
    let NttPass { lg_r, lg_c, lg_e, multiples, fused } = pass;
    let fused = if *fused { "m" } else { "" };
    format!("{lg_r}.{lg_e}.{lg_c}.{multiples}{fused}")
}

fn passes(text: &str) -> Vec<NttPass> {
    let pass = |text: &str| {
        let (text, fused) = match text.strip_suffix('m') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let numbers: Vec<u32> =
            text.split('.').map(|number| number.parse().expect("a number")).collect();
        let [lg_r, lg_e, lg_c, multiples] = numbers[..] else {
            panic!("{text}: four numbers a pass")
        };
        NttPass { lg_r, lg_c, lg_e, multiples, fused }
    };
    text.split('/').map(pass).collect()
}
