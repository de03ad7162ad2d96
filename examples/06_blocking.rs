//! Lesson 6: the same without async.
//!
//! `cargo run --release --example 06_blocking`

mod common;

use ark_ec::VariableBaseMSM;
use capstan::client::{G1Affine, G1Projective, NttOptions, Result, blocking::Client};

fn main() -> Result<()> {
    let server = common::server();

    // The same calls; each returns when it is done. The client brings two threads of its own for
    // its connections, and may be shared by any number of yours.
    let client = Client::connect(&server.target)?;
    let points = common::points::<G1Affine>(1 << 10);
    let scalars = common::scalars(1 << 10);
    let bases = client.put_bases(&points)?;

    std::thread::scope(|scope| {
        for part in 0..4 {
            let (client, bases, points) = (&client, &bases, &points[256 * part..][..256]);
            let scalars = &scalars[256 * part..][..256];
            scope.spawn(move || {
                let range = bases.slice(256 * part as u64, 256).expect("lies within");
                let sum = client.msm(&range, scalars).expect("the server is there");
                assert_eq!(sum, G1Projective::msm_unchecked(points, scalars));
                println!("part {part} agrees with arkworks");
            });
        }
    });

    let mut values = scalars.clone();
    client.ntt(&mut values, NttOptions::forward())?;
    client.ntt(&mut values, NttOptions::inverse())?;
    assert_eq!(values, scalars);
    Ok(())
}
