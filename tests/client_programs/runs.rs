//! Small runs.

use ark_ec::VariableBaseMSM;
use ark_ff::{AdditiveGroup, Field, One, PrimeField, Zero};
use ark_poly::{
    DenseUVPolynomial, EvaluationDomain, Polynomial, Radix2EvaluationDomain,
    univariate::DensePolynomial,
};
use capstan::client::{
    Fr, G1Projective, G2Affine, G2Projective, InputElements, NttTransform, Order, ProgramBuilder,
    ProgramRun, RunOptions, ScalarEncoding, ScalarInput, UploadKey, Verification,
    blocking::BlockingClient,
};

use crate::client_programs::{
    ProgramFixture,
    common::{points, scalars, server},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_step_agrees_with_arkworks() {
    let fixture = ProgramFixture::new().await;
    let (a, b, z, g) = (scalars(8), scalars(24)[16..].to_vec(), Fr::from(5), Fr::from(7));
    let each = |compute: &dyn Fn(Fr, Fr) -> Fr| -> Vec<Fr> {
        a.iter().zip(&b).map(|(a, b)| compute(*a, *b)).collect()
    };
    let domain = Radix2EvaluationDomain::<Fr>::new(8).unwrap();
    let coset = domain.get_coset(g).unwrap();
    let polynomial = DensePolynomial::from_coefficients_vec(a.clone());
    let mut quotient = &(&polynomial
        - &DensePolynomial::from_coefficients_vec(vec![polynomial.evaluate(&z)]))
        / &DensePolynomial::from_coefficients_vec(vec![-z, Fr::one()]);
    quotient.coeffs.resize(8, Fr::zero());
    let reversed = |values: Vec<Fr>| [0, 4, 2, 6, 1, 5, 3, 7].map(|index| values[index]).to_vec();
    let mut p = ProgramBuilder::new();
    let (x, y) = (p.input(8).unwrap(), p.input(8).unwrap());
    let forward = NttTransform::forward();
    let bit_reversed = NttTransform { output_order: Order::BitReversed, ..forward };
    let on_coset = NttTransform { coset: Some(g), ..forward };
    let vanishing = (g.pow([8]) - Fr::one()).inverse().unwrap();
    let expected = [
        (p.add(x, y).unwrap(), each(&|a, b| a + b)),
        (p.subtract(x, y).unwrap(), each(&|a, b| a - b)),
        (p.multiply(x, y).unwrap(), each(&|a, b| a * b)),
        (p.multiply_add(x, y, x).unwrap(), each(&|a, b| a * b + a)),
        (p.multiply_subtract(x, y, y).unwrap(), each(&|a, b| a * b - b)),
        (p.invert(x).unwrap(), each(&|a, _| a.inverse().unwrap())),
        (p.scale(x, z).unwrap(), each(&|a, _| a * z)),
        (p.linear_combination(&[x, y], &[z, g]).unwrap(), each(&|a, b| a * z + b * g)),
        (p.ntt(x, forward).unwrap(), domain.fft(&a)),
        (p.ntt(x, NttTransform::inverse()).unwrap(), domain.ifft(&a)),
        (p.ntt(x, on_coset).unwrap(), coset.fft(&a)),
        (p.ntt(x, bit_reversed).unwrap(), reversed(domain.fft(&a))),
        (p.slice(x, 2, 3).unwrap(), a[2..5].to_vec()),
        (p.concat(&[x, y]).unwrap(), [&a[..], &b[..]].concat()),
        (p.pad(x, 9).unwrap(), [&a[..], &[Fr::zero()]].concat()),
        (p.evaluate(x, z).unwrap(), vec![polynomial.evaluate(&z)]),
        (p.divide_by_linear(x, z).unwrap(), quotient.coeffs),
        (p.divide_by_vanishing(x, 3, g).unwrap(), each(&|a, _| a * vanishing)),
        (p.constant(&b).unwrap(), b.clone()),
        (p.powers(z, g, 3).unwrap(), vec![z, z * g, z * g * g]),
        (x, a.clone()),
    ];
    let sum = p.msm(&fixture.bases.slice(3, 20).unwrap(), x).unwrap();
    let program = p.build().unwrap();
    for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
        let mut run = ProgramRun::new(&program).input(x, &a).input(y, &b).send_points(sum);
        for (value, _) in &expected {
            run = run.send(*value);
        }
        let options = RunOptions { verify, ..RunOptions::default() };
        let result = fixture.client.run_with(run, options).await.unwrap();
        for (index, (value, elements)) in expected.iter().enumerate() {
            assert_eq!(result.vector(*value).unwrap(), elements, "value {index}, {verify:?}");
        }
        let expected = G1Projective::msm_unchecked(&fixture.points[3..11], &a);
        assert_eq!(result.points(sum).unwrap(), [expected]);
        assert_eq!(result.execution.verified, verify);
        let operations: Vec<_> = result.steps.iter().map(|step| step.operation.as_str()).collect();
        assert_eq!((operations.len(), operations[0], operations[22]), (23, "input", "msm"));
        assert_eq!(result.steps[22].verified, verify);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_computed_separately_in_both_groups() {
    let fixture = ProgramFixture::new().await;
    let g2 = points::<G2Affine>(10);
    let bases = fixture.client.put_bases(&g2).await.unwrap();
    let rows = scalars(30);
    let mut program = ProgramBuilder::new();
    let f = program.input_rows(3, 10).unwrap();
    let (sums, sums2) = (program.msm(&fixture.bases, f).unwrap(), program.msm(&bases, f).unwrap());
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program).input(f, rows.clone());
    let result = fixture.client.run(run.send_points(sums2).send_points(sums)).await.unwrap();
    let expected: Vec<_> = rows.chunks(10).map(|row| fixture.msm(row)).collect();
    assert_eq!(result.points(sums).unwrap(), expected);
    let in_g2 = |row| G2Projective::msm_unchecked(&g2, row);
    assert_eq!(result.points(sums2).unwrap(), rows.chunks(10).map(in_g2).collect::<Vec<_>>());
    assert!(result.vector(f).is_err() && result.kept(f).is_err(), "was not wanted");
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_taken_in_every_encoding() {
    let fixture = ProgramFixture::new().await;
    let mut program = ProgramBuilder::new();
    let (f, g) = (program.input(2).unwrap(), program.input(1).unwrap());
    let sum = program.msm(&fixture.bases, f).unwrap();
    let program = program.build().unwrap();
    let run = |f_elements: ScalarInput<'static>, g_elements: InputElements<'static>| {
        let run = ProgramRun::new(&program).input(f, f_elements).input(g, g_elements);
        fixture.client.run(run.send_points(sum).send(g))
    };
    let narrow = ScalarInput::Bytes { encoding: ScalarEncoding::Signed(1), bytes: &[3, 0xff] };
    let too_large = ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes: &[0xff; 32] };
    let reduced = InputElements::from(too_large.clone()).reduced();
    let result = run(narrow.clone(), reduced).await.unwrap();
    let expected = fixture.msm(&[Fr::from(3), -Fr::one()]);
    assert_eq!(result.points(sum).unwrap(), [expected]);
    assert_eq!(result.vector(g).unwrap(), [Fr::from_le_bytes_mod_order(&[0xff; 32])]);
    let error = run(narrow, too_large.into()).await.unwrap_err();
    assert_eq!((error.step(), error.index()), (Some(1), Some(0)), "{error}");
    assert_eq!(error.field(), Some("program.steps[1].input.elements"));
    assert_eq!(error.reason_text(), "NOT_CANONICAL");
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_values_are_inputs_of_later_runs_until_they_are_released() {
    let fixture = ProgramFixture::new().await;
    let values = scalars(8);
    let mut first = ProgramBuilder::new();
    let f = first.input(8).unwrap();
    let doubled = first.add(f, f).unwrap();
    let first = first.build().unwrap();
    let run = ProgramRun::new(&first).input(f, &values).keep(doubled).send(doubled);
    let result = fixture.client.run(run).await.unwrap();
    let kept = result.kept(doubled).unwrap();
    assert_eq!(kept.count, 8);
    assert_eq!(result.vector(doubled).unwrap()[3], values[3].double());
    let mut second = ProgramBuilder::new();
    let (all, part) = (second.input(8).unwrap(), second.input(3).unwrap());
    let second = second.build().unwrap();
    let run = || {
        let run = ProgramRun::new(&second).input(all, kept.id).send(all).send(part);
        run.input(part, InputElements::stored(kept.id, 4))
    };
    let result = fixture.client.run(run()).await.unwrap();
    assert_eq!(result.vector(all).unwrap(), values.iter().map(Fr::double).collect::<Vec<_>>());
    assert_eq!(result.vector(part).unwrap(), &result.vector(all).unwrap()[4..7]);
    fixture.client.release_vector(kept.id).await.unwrap();
    assert!(fixture.client.run(run()).await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_program_is_put_again_if_the_server_has_dropped_it() {
    let fixture = ProgramFixture::new().await;
    let mut program = ProgramBuilder::new();
    let f = program.input(1).unwrap();
    let stored = fixture.client.put_program(&program.build().unwrap()).await.unwrap();
    assert_eq!(stored.id(), fixture.client.put_program(&stored).await.unwrap().id());
    let value = [Fr::from(9)];
    let run = || ProgramRun::new(&stored).input(f, &value).send(f);
    assert_eq!(fixture.client.run(run()).await.unwrap().vector(f).unwrap(), value);
    // The server keeps 1024 programs.
    for length in 0..1024 {
        let mut other = ProgramBuilder::new();
        other.input(length).unwrap();
        fixture.client.put_program(&other.build().unwrap()).await.unwrap();
    }
    assert_eq!(fixture.client.run(run()).await.unwrap().vector(f).unwrap(), value);
    // Another object is missing, not the program.
    let gone = ProgramRun::new(&stored).input(f, UploadKey([7; 16])).send(f);
    assert!(fixture.client.run(gone).await.unwrap_err().is_not_found());
}

#[test]
fn the_blocking_client_runs_programs() {
    let server = server();
    let client = BlockingClient::connect(&server.target).unwrap();
    let mut program = ProgramBuilder::new();
    let f = program.input(3).unwrap();
    let sum = program.evaluate(f, Fr::one()).unwrap();
    let program = client.put_program(&program.build().unwrap()).unwrap();
    let elements = [1, 2, 3].map(Fr::from);
    let run = ProgramRun::new(&program).input(f, &elements).send(sum);
    assert!(client.estimate(&run, Verification::None).unwrap().input_bytes > 0);
    assert_eq!(client.run(run).unwrap().vector(sum).unwrap(), [Fr::from(6)]);
}
