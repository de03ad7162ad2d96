//! What the builder and the checks before a run refuse.

use ark_ff::{One, Zero};
use capstan::client::{
    ClientError, Fr, NttTransform, ProgramBuilder, ProgramRun, ScalarEncoding, ScalarInput,
    UploadKey, VectorValue,
};

use crate::client_programs::{ProgramFixture, common::scalars, message};

#[test]
fn values_have_the_shapes_of_their_steps() {
    let mut program = ProgramBuilder::new();
    let f = program.input_rows(3, 10).unwrap();
    let shape = |value: VectorValue| (value.rows(), value.length());
    assert_eq!(shape(f), (3, 10));
    let constant = program.constant(&scalars(5)).unwrap();
    assert_eq!(shape(constant), (1, 5));
    assert_eq!(shape(program.powers(Fr::one(), Fr::from(3), 7).unwrap()), (1, 7));
    let padded = NttTransform { lg_n: Some(4), ..NttTransform::forward() };
    let wide = program.ntt(f, padded).unwrap();
    assert_eq!(shape(wide), (3, 16));
    assert_eq!(shape(program.ntt(wide, NttTransform::inverse()).unwrap()), (3, 16));
    assert_eq!(shape(program.slice(f, 2, 4).unwrap()), (3, 4));
    assert_eq!(shape(program.concat(&[f, wide]).unwrap()), (3, 26));
    assert_eq!(shape(program.pad(f, 12).unwrap()), (3, 12));
    assert_eq!(shape(program.evaluate(f, Fr::one()).unwrap()), (3, 1));
    for same in [
        program.add(f, f).unwrap(),
        program.subtract(f, f).unwrap(),
        program.multiply(f, f).unwrap(),
        program.multiply_add(f, f, f).unwrap(),
        program.multiply_subtract(f, f, f).unwrap(),
        program.invert(f).unwrap(),
        program.scale(f, Fr::from(2)).unwrap(),
        program.divide_by_linear(f, Fr::one()).unwrap(),
        program.linear_combination(&[f, f], &[Fr::one(), Fr::from(2)]).unwrap(),
    ] {
        assert_eq!(shape(same), (3, 10));
    }
    assert_eq!(shape(program.divide_by_vanishing(wide, 4, Fr::from(7)).unwrap()), (3, 16));
    assert_eq!(program.build().unwrap().steps(), 19);
}

#[test]
fn a_wrong_step_is_refused_with_its_path() {
    let mut program = ProgramBuilder::new();
    let (f, g) = (program.input(10).unwrap(), program.input_rows(2, 8).unwrap());
    let mut refused = |add: &dyn Fn(&mut ProgramBuilder) -> Result<VectorValue, ClientError>| {
        let error = add(&mut program).unwrap_err();
        assert_eq!(error.step(), Some(2), "{error}");
        error.to_string().strip_prefix("program.steps[2].").unwrap().to_owned()
    };
    for (expected, step) in [
        ("ntt.input: wrong length: expected 16, got 10", &|p| p.ntt(f, NttTransform::forward())),
        ("ntt.lg_n: must be at most 32", &|p| {
            p.ntt(f, NttTransform { lg_n: Some(33), ..NttTransform::forward() })
        }),
        ("ntt.coset_generator: must not be zero", &|p| {
            p.ntt(g, NttTransform { coset: Some(Fr::zero()), ..NttTransform::forward() })
        }),
        ("pointwise.inputs[1]: wrong number of rows: expected 1, got 2", &|p| p.add(f, g)),
        ("linear_combination.factors: wrong length: expected 1, got 0", &|p| {
            p.linear_combination(&[f], &[] as &[Fr])
        }),
        ("slice.length: must be at most 8", &|p| p.slice(f, 2, 9)),
        ("concat.inputs: is required", &|p| p.concat(&[])),
        ("pad.length: must be at least 10", &|p| p.pad(f, 9)),
        ("divide_by_vanishing.input: wrong length: expected 8, got 10", &|p| {
            p.divide_by_vanishing(f, 3, Fr::from(7))
        }),
        ("constant.elements: too long: at most 1024, got 1025", &|p| p.constant(&scalars(1025))),
        ("input.rows: must not be zero", &|p| p.input_rows(0, 1)),
        ("pointwise.inputs[0]: is a value of another program", &|p| {
            p.invert(ProgramBuilder::new().input(4)?)
        }),
    ]
        as [(&str, &dyn Fn(&mut ProgramBuilder) -> Result<VectorValue, ClientError>); 12]
    {
        assert_eq!(refused(step), expected);
    }
    // A refused step leaves the program as it was.
    assert_eq!(program.build().unwrap().steps(), 2);
    assert_eq!(message(ProgramBuilder::new().build()), "program.steps: is required");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_msm_must_not_need_more_bases_than_there_are() {
    let fixture = ProgramFixture::new().await;
    let mut program = ProgramBuilder::new();
    let f = program.input_rows(3, 10).unwrap();
    let few = fixture.bases.slice(60, 4).unwrap();
    let refused = message(program.msm(&few, f));
    assert_eq!(refused, "program.steps[1].msm.input: too long: at most 4, got 10");
    assert_eq!(program.msm(&fixture.bases, f).unwrap().count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_do_not_suit_the_program_are_refused_before_they_are_sent() {
    let fixture = ProgramFixture::new().await;
    let mut program = ProgramBuilder::new();
    let (f, g) = (program.input(4).unwrap(), program.input(4).unwrap());
    let sum = program.add(f, g).unwrap();
    let program = program.build().unwrap();
    let other = ProgramBuilder::new().input(4).unwrap();
    // Released: a call would be refused with another error.
    let (four, gone) = (scalars(4), UploadKey([7; 16]));
    let run = || ProgramRun::new(&program);
    let narrow = ScalarInput::Bytes { encoding: ScalarEncoding::Unsigned(1), bytes: &[1, 2, 3, 4] };
    for (expected, run) in [
        ("outputs: is required", run().input(f, &four).input(g, gone)),
        ("program.steps[1].input: is required", run().input(f, &four).send(sum)),
        (
            "inputs[1]: wrong length: expected 4, got 3",
            run().input(g, &four[1..]).input(f, &four).send(sum),
        ),
        ("inputs[1]: is a value of another program", run().input(f, gone).input(other, &four)),
        ("outputs[0]: is a value of another program", run().input(f, gone).send(other)),
        ("program.steps[2].pointwise: is not an input of the program", run().input(sum, &four)),
        (
            "inputs[0]: must have a 32-byte encoding: not only MSMs read this input",
            run().input(f, narrow.clone()).input(g, gone).send(sum),
        ),
    ] {
        let refused = fixture.client.run(run).await;
        assert!(matches!(refused, Err(ClientError::InvalidProgram { .. })), "{refused:?}");
        assert_eq!(message(refused), expected);
    }
}
