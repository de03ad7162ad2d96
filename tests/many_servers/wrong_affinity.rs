//! A balancer that chooses a server for each call whatever its key: a wrong configuration. Uploads
//! over several lanes reach several servers. The client notices it, and uses one lane or fails with
//! a clear reason; a result is never wrong.

use capstan::{
    client::{Client, NttOptions, Reason},
    curve::layout::fr_as_bytes,
    wire::v1::{StatRequest, stat_request::Id, store_client::StoreClient},
};
use tonic::{Code, Request, Status, transport::Endpoint};
use tonic_types::StatusExt;

use crate::many_servers::{
    balancer::{CallBalancer, Choice},
    rig::{STRIPED, bounded, scalars, start, transform},
    sweep,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_whose_lanes_reach_several_servers_use_one_lane() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::InTurn, &daemons).await;
    let client = Client::builder(&balancer.target).retries(20).connect().await.unwrap();
    for seed in 0..3 {
        let elements = scalars(seed, STRIPED);
        let vector = bounded(client.put_vector(&elements)).await.unwrap();
        let mut holders = 0;
        for daemon in &daemons {
            let direct = daemon.client().connect().await.unwrap();
            match direct.get_vector(&vector).await {
                Ok(bytes) => {
                    assert!(*bytes == *fr_as_bytes(&elements), "a wrong vector");
                    holders += 1;
                }
                Err(error) => assert!(error.is_not_found(), "{error}"),
            }
        }
        assert_eq!(holders, 1);
    }
}

/// Makes a transform for each of `seeds`.
async fn check_transforms(seeds: impl IntoIterator<Item = u64>) {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::InTurn, &daemons).await;
    let client = Client::builder(&balancer.target).retries(20).connect().await.unwrap();
    for seed in seeds {
        let input = scalars(seed, 2 * STRIPED);
        let mut values = input.clone();
        match bounded(client.ntt(&mut values, NttOptions::forward())).await {
            Ok(_) => {
                assert!(values == transform(&input), "a wrong transform");
                println!("transform {seed} is right");
            }
            // The download needs the server that has the result.
            Err(error) => assert!(error.is_not_found(), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transforms_over_several_lanes_are_right_or_refused() {
    check_transforms([1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sweep"]
async fn many_transforms_over_several_lanes_are_right_or_refused() {
    check_transforms(sweep::cases("transforms over several lanes", 2..12)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_not_retry_gets_the_reason() {
    let daemons = [(); 3].map(|()| start());
    let balancer = CallBalancer::start(Choice::InTurn, &daemons).await;
    let client = Client::builder(&balancer.target).retries(0).connect().await.unwrap();
    let elements = scalars(1, STRIPED);
    let mut noticed = 0;
    for _ in 0..10 {
        match bounded(client.put_vector(&elements)).await {
            Ok(_) => {}
            Err(error) if error.reason() == Some(Reason::OtherServer) => noticed += 1,
            // A connection that is not used from now on.
            Err(error) => assert!(error.to_string().contains("another server"), "{error}"),
        }
    }
    println!("{noticed} of 10 refused");
}

/// Asks a server for an unknown upload, in a call for the server named `instance`.
async fn ask(target: &str, instance: Option<&str>) -> Status {
    let channel = Endpoint::from_shared(target.to_owned()).unwrap().connect().await.unwrap();
    let id = Some(Id::UploadId(vec![7; 16].into()));
    let mut request = Request::new(StatRequest { id });
    if let Some(instance) = instance {
        request.metadata_mut().insert("capstan-instance", instance.parse().unwrap());
    }
    StoreClient::new(channel).stat(request).await.unwrap_err()
}

#[tokio::test]
async fn a_server_refuses_calls_for_another_process_and_names_itself() {
    let daemon = start();
    let name = |status: &Status| {
        status.metadata().get("capstan-instance").unwrap().to_str().unwrap().to_owned()
    };
    let unknown = ask(&daemon.target(), None).await;
    assert_eq!(unknown.code(), Code::NotFound);
    let own = name(&unknown);
    assert_eq!(ask(&daemon.target(), Some(&own)).await.code(), Code::NotFound);
    let refused = ask(&daemon.target(), Some("another")).await;
    assert_eq!((refused.code(), name(&refused)), (Code::Unavailable, own));
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "OTHER_SERVER");
    assert!(details.retry_info().is_some());
}
