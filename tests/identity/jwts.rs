//! JSON Web Tokens.

use std::{fs, path::Path};

use capstan::server::{AuthSettings, JwtSettings, ServerSettings, check_credential_files};
use serde_json::{Value, json};

use crate::identity::{
    caller, http,
    issuer::{
        AUDIENCE, ISSUER, SigningKey, claims, claims_but, hs256_token, key_set, time,
        token_without_signature,
    },
    known, refusal, start, until_answer,
};

fn settings(key_set: &Path) -> ServerSettings {
    let jwt = JwtSettings {
        key_set: key_set.to_owned(),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        tenant_claim: "tenant".to_owned(),
    };
    let auth = AuthSettings { jwt: Some(jwt), ..AuthSettings::default() };
    ServerSettings { auth, ..ServerSettings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_token_names_its_subject_and_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let keys = [SigningKey::es256(), SigningKey::eddsa(), SigningKey::rs256()];
    fs::write(&path, key_set(keys.iter().map(|key| key.jwk(key.algorithm())))).unwrap();
    let server = start(settings(&path));
    let as_caller = async |token: String| caller(http(&server).token(token)).await.unwrap();
    for key in &keys {
        let id = key.algorithm();
        let token = key.token(id, &claims());
        // The second time, the signature is not verified again.
        assert_eq!(as_caller(token.clone()).await, known("jwt:ada", "default"), "{id}");
        assert_eq!(as_caller(token).await, known("jwt:ada", "default"), "{id} again");
        let without_id = key.token_with(&json!({ "alg": id }), &claims());
        assert_eq!(as_caller(without_id).await.0, "jwt:ada", "{id} without a key id");
        let token = key.token(id, &claims_but("tenant", json!("provers")));
        assert_eq!(as_caller(token).await, known("jwt:ada", "provers"), "{id}");
    }
    let key = &keys[0];
    for (name, value) in [
        ("aud", json!(["another", AUDIENCE])),
        // Within the clock skew that is forgiven.
        ("exp", json!(time(-10))),
        ("nbf", json!(time(10))),
    ] {
        let token = key.token("ES256", &claims_but(name, value.clone()));
        assert_eq!(as_caller(token).await.0, "jwt:ada", "{name} {value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_with_wrong_claims_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let key = SigningKey::es256();
    fs::write(&path, key_set([key.jwk("k")])).unwrap();
    let server = start(settings(&path));
    let expired = key.token("k", &claims_but("exp", json!(time(-3600))));
    assert_eq!(refusal(http(&server).token(expired)).await, "CREDENTIALS_EXPIRED");
    let far = json!(u64::MAX);
    let table: [(&str, Value); 17] = [
        ("iss", json!("https://other.example")),
        ("iss", Value::Null),
        ("iss", json!(1)),
        ("aud", json!("another")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("exp", Value::Null),
        ("exp", json!("tomorrow")),
        ("exp", json!(-1)),
        ("nbf", json!(time(3600))),
        ("nbf", json!("now")),
        ("sub", Value::Null),
        ("sub", json!("")),
        ("sub", json!("a\nb")),
        ("sub", json!("\u{202e}ada")),
        ("tenant", json!(7)),
        ("tenant", json!("a\u{200b}b")),
    ];
    for (name, value) in table {
        let token = key.token("k", &claims_but(name, value.clone()));
        let reason = refusal(http(&server).token(token)).await;
        assert_eq!(reason, "CREDENTIALS_INVALID", "{name} {value}");
    }
    // A time that cannot be represented is refused or never comes; the server survives either.
    let _answer = caller(http(&server).token(key.token("k", &claims_but("exp", far)))).await;
    assert!(caller(http(&server).token(key.token("k", &claims()))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_no_known_key_has_signed_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (rsa, ec, stranger) = (SigningKey::rs256(), SigningKey::es256(), SigningKey::es256());
    let set = key_set([rsa.jwk("rsa"), ec.jwk("ec"), SigningKey::es256().jwk("ec2")]);
    fs::write(&path, &set).unwrap();
    let server = start(settings(&path));
    let (jwk, claims) = (rsa.jwk("rsa"), claims());
    let good = ec.token("ec", &claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let other = ec.token("ec", &claims_but("sub", json!("eve")));
    let (other_signed, _) = other.rsplit_once('.').unwrap();
    let critical = json!({ "alg": "ES256", "kid": "ec", "crit": ["x"], "x": 1 });
    for (name, token) in [
        ("alg none", token_without_signature("none", &claims)),
        ("alg None", token_without_signature("None", &claims)),
        ("no signature", token_without_signature("ES256", &claims)),
        ("HS256 with the modulus", hs256_token("rsa", jwk["n"].to_string().as_bytes(), &claims)),
        ("HS256 with the key set", hs256_token("rsa", set.as_bytes(), &claims)),
        ("a strange key", stranger.token("ec", &claims)),
        ("an unknown key id", ec.token("rsb", &claims)),
        ("another key's id", ec.token("rsa", &claims)),
        ("another algorithm", ec.token_with(&json!({ "alg": "RS256", "kid": "rsa" }), &claims)),
        (
            "its own key",
            stranger.token_with(
                &json!({ "alg": "ES256", "kid": "ec", "jwk": stranger.jwk("ec") }),
                &claims,
            ),
        ),
        ("no key id, and two keys", ec.token_with(&json!({ "alg": "ES256" }), &claims)),
        ("critical extensions", ec.token_with(&critical, &claims)),
        ("other claims", format!("{other_signed}.{signature}")),
        ("half a signature", format!("{signed}.{}", &signature[..43])),
        ("four parts", format!("{good}.")),
        ("no JSON", "a.b.c".to_owned()),
    ] {
        let reason = refusal(http(&server).token(token)).await;
        assert_eq!(reason, "CREDENTIALS_INVALID", "{name}");
    }
    assert!(caller(http(&server).token(good)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_withdrawn_verifies_no_more_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (old, new) = (SigningKey::eddsa(), SigningKey::es256());
    fs::write(&path, key_set([old.jwk("old")])).unwrap();
    let server = start(settings(&path));
    let (by_old, by_new) = (old.token("old", &claims()), new.token("new", &claims()));
    assert!(caller(http(&server).token(by_old.as_str())).await.is_ok());
    assert_eq!(refusal(http(&server).token(by_new.as_str())).await, "CREDENTIALS_INVALID");
    fs::write(&path, key_set([new.jwk("new")])).unwrap();
    server.reloader.reload();
    until_answer("new key", &http(&server).token(by_new), Ok("jwt:ada")).await;
    assert_eq!(refusal(http(&server).token(by_old)).await, "CREDENTIALS_INVALID");
}

/// Issuers publish kinds of keys that are newer than the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_be_used_keep_no_other_key_from_verifying_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (old, good) = (SigningKey::eddsa(), SigningKey::es256());
    let mut half = SigningKey::es256().jwk("half");
    half["y"] = json!("AQAB");
    let unusable = [
        half,
        json!({ "kty": "AKP", "alg": "ML-DSA-65", "pub": "AQAB", "kid": "newer" }),
        json!({ "kty": "OKP", "crv": "X448", "x": "AQAB", "kid": "another curve" }),
        json!({}),
        json!(7),
    ];
    let set = |key| key_set(unusable.clone().into_iter().chain([key]));
    fs::write(&path, set(old.jwk("old"))).unwrap();
    let server = start(settings(&path));
    let (by_old, by_good) = (old.token("old", &claims()), good.token("good", &claims()));
    assert!(caller(http(&server).token(by_old.as_str())).await.is_ok());
    fs::write(&path, set(good.jwk("good"))).unwrap();
    server.reloader.reload();
    until_answer("new key", &http(&server).token(by_good), Ok("jwt:ada")).await;
    // Withdrawn, whatever else the file holds.
    assert_eq!(refusal(http(&server).token(by_old)).await, "CREDENTIALS_INVALID");
}

#[test]
fn key_sets_that_verify_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let mut short = SigningKey::rs256().jwk("a");
    short["n"] = json!("AQAB");
    let mut for_encryption = SigningKey::es256().jwk("a");
    for_encryption["use"] = json!("enc");
    let symmetric = json!({ "kty": "oct", "k": "c2VzYW1l", "kid": "a" });
    let mut half = SigningKey::es256().jwk("a");
    half["y"] = json!("AQAB");
    for (text, problem) in [
        ("no".to_owned(), "not a JSON Web Key Set"),
        (key_set([]), "no key can verify signatures"),
        (key_set([symmetric]), "no key can verify signatures"),
        (key_set([for_encryption]), "no key can verify signatures"),
        (key_set([short]), "keys[0] cannot be used"),
        (key_set([half.clone()]), "keys[0] cannot be used"),
        (key_set([half, json!(7)]), "wrong length; keys[1] cannot be used"),
        (key_set((0..17).map(|_| SigningKey::eddsa().jwk("b"))), "more than 16 keys"),
    ] {
        fs::write(&path, text).unwrap();
        let error = check_credential_files(&settings(&path)).files.pop().expect("a problem");
        assert_eq!(error.setting, "auth_jwks");
        assert!(error.problem.contains(problem), "{problem}: {}", error.problem);
    }
}
