use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::{
    curve::{
        Group,
        points::{PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    engine::cpu::{ArkworksEngine, CpuEngine},
};

#[test]
fn scratch_bytes_of_a_full_check_include_those_of_the_oracle() {
    let engine = Arc::new(CpuEngine::new(1).unwrap());
    let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
    let host = ComputeHost::new(engine, oracle).unwrap();
    let n = 1 << 12;
    let (encoding, data) = (PointEncoding::Compressed, Bytes::new());
    let bases = UncheckedBases { encoding, data, count: n };
    let job = |verify| MsmJob {
        spec: MsmSpec {
            group: Group::G1,
            batch: 1,
            reduce: false,
            result_encoding: SumEncoding::Compressed,
            verify,
        },
        bases: JobBases::Unchecked(bases.clone()),
        scalar_encoding: ScalarEncoding::Canonical,
    };
    let bytes = |verify| job(verify).scratch_bytes(&host);
    let oracle = host.oracle.msm_scratch_bytes(Group::G1, n);
    assert!(bytes(Verification::None) < oracle, "the engine alone needs as much as the oracle");
    assert!(bytes(Verification::Full) > oracle);
}
