//! A fleet: bases on several servers, MSMs cut over them, batches spread over replicas.

use std::{collections::BTreeSet, time::Duration};

use ark_ff::Zero;
use capstan::client::{
    Client, ClientError, CurvePoint, Fleet, Fr, G1Affine, G1Projective, G2Affine, MsmOptions,
    NttOptions, ProgramBuilder, ProgramRun, PutOptions, ScalarEncoding, ScalarInput, UploadKey,
};

use crate::many_servers::rig::{DaemonProcess, bounded, points, scalars, start, sum, transform};

pub async fn fleet_of<'a>(daemons: impl IntoIterator<Item = &'a DaemonProcess>) -> Fleet {
    let servers = daemons.into_iter().map(|daemon| Client::builder(daemon.target()));
    Fleet::connect(servers).await.unwrap()
}

/// The number of objects of each daemon.
async fn stored(daemons: &[DaemonProcess]) -> Vec<usize> {
    let mut counts = Vec::new();
    for daemon in daemons {
        let client = daemon.client().connect().await.unwrap();
        counts.push(client.list(None).await.unwrap().len());
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bases_are_spread_and_each_is_on_one_server() {
    let daemons = [(); 3].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    for seed in 0..12 {
        let (all, elements) = (points::<G1Affine>(seed, 20), scalars(seed, 20));
        let bases = fleet.put_bases(&all[..]).await.unwrap();
        for _ in 0..3 {
            assert_eq!(bounded(fleet.msm(&bases, &elements)).await.unwrap(), sum(&all, &elements));
        }
    }
    let stored = stored(&daemons).await;
    assert_eq!(stored.iter().sum::<usize>(), 12, "{stored:?}");
    assert!(stored.iter().filter(|count| **count > 0).count() > 1, "{stored:?}");
}

/// Cuts `count` points over `parts` servers.
async fn check_cut<A: CurvePoint>(fleet: &Fleet, all: &[A], parts: usize, elements: &[Fr]) {
    let bases = fleet.put_bases_with(PutOptions::default(), all, parts).await.unwrap();
    assert_eq!((bases.len(), bases.parts()), (all.len(), parts.clamp(1, all.len())));
    let found = bounded(fleet.msm(&bases, elements)).await.unwrap();
    assert_eq!(found, sum(all, elements), "{} points in {parts} parts", all.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_msm_that_is_cut_over_several_servers_is_exact() {
    let daemons = [(); 3].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    for (count, parts) in [(1, 1), (1, 3), (2, 3), (3, 3), (4, 3), (100, 3), (1000, 7), (5, 0)] {
        check_cut(&fleet, &points::<G1Affine>(1, count), parts, &scalars(2, count)).await;
        check_cut(&fleet, &points::<G2Affine>(3, count), parts, &scalars(4, count)).await;
    }
    let three = points::<G1Affine>(5, 3000);
    fleet.put_bases_with(PutOptions::default(), &three[..], 3).await.unwrap();
    for daemon in &daemons {
        let client = daemon.client().connect().await.unwrap();
        let held = client.list(None).await.unwrap();
        let parts = held.iter().filter(|bases| bases.count == 1000).count();
        assert_eq!(parts, 1, "each server has one part");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn degenerate_parts_are_added_exactly() {
    let daemons = [(); 3].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    let some = points::<G1Affine>(1, 6);
    // Points at infinity, in one part or in all.
    let mut infinities = some.clone();
    infinities[..3].fill(G1Affine::identity());
    check_cut(&fleet, &infinities, 2, &scalars(1, 6)).await;
    check_cut(&fleet, &[G1Affine::identity(); 6], 3, &scalars(2, 6)).await;
    // Scalars that are zero in one part or in all.
    let mut zeros = scalars(3, 6);
    zeros[2..].fill(Fr::zero());
    check_cut(&fleet, &some, 3, &zeros).await;
    check_cut(&fleet, &some, 3, &[Fr::zero(); 6]).await;
    // Sums of parts that cancel, and that are equal: the sum is infinity, or a doubling.
    let twice = [&some[..3], &some[..3]].concat();
    let half = scalars(4, 3);
    let negated: Vec<_> = half.iter().map(|scalar| -*scalar).collect();
    check_cut(&fleet, &twice, 2, &[&half[..], &negated].concat()).await;
    check_cut(&fleet, &twice, 2, &[&half[..], &half].concat()).await;
    let bases = fleet.put_bases_with(PutOptions::default(), &twice[..], 2).await.unwrap();
    let cancelled = fleet.msm(&bases, &[&half[..], &negated].concat()).await.unwrap();
    assert_eq!(cancelled, G1Projective::zero());
    // Wrong shapes.
    let wrong = fleet.msm(&bases, &half).await.unwrap_err();
    assert!(matches!(wrong, ClientError::InvalidInput { .. }), "{wrong}");
    let wrong = fleet.msm(&bases, UploadKey([1; 16])).await.unwrap_err();
    assert!(matches!(wrong, ClientError::InvalidInput { .. }), "{wrong}");
    let none: [G1Affine; 0] = [];
    let wrong = fleet.put_bases(&none[..]).await.unwrap_err();
    assert!(matches!(wrong, ClientError::InvalidInput { .. }), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_spread_over_replicas_and_parts() {
    let daemons = [(); 3].map(|()| start());
    let servers = daemons.iter().map(|daemon| Client::builder(daemon.target()));
    let fleet = Fleet::builder(servers).replicas(2).connect().await.unwrap();
    let all = points::<G1Affine>(1, 40);
    let elements = scalars(1, 40 * 5);
    let expected: Vec<_> = elements.chunks(40).map(|row| sum(&all, row)).collect();
    let options = MsmOptions { batch: 5, ..MsmOptions::default() };
    for parts in [1, 3] {
        let bases = fleet.put_bases_with(PutOptions::default(), &all[..], parts).await.unwrap();
        let found = bounded(fleet.msm_with(&bases, &elements, options.clone())).await.unwrap();
        assert_eq!(found.points, expected, "{parts} parts");
        assert!(found.timing.total > Duration::ZERO);
        // Narrow scalars, borrowed and owned.
        let narrow: Vec<u8> = (0..40 * 5).map(|at| at as u8).collect();
        let wide: Vec<_> = narrow.iter().map(|byte| Fr::from(*byte)).collect();
        let expected: Vec<_> = wide.chunks(40).map(|row| sum(&all, row)).collect();
        let encoding = ScalarEncoding::Unsigned(1);
        for input in [
            ScalarInput::Bytes { encoding, bytes: &narrow },
            ScalarInput::Shared { encoding, bytes: narrow.clone().into() },
        ] {
            let found = bounded(fleet.msm_with(&bases, input, options.clone())).await.unwrap();
            assert_eq!(found.points, expected, "{parts} parts");
        }
    }
    let replicas = stored(&daemons).await;
    // The whole bases on two servers, and a part of them on each.
    assert_eq!(replicas.iter().sum::<usize>(), 5, "{replicas:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transforms_and_programs_run_on_any_server() {
    let daemons = [(); 3].map(|()| start());
    let fleet = fleet_of(&daemons).await;
    let elements = scalars(1, 64 * 7);
    let options = NttOptions { batch: 7, ..NttOptions::forward() };
    let found = bounded(fleet.ntt(&elements, options)).await.unwrap();
    let expected: Vec<_> = elements.chunks(64).flat_map(transform).collect();
    assert!(found.values == expected, "a wrong transform");
    let wrong = fleet.ntt(&elements[..5], NttOptions::forward()).await.unwrap_err();
    assert!(matches!(wrong, ClientError::InvalidInput { .. }), "{wrong}");

    let all = points::<G1Affine>(3, 64);
    let shared: std::sync::Arc<[G1Affine]> = all.clone().into();
    let mut used = BTreeSet::new();
    for key in ["a", "b", "c", "d", "e", "f"] {
        let point = bounded(fleet.call(key, |client| {
            let (shared, elements) = (shared.clone(), elements[..64].to_vec());
            async move {
                let bases = client.put_shared_bases(PutOptions::default(), shared).await?;
                let vector = client.put_vector(elements).await?;
                let mut program = ProgramBuilder::new();
                let input = program.input(64)?;
                let point = program.msm(&bases, input)?;
                let program = program.build()?;
                let run = ProgramRun::new(&program).input(input, vector.id).send_points(point);
                let result = client.run(run).await?;
                client.release_vector(vector.id).await?;
                Ok((format!("{client:?}"), result.points(point)?[0]))
            }
        }));
        let (server, point) = point.await.unwrap();
        assert_eq!(point, sum(&all, &elements[..64]));
        used.insert(server);
    }
    assert!(used.len() > 1, "all keys are on one server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_several_addresses_is_several_servers() {
    let first = start();
    let port = first.address().port();
    // The same port on another loopback address, as two hosts behind one name have.
    let second = crate::many_servers::rig::start_at(Some(([127, 0, 0, 2], port).into()));
    let named = |host: &str| Client::builder(format!("http://{host}:{port}"));
    let mut servers = named("127.0.0.1").resolve().await.unwrap();
    servers.extend(named("127.0.0.2").resolve().await.unwrap());
    servers.extend(named("localhost").resolve().await.unwrap());
    let fleet = Fleet::connect(servers).await.unwrap();
    let up = fleet.servers().into_iter().filter(|server| server.is_up).count();
    // Neither listens at ::1, and 127.0.0.1 counts once.
    assert_eq!(up, 2, "{fleet:?}");
    for seed in 0..6 {
        let (all, elements) = (points::<G1Affine>(seed, 9), scalars(seed, 9));
        let bases = fleet.put_bases(&all[..]).await.unwrap();
        assert_eq!(fleet.msm(&bases, &elements).await.unwrap(), sum(&all, &elements));
    }
    assert_eq!(stored(&[first, second]).await.iter().sum::<usize>(), 6);
}
