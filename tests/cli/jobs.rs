//! `capstan msm`, `capstan ntt` and `capstan bench`.

use std::fs;

use ark_bls12_381::{Fr, G1Affine};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_serialize::CanonicalSerialize;
use capstan::server::ServerSettings;
use serde_json::Value;

use crate::cli::{
    CliFixture, canonical,
    common::{points, scalars, serve},
    msm, run,
};

#[test]
fn msms_equal_arkworks() {
    let cli = CliFixture::new();
    let (points, scalars) = (points::<G1Affine>(50), scalars(100));
    let id = cli.put(&points);
    let (first, second) = (msm(&points, &scalars[..50]), msm(&points, &scalars[50..]));
    let file = cli.file("scalars", canonical(&scalars[..50]));
    assert_eq!(cli.ok(&["msm", "--bases", &id, "--scalars", &file]).points(), [first]);
    let verified = cli.ok(&["msm", "--bases", &id, "--scalars", &file, "--verify", "-v"]);
    assert!(verified.err.contains("verified: full"), "{}", verified.err);
    let two = cli.file("two", canonical(&scalars));
    let line = ["msm", "--bases", &id, "--scalars", &two, "--batch", "2"];
    assert_eq!(cli.ok(&line).points(), [first, second]);
    let json = cli.json(&line);
    assert_eq!(json["points"].as_array().unwrap().len(), 2);
    assert_eq!(json["execution"]["engine"], "cpu");
    assert!(json["timing"]["total_us"].as_u64().unwrap() > 0);
    // A range of the bases.
    let ten = canonical(&scalars[..10]);
    let line = ["msm", "--bases", &id, "--scalars", "-", "--offset", "5", "--length", "10"];
    let done = cli.run_with(&line, &ten);
    assert_eq!(done.points(), [msm(&points[5..15], &scalars[..10])]);
}

#[test]
fn results_are_written_in_every_encoding() {
    let cli = CliFixture::new();
    let (points, scalars) = (points::<G1Affine>(7), scalars(7));
    let id = cli.put(&points);
    let expected = msm(&points, &scalars);
    let file = cli.file("scalars", canonical(&scalars));
    let out = cli.path("sum").display().to_string();
    let line = ["msm", "--bases", &id, "--scalars", &file];
    let mut compressed = Vec::new();
    expected.serialize_compressed(&mut compressed).unwrap();
    assert_eq!(cli.ok(&[&line[..], &["--raw"]].concat()).out, compressed);
    let quiet = cli.ok(&[&line[..], &["-q"]].concat());
    assert_eq!((quiet.text(), quiet.err.as_str()), (hex::encode(&compressed) + "\n", ""));
    let mut uncompressed = Vec::new();
    expected.serialize_uncompressed(&mut uncompressed).unwrap();
    cli.ok(&[&line[..], &["--result", "uncompressed", "--out", &out]].concat());
    assert_eq!(fs::read(&out).unwrap(), uncompressed);
    cli.ok(&[&line[..], &["--result", "projective", "--out", &out]].concat());
    let encoding = capstan::client::SumEncoding::Projective;
    let read = capstan::curve::points::decode_sums::<G1Affine>(encoding, &fs::read(&out).unwrap());
    assert_eq!(read.unwrap(), [expected]);
}

#[test]
fn scalars_are_read_in_every_format() {
    let cli = CliFixture::new();
    let points = points::<G1Affine>(3);
    let id = cli.put(&points);
    let (one, two, minus) = (Fr::from(1), Fr::from(2), -Fr::from(3));
    let expect = |format: &str, content: &[u8], values: [Fr; 3]| {
        let line = ["msm", "--bases", &id, "--scalars", "-", "--encoding", format];
        let done = cli.run_with(&line, content);
        assert_eq!(done.code, 0, "{format}: {}", done.err);
        assert_eq!(done.points(), [msm(&points, &values)], "{format}");
    };
    let negative = [one, two, minus];
    expect("decimal", b"1\n2\n-3\n", negative);
    expect("hex", b"0x1 2\n0003", [one, two, -minus]);
    expect("canonical", &canonical(&negative), negative);
    let mut big_endian = canonical(&negative);
    big_endian.chunks_exact_mut(32).for_each(<[u8]>::reverse);
    expect("big-endian", &big_endian, negative);
    let limbs = negative.map(|value| value.0.0.map(u64::to_le_bytes).concat()).concat();
    expect("montgomery", &limbs, negative);
    expect("u8", &[1, 2, 3], [one, two, -minus]);
    expect("i8", &[1, 2, 0xfd], negative);
    expect("u32", &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0], [one, two, -minus]);
    expect("i128", &[1_i128, 2, -3].map(i128::to_le_bytes).concat(), negative);
}

#[test]
fn ntts_equal_arkworks() {
    let cli = CliFixture::new();
    let row = scalars(64);
    let domain = Radix2EvaluationDomain::<Fr>::new(64).unwrap();
    let file = cli.file("row", canonical(&row));
    let out = cli.path("out").display().to_string();
    cli.ok(&["ntt", &file, "--out", &out, "--verify"]);
    assert_eq!(fs::read(&out).unwrap(), canonical(&domain.fft(&row)));
    // A round trip over a coset, in bit-reversed order, through standard streams.
    let forward = ["ntt", "-", "--coset", "7", "--output-order", "bit-reversed"];
    let forward = cli.run_with(&forward, &canonical(&row));
    let coset = domain.get_coset(Fr::from(7)).unwrap().fft(&row);
    assert_eq!(forward.out[32..64], canonical(&coset[32..33]));
    let back = ["ntt", "-", "--coset", "0x7", "--input-order", "bit-reversed", "--inverse"];
    assert_eq!(cli.run_with(&back, &forward.out).out, canonical(&row));
    // Text input gives text output; `--pad` extends short rows with zeros.
    let padded = cli.run_with(&["ntt", "-", "--encoding", "decimal", "--pad"], b"1 2 3");
    let four = Radix2EvaluationDomain::<Fr>::new(4).unwrap();
    let expected = four.fft(&[1, 2, 3].map(Fr::from));
    let lines: Vec<_> = expected.iter().map(Fr::to_string).collect();
    assert_eq!(padded.text().lines().collect::<Vec<_>>(), lines);
    let wider = cli.run_with(&["ntt", "-", "--encoding", "hex", "--pad=5", "--batch", "2"], b"1 2");
    assert_eq!(wider.text().lines().count(), 64);
    // Without an output, the input is not even read.
    cli.fails(&["ntt", "/nonexistent", "--json"], 2, &["--out"]);
    let report = cli.json(&["ntt", &file, "--out", &out, "--verify=full"]);
    assert_eq!((&report["lg_n"], &report["execution"]["verified"]), (&6.into(), &"full".into()));
}

#[test]
fn ntts_over_fields_of_31_bits_take_4_bytes_an_element() {
    let cli = CliFixture::new();
    let babybear = ["ntt", "-", "--field", "babybear"];
    let with =
        |more: &[&'static str], input: &[u8]| cli.run_with(&[&babybear, more].concat(), input);
    let decimal = with(&["--encoding", "decimal", "--verify"], b"1 2");
    assert_eq!(decimal.text(), "3\n2013265920\n");
    let hex = with(&["--encoding", "hex", "--pad=1"], b"0xff");
    assert_eq!(hex.text(), "0x000000ff\n0x000000ff\n");
    let row: Vec<u8> = (0..16_u32).flat_map(u32::to_le_bytes).collect();
    let transformed = with(&["--coset", "1f", "--output-order", "bit-reversed"], &row).out;
    let back = ["--coset", "1f", "--input-order", "bit-reversed", "--inverse", "--verify=full"];
    assert_eq!(with(&back, &transformed).out, row);
    let reduced = with(&["--encoding", "decimal", "--reduce"], b"2013265922");
    assert_eq!(reduced.text(), "1\n");
    let file = cli.file("large", b"5 2013265921");
    let large = ["ntt", &file, "--field", "babybear", "--encoding", "decimal"];
    cli.fails(&large, 65, &["input[1]", "not canonical"]);
    let large = ["ntt", &file, "--field", "babybear", "--encoding", "u8"];
    cli.fails(&large, 2, &["2^31 take the encodings"]);
    let file = cli.file("half", vec![0; 6]);
    cli.fails(&["ntt", &file, "--field", "7340033"], 65, &["4-byte scalars"]);
}

#[test]
fn bench_keeps_vectors_in_shared_memory() {
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("capstan.sock");
    let target = format!("unix:{}", socket.display());
    let settings = ServerSettings { unix_socket: Some(socket), ..ServerSettings::default() };
    let cli = CliFixture::with(serve(settings));
    for op in ["msm", "ntt"] {
        let line = ["bench", "--shared", "--op", op, "--sizes", "3,8", "--repeats", "2"];
        let done = run(&target, &line, &[]);
        assert_eq!(done.code, 0, "{}", done.err);
    }
    cli.fails(&["bench", "--shared", "--sizes", "3"], 2, &["no memory", "--server unix:"]);
}

#[test]
fn bench_measures_verifies_and_plots() {
    let cli = CliFixture::new();
    let plot = cli.path("plot.svg");
    for group in ["g1", "g2"] {
        let json = cli.json(&[
            "bench",
            "--group",
            group,
            "--sizes",
            "0,4..5",
            "--concurrency",
            "1,3",
            "--repeats",
            "2",
            "--plot",
            &plot.display().to_string(),
        ]);
        let samples = json["samples"].as_array().unwrap();
        let shapes: Vec<_> = samples.iter().map(|s| (&s["lg_n"], &s["concurrency"])).collect();
        assert_eq!(shapes.len(), 6);
        assert_eq!(shapes[3], (&4.into(), &3.into()));
        assert!(samples.iter().all(|s| s["jobs"] == s["concurrency"].as_u64().unwrap() * 2));
        assert!(samples.iter().all(|s| s["p50_us"].as_f64() > Some(0.0)));
        assert!(fs::read_to_string(&plot).unwrap().contains("concurrency 3"));
    }
    let text = cli.ok(&["bench", "--op", "ntt", "--sizes", "8", "--duration", "100ms"]).text();
    for word in ["NTT over Fr", "2^8", "p99", "elements/s", "every result was checked"] {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    // The bench leaves no bases behind.
    assert_eq!(cli.json(&["bases", "list"]), Value::Array(vec![]));
}
