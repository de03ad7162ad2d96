//! Lesson 6: a client without async.
//!
//! `cargo run --release --example 06_blocking`

mod common;

use ark_ec::VariableBaseMSM;
use capstan::client::{G1Affine, G1Projective, NttOptions, Result, blocking::BlockingClient};

fn main() -> Result<()> {
    let server = common::server();

    // The same calls as before; each blocks until it is done. The client runs its connections on
    // its own two threads and can be shared by any number of threads.
    let client = BlockingClient::connect(&server.target)?;
    let points = common::points::<G1Affine>(1 << 10);
    let scalars = common::scalars(1 << 10);
    let bases = client.put_bases(&points)?;

    std::thread::scope(|scope| {
        for part in 0..4 {
            let (client, bases, points) = (&client, &bases, &points[256 * part..][..256]);
            let scalars = &scalars[256 * part..][..256];
            scope.spawn(move || {
                let range = bases.slice(256 * part as u64, 256).expect("the range is in bounds");
                let sum = client.msm(&range, scalars).expect("the server computes the MSM");
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
