//! Jumps of the clock: credentials expire by it, and nothing else depends on it.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use capstan::{
    client::{Client, ClientError, Fr},
    identity::{BearerToken, TokenEntry, add_token},
};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{runtime::Runtime, time::sleep};

use crate::chaos::{
    daemon::{DaemonOptions, DaemonProcess, compute, points, start_with, until_idle},
    faults::Faults,
};

const HOUR: Duration = Duration::from_secs(3600);
/// Seconds of the jumps: a day ahead, and a day back.
const JUMPS: [&str; 2] = ["clock 86400", "clock -86400"];
/// Time for the daemon to read its files of credentials again, if it does.
const RELOAD: Duration = Duration::from_millis(2500);

/// Tokens of both kinds that are valid from now on for an hour, and the files by which the daemon
/// checks them.
struct Credentials {
    folder: TempDir,
    token: String,
    web_token: String,
}

impl Credentials {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = BearerToken::generate().unwrap();
        let expires = Some(SystemTime::now() + HOUR);
        let entry = TokenEntry { name: "ci".into(), tenant: None, hash: token.hash(), expires };
        fs::write(folder.path().join("tokens"), add_token("", &entry).unwrap()).unwrap();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        let x = encode(key.public_key().as_ref());
        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k", "use": "sig" });
        fs::write(folder.path().join("keys"), json!({ "keys": [jwk] }).to_string()).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let header = json!({ "alg": "EdDSA", "kid": "k" }).to_string();
        let claims = json!({
            "iss": "issuer", "aud": "capstan", "sub": "ada", "nbf": now, "exp": now + 3600,
        });
        let message = [header, claims.to_string()].map(|part| encode(part.as_bytes())).join(".");
        let signature = encode(key.sign(message.as_bytes()).as_ref());
        let web_token = format!("{message}.{signature}");
        Self { token: token.text().to_owned(), web_token, folder }
    }

    fn flags(&self) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let jwt = ["--auth-jwt-issuer", "issuer", "--auth-jwt-audience", "capstan"];
        let files = ["--auth-tokens".into(), path("tokens"), "--auth-jwks".into(), path("keys")];
        files.into_iter().chain(jwt.map(str::to_owned)).collect()
    }
}

fn start(flags: &[&str], faults: &Faults) -> DaemonProcess {
    let nowhere = std::path::Path::new("/nonexistent");
    let faults = Some((faults, nowhere));
    start_with(&DaemonOptions { flags, faults, ..DaemonOptions::default() })
}

#[test]
fn credentials_expire_by_the_clock_and_are_valid_again_when_it_is_set_right() {
    let (credentials, faults) = (Credentials::new(), Faults::new());
    let flags = credentials.flags();
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let daemon = start(&flags, &faults);
    Runtime::new().unwrap().block_on(async {
        let ask = async |token: &str| -> Result<(), ClientError> {
            daemon.client().token(token).connect().await?.info().await.map(drop)
        };
        let open = daemon.client().token(&*credentials.token).connect().await.unwrap();
        let refusal =
            |asked: Result<(), ClientError>| asked.expect_err("accepted").reason_text().to_owned();
        // Twice: the second time, the signature of the web token is remembered.
        for _ in 0..2 {
            for token in [&credentials.token, &credentials.web_token] {
                ask(token).await.unwrap();
            }
            let [ahead, back] = JUMPS;
            faults.set(ahead);
            for token in [&credentials.token, &credentials.web_token] {
                assert_eq!(refusal(ask(token).await), "CREDENTIALS_EXPIRED");
            }
            let refused = compute(&open).await;
            assert_eq!(refusal(refused), "CREDENTIALS_EXPIRED", "on an open connection");
            // Before it is valid; tokens of the file have no beginning.
            faults.set(back);
            assert_eq!(refusal(ask(&credentials.web_token).await), "CREDENTIALS_INVALID");
            ask(&credentials.token).await.unwrap();
            faults.clear();
            compute(&open).await.unwrap();
        }
    });
    daemon.stop();
}

/// Runs `call` while the clock jumps there and back.
async fn during_jumps<T>(faults: &Faults, call: impl Future<Output = T>) -> T {
    let jumps = async {
        for jump in JUMPS {
            faults.set(jump);
            sleep(RELOAD / 5).await;
        }
        faults.clear();
    };
    tokio::join!(call, jumps).0
}

#[test]
fn deadlines_idle_times_and_quotas_do_not_depend_on_the_clock() {
    let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::new());
    let tenants = folder.path().join("tenants");
    // A refill that takes longer than this test: a jump must not fill it.
    fs::write(&tenants, "[tenants.default]\ndevice_seconds_per_minute = 0.001\n").unwrap();
    let unlimited = start(&["--idle-timeout-ms", "60000", "--upload-ttl-s", "60"], &faults);
    let limited = start(&["--tenants", tenants.to_str().unwrap()], &faults);
    Runtime::new().unwrap().block_on(async {
        let client = unlimited.client().deadline(Duration::from_secs(40)).connect().await.unwrap();
        let bases = client.put_bases(&points(0, 1000)).await.unwrap();
        let vector = client.put_vector(&[Fr::from(5); 100][..]).await.unwrap();
        during_jumps(&faults, async {
            // Calls, each of which has a deadline.
            let begun = std::time::Instant::now();
            while begun.elapsed() < RELOAD {
                let sum = client.msm(&bases, &[Fr::from(1); 1000]).await.unwrap();
                assert_eq!(sum, points(0, 1)[0] * Fr::from(500_500));
                compute(&client).await.unwrap();
            }
        })
        .await;
        client.get_vector(&vector).await.expect("a vector is dropped after a minute");
        client.release_vector(vector.id).await.unwrap();
        until_idle(&client).await;

        let client = limited.client().connect().await.unwrap();
        let use_up = async || loop {
            if let Err(error) = use_device_time(&client).await {
                break error;
            }
        };
        let used_up = use_up().await;
        assert_eq!(used_up.reason_text(), "TENANT_QUOTA");
        let longest = used_up.retry_after().expect("tells when to retry");
        for jump in JUMPS {
            faults.set(jump);
            let refused = use_device_time(&client).await.expect_err("a jump fills the quota");
            assert_eq!(refused.reason_text(), "TENANT_QUOTA");
            let wait = refused.retry_after().expect("tells when to retry");
            assert!(wait <= longest, "{wait:?} instead of {longest:?}");
        }
        faults.clear();
    });
    unlimited.stop();
    limited.stop();
}

/// A call whose modelled time is more than a thousandth of a second.
async fn use_device_time(client: &Client) -> Result<(), ClientError> {
    let mut values = vec![Fr::from(1); 1 << 14];
    client.ntt(&mut values, capstan::client::NttOptions::forward()).await.map(drop)
}
