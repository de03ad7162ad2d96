//! A balancer that chooses by `capstan-affinity`: calls that belong together reach one server.

use std::collections::BTreeSet;

use capstan::{
    client::{
        Client, ClientError, Fr, G1Affine, G2Affine, InputElements, NttOptions, NttTransform,
        ProgramBuilder, ProgramRun, PutOptions, ScalarInput,
    },
    curve::layout::fr_as_bytes,
};
use rustix::process::Signal;

use crate::many_servers::{
    balancer::{CallBalancer, Choice, SeenCall},
    rig::{
        POINTS, STRIPED, batch, bounded, many_points, many_scalars, pause, points, scalars, start,
        sum, sums, transform,
    },
};

/// All that requests may have in their headers: nothing else can say something of a payload.
const HEADERS: [&str; 8] = [
    "capstan-affinity",
    "capstan-instance",
    "content-length",
    "content-type",
    "grpc-timeout",
    "te",
    "user-agent",
    "x-request-id",
];

/// The keys of the calls that a connected client has made, without those of its connections.
fn keys(calls: &[SeenCall]) -> BTreeSet<Option<&str>> {
    for call in calls {
        for name in call.headers.keys() {
            assert!(HEADERS.contains(&name.as_str()), "{name} in {}", call.path);
        }
    }
    calls.iter().map(SeenCall::affinity).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_of_a_job_and_all_lanes_of_an_upload_have_one_key() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::ByKey, &daemons).await;
    let client = Client::connect(&balancer.target).await.unwrap();
    let mut is_striped = false;
    // The first lane may have sent everything before the second one begins.
    for seed in 0..20 {
        if is_striped && seed > 1 {
            break;
        }
        let all = many_points(seed);
        balancer.take_seen();
        let bases = client.put_bases(&all).await.unwrap();
        let used = bases.slice(16, (POINTS - 32) as u64).unwrap();
        let scalars = many_scalars(seed, 3 * used.len() as usize);
        let found = bounded(client.msm_with(&used, &scalars, batch(3))).await.unwrap();
        assert_eq!(found.points, sums(&all[16..POINTS - 16], &scalars));
        let seen = balancer.take_seen();
        let lanes = seen.iter().filter(|call| call.path.ends_with("/Put")).count();
        is_striped |= lanes > 1;
        // The question of a striped call which server it will reach has its key, too.
        let id = bases.id().to_string();
        let own: BTreeSet<_> = keys(&seen).into_iter().filter(|key| *key == Some(&*id)).collect();
        assert_eq!(own.len(), 1);
        let other = |call: &&SeenCall| call.affinity() != Some(&*id);
        let others: Vec<_> = seen.iter().filter(other).collect();
        assert!(others.iter().all(|call| call.path.ends_with("/Stat")), "{others:?}");
    }
    assert!(is_striped, "each payload took one lane");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_and_what_uses_them_reach_one_server() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::ByKey, &daemons).await;
    let client = Client::connect(&balancer.target).await.unwrap();
    let hold = PutOptions { hold: true, ..PutOptions::default() };
    for seed in 0..4 {
        let all = points::<G2Affine>(seed, 64);
        let bases = client.put_bases_with(hold.clone(), &all).await.unwrap();
        let elements = scalars(seed, 100);
        let vector = client.put_vector(&elements).await.unwrap();
        // The vector may be on another server than the bases, which are put there again.
        let part = ScalarInput::UploadFrom { id: vector.id, first: 9 };
        let found = bounded(client.msm(&bases, part)).await.unwrap();
        assert_eq!(found, sum(&all, &elements[9..73]));
        let bytes = client.get_vector(&vector).await.unwrap();
        assert!(*bytes == *fr_as_bytes(&elements), "a wrong vector");

        // A program keeps a vector under a new id; the next one reads it.
        let mut program = ProgramBuilder::new();
        let input = program.input(64).unwrap();
        let values = program.ntt(input, NttTransform::forward()).unwrap();
        let point = program.msm(&bases, values).unwrap();
        let program = program.build().unwrap();
        let run = ProgramRun::new(&program).input(input, &elements[..64]);
        let result = bounded(client.run(run.send_points(point).keep(values))).await.unwrap();
        let transformed = transform(&elements[..64]);
        assert_eq!(result.points(point).unwrap(), [sum(&all, &transformed)]);
        let kept = result.kept(values).unwrap();
        let mut next = ProgramBuilder::new();
        let input = next.input(64).unwrap();
        let back = next.ntt(input, NttTransform::inverse()).unwrap();
        let next = next.build().unwrap();
        let run = ProgramRun::new(&next).input(input, InputElements::stored(kept.id, 0)).send(back);
        let result = bounded(client.run(run)).await.unwrap();
        assert_eq!(result.vector(back).unwrap(), &elements[..64]);
        client.release_vector(kept.id).await.unwrap();
        client.release_vector(vector.id).await.unwrap();
    }
    // 8 MiB: uploaded over several lanes, transformed, and downloaded over several lanes.
    let input = scalars(9, 2 * STRIPED);
    let mut values = input.clone();
    bounded(client.ntt(&mut values, NttOptions::forward())).await.unwrap();
    assert!(values == transform(&input), "a wrong transform");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_client_sends_all_calls_to_one_server() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::ByKey, &daemons).await;
    let builder = Client::builder(&balancer.target).affinity("proof-of-ada");
    let client = builder.connect().await.unwrap();
    balancer.take_seen();
    let bases = [1, 2, 3].map(|seed| points::<G1Affine>(seed, 32));
    let mut program = ProgramBuilder::new();
    let elements = scalars(1, 32);
    let input = program.input(32).unwrap();
    let mut sums = Vec::new();
    for all in &bases {
        let handle = client.put_bases(all).await.unwrap();
        sums.push(program.msm(&handle, input).unwrap());
    }
    let program = client.put_program(&program.build().unwrap()).await.unwrap();
    let run = ProgramRun::new(&program).input(input, &elements);
    let run = sums.iter().fold(run, |run, sum| run.send_points(*sum));
    let result = bounded(client.run(run)).await.unwrap();
    for (all, point) in bases.iter().zip(sums) {
        assert_eq!(result.points(point).unwrap(), [sum(all, &elements)]);
    }
    assert_eq!(keys(&balancer.take_seen()), BTreeSet::from([Some("proof-of-ada")]));
    assert!(matches!(client.with_affinity("a b"), Err(ClientError::InvalidSetting { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bases_are_put_again_on_the_server_that_takes_over_from_a_draining_one() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::ByKey, &daemons).await;
    let client = Client::builder(&balancer.target).retries(20).connect().await.unwrap();
    let hold = PutOptions { hold: true, ..PutOptions::default() };
    let jobs: Vec<_> =
        (0..6).map(|seed| (points::<G1Affine>(seed, 50), scalars(seed, 50))).collect();
    let mut handles = Vec::new();
    for (all, _) in &jobs {
        handles.push(client.put_bases_with(hold.clone(), all).await.unwrap());
    }
    let [first, second, third] = daemons;
    // The balancer notices the drain late.
    first.signal(Signal::TERM);
    let late = async {
        pause(300).await;
        balancer.choose_among([&second, &third]);
    };
    let work = async {
        for (handle, (all, scalars)) in handles.iter().zip(&jobs) {
            let found = bounded(client.msm(handle, scalars)).await.unwrap();
            assert_eq!(found, sum(all, scalars));
        }
    };
    tokio::join!(late, work);
    let zeros = vec![Fr::from(0); 50];
    assert_eq!(client.msm(&handles[0], &zeros).await.unwrap(), sum(&jobs[0].0, &zeros));
}
