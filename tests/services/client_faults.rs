//! The client against a misbehaving server: what it retries, when it stops, which error it reports.

use crate::{fake, rig::TestServer};
use std::time::Duration;

use ark_ec::AffineRepr;
use capstan::{
    client::{
        BasesId, Client, ClientError, Code, Fr, G1Affine, Group, MsmOptions, NttOptions,
        PointEncoding, ProgramBuilder, ProgramRun, PutOptions, Reason, RunOptions, ScalarEncoding,
        ScalarInput, VectorValue, Verification,
    },
    server::ServerSettings,
    wire::v1,
};
use fake::{FakeMode, FakeServer, RunAnswer, refusal};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(20);

fn one_term() -> ([G1Affine; 1], [Fr; 1]) {
    ([G1Affine::generator()], [Fr::from(1)])
}

async fn client(fake: &FakeServer) -> Client {
    Client::builder(&fake.target).retries(3).connect().await.unwrap()
}

#[tokio::test]
async fn draining_is_retried_a_limited_number_of_times() {
    let after = Some(Duration::from_millis(1));
    let fake =
        FakeServer::start(FakeMode::Refuse(refusal(Code::Unavailable, "DRAINING", after))).await;
    let (bases, scalars) = one_term();
    let error = client(&fake).await.msm_inline(&bases, &scalars).await.unwrap_err();
    assert_eq!((error.code(), error.reason_text()), (Code::Unavailable, "DRAINING"));
    assert_eq!(fake.calls(), 4, "one call and three retries");
}

#[tokio::test]
async fn a_request_that_can_never_fit_is_not_retried() {
    let never = refusal(Code::ResourceExhausted, "BYTES_IN_FLIGHT", None);
    let fake = FakeServer::start(FakeMode::Refuse(never)).await;
    let (bases, scalars) = one_term();
    let error = client(&fake).await.msm_inline(&bases, &scalars).await.unwrap_err();
    assert_eq!(error.reason_text(), "BYTES_IN_FLIGHT");
    assert_eq!(fake.calls(), 1);
}

#[tokio::test]
async fn does_not_wait_for_a_retry_after_the_deadline() {
    let later = refusal(Code::ResourceExhausted, "JOBS", Some(Duration::from_secs(3600)));
    let fake = FakeServer::start(FakeMode::Refuse(later)).await;
    let (bases, scalars) = one_term();
    let options = MsmOptions { deadline: Some(Duration::from_secs(30)), ..MsmOptions::default() };
    let call = client(&fake).await;
    let call = call.msm_inline_with(&bases, &scalars, options);
    let error = tokio::time::timeout(HANGING, call).await.expect("returns at once").unwrap_err();
    assert_eq!(error.reason_text(), "JOBS");
    assert_eq!(fake.calls(), 1);
}

#[tokio::test]
async fn sends_its_deadline_and_keeps_it_if_the_server_does_not() {
    let fake = FakeServer::start(FakeMode::Hang).await;
    let (bases, scalars) = one_term();
    let client = client(&fake).await;
    // If the deadline passes before the call arrives, try a longer one.
    let mut deadline = Duration::from_millis(100);
    while fake.calls() == 0 {
        let options = MsmOptions { deadline: Some(deadline), ..MsmOptions::default() };
        let call = client.msm_inline_with(&bases, &scalars, options);
        let error = tokio::time::timeout(HANGING, call).await.expect("does not hang").unwrap_err();
        assert!(matches!(error, ClientError::DeadlineExceeded), "{error}");
        deadline *= 2;
    }
    assert!(fake.saw_deadline());
    tokio::time::timeout(HANGING, fake.all_handlers_dropped())
        .await
        .expect("the call is cancelled");
}

#[tokio::test]
async fn dropping_a_call_cancels_it_on_the_server() {
    let fake = FakeServer::start(FakeMode::Hang).await;
    let client = client(&fake).await;
    let call = tokio::spawn(async move {
        let (bases, scalars) = one_term();
        client.msm_inline(&bases, &scalars).await
    });
    tokio::time::timeout(HANGING, fake.handler_started()).await.expect("the call arrives");
    call.abort();
    tokio::time::timeout(HANGING, fake.handler_dropped()).await.expect("the call is cancelled");
}

#[tokio::test]
async fn an_early_refusal_stops_all_stripes_and_is_reported() {
    let refused = refusal(Code::InvalidArgument, "NOT_CANONICAL", None);
    let fake = FakeServer::start(FakeMode::RefuseStream(refused)).await;
    let scalars = vec![0; 32 << 20];
    let input = ScalarInput::Bytes { encoding: ScalarEncoding::Unsigned(1), bytes: &scalars };
    let id = BasesId([1; 32]);
    let client = client(&fake).await;
    // A stripe fails at once, and the client waits briefly for the job's own error. If it arrives
    // too late, the client reports the stripe's CANCELLED: try again.
    let refusal = async {
        loop {
            let options = MsmOptions::default();
            let call = client.msm_id(Group::G1, id, 0, 32 << 20, input.clone(), options);
            match call.await.unwrap_err() {
                error if error.reason_text() == "CANCELLED" => {}
                error => return error,
            }
        }
    };
    let error = tokio::time::timeout(HANGING, refusal).await.expect("does not hang");
    assert_eq!((error.code(), error.reason_text()), (Code::InvalidArgument, "NOT_CANONICAL"));
}

#[tokio::test]
async fn a_dropped_upload_resets_its_streams_instead_of_ending_them() {
    let fake = FakeServer::start(FakeMode::NeverAnswer).await;
    let client = client(&fake).await;
    let reading = fake.clone();
    let upload = tokio::spawn(async move {
        let endless = vec![Fr::from(7); 1 << 21];
        client.put_vector(&endless).await
    });
    tokio::time::timeout(HANGING, reading.handler_started()).await.expect("the upload arrives");
    upload.abort();
    assert!(upload.await.unwrap_err().is_cancelled());
    reading.resume_reading();
    tokio::time::timeout(HANGING, reading.all_handlers_dropped())
        .await
        .expect("the streams are reset");
    assert_eq!(reading.streams_ended(), 0, "no stream looks complete");
}

#[tokio::test]
async fn an_upload_resumes_even_if_the_first_progress_query_fails() {
    let fake = FakeServer::start(FakeMode::FailFirst).await;
    let vector = client(&fake).await.put_vector(&[Fr::from(7); 3]).await.expect("served again");
    assert_eq!(vector.count, 3);
    assert_eq!(fake.resumed(), (2, 2));

    let fake = FakeServer::start(FakeMode::FailFirst).await;
    let scalars = vec![0; 2 << 20];
    let input = ScalarInput::Bytes { encoding: ScalarEncoding::Unsigned(1), bytes: &scalars };
    let client = client(&fake).await;
    let options = MsmOptions::default();
    let job = client.msm_id(Group::G1, BasesId([1; 32]), 0, 2 << 20, input, options);
    job.await.expect("served again");
    assert_eq!(fake.resumed(), (2, 2));
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_its_address() {
    let error = Client::connect("http://127.0.0.1:1").await.unwrap_err();
    assert!(matches!(error, ClientError::CannotConnect { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(error.is_retryable());
    for target in ["127.0.0.1:7654", "ftp://x", ""] {
        let error = Client::connect(target).await.unwrap_err();
        assert!(matches!(error, ClientError::InvalidSetting { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_too_long_for_the_server_is_named() {
    let daemon = TestServer::start(ServerSettings::default());
    let builder = Client::builder(format!("http://{}", daemon.address));
    let refused = builder.token("x".repeat(17 << 10)).connect().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.to_string().contains("metadata as too large"), "{refused}");
}

#[tokio::test]
async fn refuses_tls_settings_for_a_target_without_tls() {
    for target in ["http://127.0.0.1:1", "unix:/nowhere"] {
        let authority = Client::builder(target).ca_certificate("a certificate");
        let name = Client::builder(target).domain_name("example.org");
        for (builder, word) in [(authority, "CA certificate"), (name, "domain name")] {
            let error = builder.connect().await.unwrap_err();
            assert!(matches!(error, ClientError::InvalidSetting { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(word) && text.contains(target), "{text}");
        }
    }
}

#[tokio::test]
async fn refuses_a_result_that_is_verified_less_than_requested() {
    let claims = [
        (v1::Verify::Unspecified, Verification::None),
        (v1::Verify::None, Verification::None),
        (v1::Verify::Probabilistic, Verification::Probabilistic),
        (v1::Verify::Full, Verification::Full),
    ];
    for (claimed, given) in claims {
        let fake = FakeServer::start(FakeMode::ClaimVerified(claimed)).await;
        let client = client(&fake).await;
        for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
            let (_, mut scalars) = one_term();
            let options = MsmOptions { verify, ..MsmOptions::default() };
            let msm = client.msm_id(Group::G1, BasesId([1; 32]), 0, 1, &scalars, options).await;
            let options = NttOptions { verify, ..NttOptions::default() };
            let ntt = client.ntt(&mut scalars, options).await;
            let enough =
                verify == Verification::None || given == Verification::Full || verify == given;
            let (run, _) = echo(&scalars);
            let options = RunOptions { verify, ..RunOptions::default() };
            let run = client.run_with(run, options).await;
            for error in [msm.err(), ntt.err(), run.err()] {
                assert_eq!(error.is_none(), enough, "requested {verify:?}, reported {given:?}");
                let Some(error) = error else { continue };
                assert!(matches!(error, ClientError::InvalidResponse(_)), "{error}");
                let words =
                    format!("requested {verify:?} verification, but the result claims {given:?}");
                assert!(error.to_string().contains(&words), "{error}");
            }
        }
    }
}

/// A run that returns its input.
fn echo(elements: &[Fr]) -> (ProgramRun<'_>, VectorValue) {
    let mut program = ProgramBuilder::new();
    let value = program.input(elements.len() as u64).unwrap();
    let run = ProgramRun::new(&program.build().unwrap()).input(value, elements).send(value);
    (run, value)
}

#[tokio::test]
async fn wrong_outputs_of_a_run_are_refused() {
    let elements = [Fr::from(3), Fr::from(4)];
    for (answer, problem) in [
        (RunAnswer::Stray, "wrong number or length"),
        (RunAnswer::Short, "wrong number or length"),
        (RunAnswer::FewOutputs, "wrong number or length"),
        (RunAnswer::Unfinished, "ended without a result"),
        (RunAnswer::NotCanonical, "not canonical"),
        (RunAnswer::UnwantedPoints, "no such points were requested"),
    ] {
        let fake = FakeServer::start(FakeMode::Misanswer(answer)).await;
        let error = client(&fake).await.run(echo(&elements).0).await.unwrap_err();
        assert!(matches!(error, ClientError::InvalidResponse(_)), "{answer:?}: {error}");
        assert!(error.to_string().contains(problem), "{answer:?}: {error}");
    }
    let whole = RunAnswer::Whole(v1::Verify::None);
    let fake = FakeServer::start(FakeMode::Misanswer(whole)).await;
    let (run, value) = echo(&elements);
    let result = client(&fake).await.run(run).await.unwrap();
    assert_eq!(result.vector(value).unwrap(), elements);
}

#[tokio::test]
async fn a_list_has_the_objects_of_all_pages() {
    let fake = FakeServer::start(FakeMode::ListPages { ends: true }).await;
    let listed = client(&fake).await.list_matrices().await.unwrap();
    let ids: Vec<_> = listed.iter().map(|matrix| matrix.id.0).collect();
    assert_eq!(ids, [[0; 32], [1; 32], [2; 32]]);
    let fake = FakeServer::start(FakeMode::ListPages { ends: false }).await;
    let endless = client(&fake).await.list_matrices().await;
    assert!(matches!(endless, Err(ClientError::InvalidResponse(_))), "{endless:?}");
}

/// The server's file may have the header of another one.
#[tokio::test]
async fn refuses_objects_with_another_id_than_that_of_their_content() {
    const OTHER: [u8; 32] = [7; 32];
    let client = client(&FakeServer::start(FakeMode::OtherObject(OTHER)).await).await;
    assert_eq!(client.stat(BasesId(OTHER)).await.unwrap().count, 2);
    let refused = |error: ClientError| match error {
        ClientError::InvalidResponse(problem) => problem,
        other => panic!("{other:?}"),
    };
    let another_id = "the server answered with another id";
    assert_eq!(refused(client.stat(BasesId([1; 32])).await.unwrap_err()), another_id);
    let points = [G1Affine::generator(); 2];
    assert_eq!(refused(client.put_bases(&points).await.unwrap_err()), another_id);
    let put = async |encoding: PointEncoding, points: usize| {
        let bytes = vec![0; points * encoding.point_bytes(Group::G1)];
        client.put_encoded(Group::G1, encoding, &bytes, PutOptions::default()).await
    };
    assert_eq!(refused(put(PointEncoding::Montgomery, 2).await.unwrap_err()), another_id);
    let other_points = "the server answered with other points";
    assert_eq!(refused(put(PointEncoding::Compressed, 3).await.unwrap_err()), other_points);
    assert!(put(PointEncoding::Compressed, 2).await.is_ok(), "has no id before it is decoded");
    let mut program = ProgramBuilder::new();
    program.input(1).unwrap();
    let program = program.build().unwrap();
    assert_eq!(refused(client.put_program(&program).await.unwrap_err()), another_id);
}

#[test]
fn reads_reason_field_and_index_from_a_status() {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("NOT_CANONICAL", "capstan", std::collections::HashMap::new())
        .add_bad_request_violation("scalars[7]", "not canonical");
    let status = Status::with_error_details(Code::InvalidArgument, "scalars[7]: bad", details);
    let error = ClientError::from(status);
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.reason(), Some(Reason::NotCanonical));
    assert_eq!((error.field(), error.index()), (Some("scalars"), Some(7)));
    assert!(!error.is_retryable());
    assert_eq!(error.to_string(), "scalars[7]: bad (NOT_CANONICAL)");
}

#[test]
fn exhaustion_is_retryable_only_with_a_delay() {
    let mut details = ErrorDetails::new();
    details.set_error_info("JOBS", "capstan", std::collections::HashMap::new());
    let never = Status::with_error_details(Code::ResourceExhausted, "full", details.clone());
    assert!(!ClientError::from(never).is_retryable());
    details.set_retry_info(Some(Duration::from_millis(40)));
    let later =
        ClientError::from(Status::with_error_details(Code::ResourceExhausted, "full", details));
    assert!(later.is_retryable());
    assert_eq!(later.retry_after(), Some(Duration::from_millis(40)));
    assert_eq!(later.to_string(), "full (JOBS, retry delay 40 ms)");
}

#[test]
fn unavailable_is_retryable_and_timeouts_are_deadlines() {
    assert!(ClientError::from(Status::unavailable("draining")).is_retryable());
    let error = ClientError::from(Status::cancelled("Timeout expired"));
    assert_eq!(error.code(), Code::DeadlineExceeded);
}

/// Callers spawn calls as tasks.
#[test]
fn futures_can_be_sent_to_other_threads() {
    fn sent<T: Send>(_: T) {}
    fn all(client: &Client, values: &mut [Fr], bases: &[G1Affine]) {
        sent(client.msm_inline(bases, &*values));
        sent(client.put_bases(bases));
        sent(client.put_vector(&*values));
        sent(client.ntt(values, Default::default()));
    }
    let _ = all;
}
