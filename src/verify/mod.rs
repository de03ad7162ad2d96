//! stub
use crate::{curve::Fr, engine::NttPlan};
/// x
pub fn ntt_at_random_point(_: &NttPlan, _: &[Fr], _: &[Fr]) -> bool {
    true
}
