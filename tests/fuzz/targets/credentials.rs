//! Files of tokens, key sets, JSON Web Tokens, names in certificates, files of tenants.

use std::{cell::LazyCell, os::unix::fs::FileExt as _, time::SystemTime};

use capstan::{
    error::CredentialProblem,
    identity::{
        JwtPolicy, JwtVerifier, TokenFile, add_token, certificate_name, is_valid_name, remove_token,
    },
    tenant::read_tenants,
};
use rcgen::{CertificateParams, KeyPair, SanType};
use tempfile::NamedTempFile;

use super::{SECRET, assert_harmless};
use crate::{
    driver::{MemoryBound, SMALL, Target},
    issuer::{AUDIENCE, ISSUER, SigningKey, claims, hs256_token, key_set},
};

/// TOML and JSON are kept as trees while they are read.
const TREE: MemoryBound = MemoryBound { per_byte: 512, always: 256 << 10 };

const TOML_WORDS: &[&str] = &[
    "[[tokens]]\n",
    "[tenants.a]\n",
    "name = \"b\"\n",
    "tenant = \"c\"\n",
    "expires = 2027-01-31T12:00:00Z\n",
    "weight = 3\n",
    "\"2 GiB\"",
    "callers = [\"uid:7\"]\n",
    "\\u202e",
    "'''",
    "# ",
    "{",
    "}",
    SECRET,
];

fn check_token_file(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let file = match TokenFile::parse(text) {
        Ok(file) => file,
        Err(problem) => return assert_harmless(&problem),
    };
    for entry in file.entries() {
        assert!(is_valid_name(&entry.name));
        assert!(entry.tenant.as_deref().is_none_or(is_valid_name));
    }
    let Some(first) = file.entries().first() else { return };
    // What the command line edits is read as before.
    let Ok(without) = remove_token(text, &first.name) else { return };
    let left = TokenFile::parse(&without).expect("a file without a token");
    assert_eq!(left.entries(), &file.entries()[1..]);
    let Ok(with) = add_token(&without, first) else { return };
    let again = TokenFile::parse(&with).expect("a file with a token");
    let added = again.entries().last().expect("a token");
    assert_eq!((&added.name, added.hash), (&first.name, first.hash));
}

#[test]
fn token_file() {
    let hash = |digit: char| digit.to_string().repeat(64);
    let entry = |name: &str, digit| {
        format!("[[tokens]] # {SECRET}\nname = \"{name}\"\nsha256 = \"{}\"\n", hash(digit))
    };
    let long = format!("{}tenant = \"t\"\nexpires = 2027-01-31T12:00:00Z\n", entry("a", '1'));
    let seeds = [
        long.clone() + &entry("b", '2'),
        format!("tokens = [{{ name = \"a\", sha256 = \"{}\" }}]\n", hash('3')),
        format!("{long}capstan_{SECRET}\n"),
        format!("[[tokens]]\nname = \"a\"\nsha256 = \"{SECRET}\"\n"),
    ];
    let seeds = seeds.into_iter().map(String::into_bytes).collect();
    let (name, words, check) = ("token_file", TOML_WORDS, check_token_file as fn(&[u8]));
    Target { name, seeds, words, check, cases: 5_000, memory: TREE }.run();
}

fn policy() -> JwtPolicy {
    let (issuer, audience) = (ISSUER.to_owned(), AUDIENCE.to_owned());
    JwtPolicy { issuer, audience, tenant_claim: "tenant".to_owned() }
}

fn check_key_set(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(verifier) = JwtVerifier::new(policy(), text) else { return };
    // Nothing is accepted without a signature by one of its keys.
    let forged = hs256_token("ES256", input, &claims());
    assert!(verifier.verify(forged.as_bytes(), SystemTime::now()).is_err());
}

#[test]
fn jwt_key_set() {
    let keys = [SigningKey::es256(), SigningKey::eddsa(), SigningKey::rs256()];
    let seeds = vec![
        key_set(keys.iter().map(|key| key.jwk(key.algorithm()))).into_bytes(),
        key_set([keys[0].jwk("a")]).into_bytes(),
    ];
    let words = &["\"alg\":\"HS256\"", "\"kty\":\"oct\",\"k\":\"AAAA\"", "\"use\":\"enc\",", "{}"];
    let (name, check) = ("jwt_key_set", check_key_set as fn(&[u8]));
    Target { name, seeds, words, check, cases: 5_000, memory: TREE }.run();
}

struct Issued {
    verifier: JwtVerifier,
    tokens: Vec<String>,
}

thread_local! {
    static ISSUED: LazyCell<Issued> = LazyCell::new(|| {
        let keys = [SigningKey::es256(), SigningKey::eddsa()];
        let set = key_set(keys.iter().map(|key| key.jwk(key.algorithm())));
        let verifier = JwtVerifier::new(policy(), &set).expect("two keys");
        let tokens = keys.iter().map(|key| key.token(key.algorithm(), &claims()));
        Issued { verifier, tokens: tokens.collect() }
    });
}

/// What a token says, without its signature.
fn signed_part(token: &[u8]) -> &[u8] {
    &token[..token.iter().rposition(|byte| *byte == b'.').unwrap_or(0)]
}

fn check_jwt(input: &[u8]) {
    ISSUED.with(|issued| match issued.verifier.verify(input, SystemTime::now()) {
        Ok(caller) => {
            assert_eq!(&*caller.subject, "jwt:ada");
            let signed = |token: &String| signed_part(token.as_bytes()) == signed_part(input);
            assert!(issued.tokens.iter().any(signed), "a token that nobody has signed");
        }
        Err(problem) => {
            assert_ne!(problem, CredentialProblem::Missing);
            assert_harmless(&problem);
        }
    });
}

#[test]
fn jwt() {
    let bytes = |issued: &LazyCell<Issued>| {
        issued.tokens.iter().map(|token| token.clone().into_bytes()).collect()
    };
    let seeds = ISSUED.with(bytes);
    let words = &[".", "..", "=", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", "{}"];
    let memory = MemoryBound { per_byte: 512, always: 1 << 20 };
    Target { name: "jwt", seeds, words, check: check_jwt, cases: 3_000, memory }.run();
}

fn check_certificate(input: &[u8]) {
    match certificate_name(&input.to_vec().into()) {
        Ok(name) => assert!(is_valid_name(&name)),
        Err(problem) => assert_eq!(problem, CredentialProblem::UnnamedCertificate),
    }
}

#[test]
fn certificates() {
    let names = ["a.example", "*.example", "b.example"].map(|name| name.try_into().expect("ASCII"));
    let uri = "spiffe://example.org/prover".try_into().expect("ASCII");
    let mut sans: Vec<_> = names.into_iter().map(SanType::DnsName).collect();
    let certificate = |sans: &[SanType]| {
        let mut params = CertificateParams::default();
        params.subject_alt_names = sans.to_vec();
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    };
    let first = certificate(&sans);
    sans.push(SanType::URI(uri));
    let seeds = vec![first, certificate(&sans)];
    let (name, check) = ("certificates", check_certificate as fn(&[u8]));
    Target { name, seeds, words: &["spiffe://"], check, cases: 10_000, memory: SMALL }.run();
}

thread_local! {
    static FILE: LazyCell<NamedTempFile> =
        LazyCell::new(|| NamedTempFile::new().expect("a file"));
}

/// Calls `read` with a file of these bytes.
pub fn with_file<T>(bytes: &[u8], read: impl FnOnce(&std::path::Path) -> T) -> T {
    FILE.with(|file| {
        // Some file systems wait for their disk if a file is emptied first.
        file.as_file().write_all_at(bytes, 0).expect("a file");
        file.as_file().set_len(bytes.len() as u64).expect("a file");
        read(file.path())
    })
}

fn check_tenants(input: &[u8]) {
    match with_file(input, read_tenants) {
        Ok(tenants) => {
            for tenant in &tenants {
                assert!((1..=1000).contains(&tenant.limits.weight));
                let seconds = tenant.limits.device_seconds_per_minute;
                assert!(seconds.is_none_or(|seconds| seconds.is_finite() && seconds > 0.0));
            }
            let mut names: Vec<_> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
            names.dedup();
            assert_eq!(names.len(), tenants.len(), "two tenants of one name");
        }
        // A problem of each tenant.
        Err(error) => assert!(error.to_string().len() <= (64 << 10) + 32 * input.len()),
    }
}

#[test]
fn tenants_file() {
    let seeds = vec![
        b"[tenants.default]\nweight = 4\nbytes_in_flight_max = \"2 GiB\"\njobs_max = 7\n\
          callers = [\"uid:7\", \"cert:a\"]\ndevice_seconds_per_minute = 1.5\n"
            .to_vec(),
        b"[tenants.a]\nstore_bytes_max = 4096\n[tenants.b-1]\nconnections_max = 2\n".to_vec(),
    ];
    let (name, words, check) = ("tenants_file", TOML_WORDS, check_tenants as fn(&[u8]));
    let memory = MemoryBound { per_byte: 2048, always: 1 << 20 };
    Target { name, seeds, words, check, cases: 3_000, memory }.run();
}
