use super::*;
use crate::engine::cpu::{ArkworksEngine, CpuEngine};

#[test]
fn scratch_bytes_of_a_full_check_include_those_of_the_oracle() {
    let engine = Arc::new(CpuEngine::new(1).unwrap());
    let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
    let host = ComputeHost::new(engine, oracle).unwrap();
    let n = 1 << 12;
    let (group, encoding, data) = (Group::G1, PointEncoding::Compressed, Bytes::new());
    let job = |verify| MsmJob {
        bases: JobBases::Inline { group, encoding, data: data.clone(), count: n },
        batch: 1,
        encoding: ScalarEncoding::Canonical,
        reduce: false,
        result_encoding: SumEncoding::Compressed,
        verify,
    };
    let bytes = |verify| job(verify).scratch_bytes(&host);
    let oracle = host.oracle.msm_scratch_bytes(Group::G1, n);
    assert!(bytes(VerifyMode::None) < oracle, "the engine alone needs as much as the oracle");
    assert!(bytes(VerifyMode::Full) > oracle);
}
