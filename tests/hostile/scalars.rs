//! Scalars and elements that are not canonical, and coset generators.

use ark_ff::{BigInt, BigInteger, PrimeField};
use capstan::{
    curve::{Fr, G1Affine},
    wire::v1,
};

use crate::{
    daemon::messages,
    table::{Call, Row, World, good, invalid},
};

const FULL: [v1::ScalarEncoding; 2] =
    [v1::ScalarEncoding::Canonical, v1::ScalarEncoding::Montgomery];

/// Integers that are not below r, with their names.
fn above() -> [(&'static str, BigInt<4>); 3] {
    let mut next = Fr::MODULUS;
    next.add_with_carry(&BigInt::from(1u64));
    [("r", Fr::MODULUS), ("r + 1", next), ("2^256 - 1", BigInt([u64::MAX; 4]))]
}

/// The element that `integer` means in `encoding` after reduction modulo r.
fn reduced(encoding: v1::ScalarEncoding, integer: BigInt<4>) -> Fr {
    let element = Fr::from_le_bytes_mod_order(&integer.to_bytes_le());
    match encoding {
        v1::ScalarEncoding::Montgomery => Fr::new_unchecked(element.into_bigint()),
        _ => element,
    }
}

pub fn rows(world: &World) -> Vec<Row> {
    let mut rows = Vec::new();
    for encoding in FULL {
        for (name, integer) in above() {
            let name = format!("{encoding:?} {name}");
            let mut data = vec![0; 16 * 32];
            data[5 * 32..6 * 32].copy_from_slice(&integer.to_bytes_le());
            msm(&mut rows, world, &name, encoding, &data);
            ntt(&mut rows, &name, encoding, &data);
            let mut spec = world.spec();
            (spec.batch, spec.reduce) = (2, true);
            let call = Call::msm(spec, messages::scalars(encoding, data));
            let first = messages::sum(&world.g1[5..6], &[reduced(encoding, integer)]);
            let both =
                [messages::compressed::<G1Affine>(first), messages::compressed::<G1Affine>(zero())];
            rows.push(good(format!("{name}, reduced"), call, bytes::Bytes::from(both.concat())));
        }
    }
    cosets(&mut rows);
    rows
}

fn zero() -> capstan::curve::G1Projective {
    ark_ff::Zero::zero()
}

fn msm(rows: &mut Vec<Row>, world: &World, name: &str, of: v1::ScalarEncoding, data: &[u8]) {
    let spec = v1::MsmSpec { batch: 2, ..world.spec() };
    let call = Call::msm(spec.clone(), messages::scalars(of, data.to_vec()));
    rows.push(invalid(format!("scalar {name}"), call, "NOT_CANONICAL", "scalars").at(5));
    let mut late = data.to_vec();
    late.rotate_right(8 * 32);
    let chunks =
        vec![messages::chunk(256, late[256..].to_vec()), messages::chunk(0, late[..256].to_vec())];
    let call = Call::msm_stream(spec, messages::new_vector(of, 16), chunks);
    let name = format!("scalar {name} of the second vector, streamed");
    rows.push(invalid(name, call, "NOT_CANONICAL", "scalars").at(13));
}

fn ntt(rows: &mut Vec<Row>, name: &str, of: v1::ScalarEncoding, data: &[u8]) {
    let spec = v1::NttSpec { batch: 4, ..messages::ntt_spec(2) };
    let call = Call::ntt(spec.clone(), messages::scalars(of, data.to_vec()));
    rows.push(invalid(format!("element {name}"), call, "NOT_CANONICAL", "input").at(5));
    let chunks = vec![messages::chunk(0, data.to_vec())];
    let stream = messages::ntt_stream(spec, messages::new_vector(of, 16), chunks);
    let call = Call::NttStream(stream);
    rows.push(invalid(format!("element {name}, streamed"), call, "NOT_CANONICAL", "input").at(5));
}

fn cosets(rows: &mut Vec<Row>) {
    const FIELD: &str = "spec.coset_generator";
    let mut row = |name: &str, generator: Vec<u8>, reason| {
        let spec = v1::NttSpec { coset_generator: generator.into(), ..messages::ntt_spec(1) };
        let input = messages::scalars(v1::ScalarEncoding::Canonical, vec![0; 64]);
        let call = Call::ntt(spec, input);
        rows.push(invalid(format!("coset generator {name}"), call, reason, FIELD));
    };
    row("zero", vec![0; 32], "SIZE_ZERO");
    row("r", Fr::MODULUS.to_bytes_le(), "NOT_CANONICAL");
    row("of 31 bytes", vec![1; 31], "LENGTH_MISMATCH");
    row("of 33 bytes", vec![1; 33], "LENGTH_MISMATCH");
}
