//! Steps that make vectors, against arkworks.

use ark_ff::{AdditiveGroup, BigInteger, FftField, Field, PrimeField};
use ark_poly::{
    DenseUVPolynomial, EvaluationDomain, Polynomial, Radix2EvaluationDomain,
    univariate::DensePolynomial,
};
use capstan::{
    curve::{Fr, NttPlan},
    field::FieldId,
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        LinearCombinationStep, NttStep, Operation, PadStep, PointwiseOperation, PointwiseStep,
        PrefixProductStep, SliceStep,
    },
    program::ValueId,
};

use crate::rig::{
    Call, CallInput, OutputValue, Rows, constants, natural, powers, random, random_rows, some_of,
};

/// Numbers of rows and lengths: degenerate, and around the pieces in which rows are computed.
const SHAPES: [(usize, usize); 9] =
    [(1, 0), (3, 0), (1, 1), (4, 1), (2, 5), (1, 4095), (1, 4096), (2, 4097), (1, 8200)];

/// Calls `test` with random rows of every shape, with some zeros among them.
fn for_each_shape(test: impl Fn(Rows)) {
    for (seed, (rows, length)) in SHAPES.into_iter().enumerate() {
        let mut input = random_rows(rows, length, seed as u64);
        input.iter_mut().flatten().step_by(7).for_each(|element| *element = Fr::ZERO);
        test(input);
    }
}

/// The rows that `step` makes of `input`.
fn apply<S: Into<Operation>>(input: &Rows, step: impl Fn(ValueId) -> S) -> Rows {
    let mut call = Call::default();
    let value = call.input(input);
    call.rows_of(step(value))
}

fn polynomial(row: &[Fr]) -> DensePolynomial<Fr> {
    DensePolynomial::from_coefficients_slice(row)
}

#[test]
fn inputs_are_read_in_either_encoding_and_reduced_on_request() {
    for_each_shape(|rows| {
        let mut call = Call::default();
        let value = call.input(&rows);
        call.outputs = vec![value, value];
        assert!(call.outputs().into_iter().all(|output| output == OutputValue::Rows(rows.clone())));
    });
    let mut large = Fr::MODULUS;
    assert!(!large.add_with_carry(&5u64.into()));
    let mut call = Call::default();
    let value = call.input_step(1, 1);
    let input = CallInput::canonical(&vec![vec![Fr::ZERO]]);
    call.inputs = vec![CallInput { reduce: true, bytes: large.to_bytes_le(), ..input }];
    assert_eq!(call.rows_of(PadStep { input: value, length: 1 }), [[Fr::from(5)]]);
}

#[test]
fn constants_are_part_of_the_program() {
    for length in [0, 1, 1024] {
        let elements = random_rows(1, length, 1).remove(0);
        let step = ConstantStep { field: FieldId::Bls12381Fr, elements: constants(&elements) };
        assert_eq!(Call::default().rows_of(step), [elements]);
    }
}

#[test]
fn powers_are_those_of_the_base() {
    for base in [random(1), Fr::ZERO, Fr::ONE] {
        for first in [random(2), Fr::ZERO, Fr::ONE] {
            for length in [0, 1, 2, 4097] {
                let row = Call::default().rows_of(powers(first, base, length)).remove(0);
                let powers = (0..length).map(|exponent| first * base.pow([exponent]));
                assert!(row == powers.collect::<Vec<_>>(), "{length} powers of {base}");
            }
        }
    }
}

#[test]
fn pointwise_operations_match_their_formulas() {
    type Formula = fn(Fr, Fr, Fr) -> Fr;
    const FORMULAS: [(PointwiseOperation, Formula); 6] = [
        (PointwiseOperation::Add, |a, b, _| a + b),
        (PointwiseOperation::Subtract, |a, b, _| a - b),
        (PointwiseOperation::Multiply, |a, b, _| a * b),
        (PointwiseOperation::MultiplyAdd, |a, b, c| a * b + c),
        (PointwiseOperation::MultiplySubtract, |a, b, c| a * b - c),
        (PointwiseOperation::Invert, |a, _, _| a.inverse().unwrap_or(Fr::ZERO)),
    ];
    for_each_shape(|a| {
        let (b, c) = (random_rows(a.len(), a[0].len(), 50), random_rows(a.len(), a[0].len(), 51));
        let inputs = [&a, &b, &c];
        for (number, (operation, formula)) in FORMULAS.into_iter().enumerate() {
            // All different, and each pair of the same.
            let orders = [[0, 1, 2], [0, 0, 1], [1, 0, 0], [2, 1, 2], [1, 1, 1]];
            for (order_number, order) in orders.into_iter().enumerate() {
                let order = &order[..operation.arity()];
                let mut made = some_of([0, 1, 2], 3, number + order_number).map(|kept| {
                    let mut call = Call::default();
                    let values = inputs.map(|rows| call.input(rows));
                    let inputs = order.iter().map(|input| values[*input]).collect();
                    let made = call.push(PointwiseStep { operation, inputs });
                    // Reads one input later, so that the step overwrites another one.
                    let length = a[0].len() as u64;
                    let read = call.push(PadStep { input: values[kept], length });
                    call.outputs = vec![made, read];
                    call.outputs().remove(0)
                });
                let of = |position: usize, row: usize, index: usize| {
                    order.get(position).map_or(Fr::ZERO, |input| inputs[*input][row][index])
                };
                let expected = |row: usize, index: usize| {
                    formula(of(0, row, index), of(1, row, index), of(2, row, index))
                };
                let row = |row: usize| (0..a[0].len()).map(|i| expected(row, i)).collect();
                let expected: Rows = (0..a.len()).map(row).collect();
                let expected = OutputValue::Rows(expected);
                assert!(made.all(|made| made == expected), "{operation:?} of {order:?}");
            }
        }
    });
}

#[test]
fn linear_combinations_add_multiples() {
    for_each_shape(|first| {
        for count in [1, 2, 5] {
            let mut call = Call::default();
            let more = (1..count).map(|i| random_rows(first.len(), first[0].len(), 60 + i));
            let vectors: Vec<Rows> = std::iter::once(first.clone()).chain(more).collect();
            let mut inputs: Vec<_> = vectors.iter().map(|rows| call.input(rows)).collect();
            // The last vector twice.
            inputs.push(inputs[inputs.len() - 1]);
            let factors = random_rows(1, inputs.len(), 70).remove(0);
            let made = call.rows_of(LinearCombinationStep { inputs, factors: constants(&factors) });
            let mut sum = vec![vec![Fr::ZERO; first[0].len()]; first.len()];
            for (rows, factor) in vectors.iter().chain(vectors.last()).zip(factors) {
                for (sum, element) in sum.iter_mut().flatten().zip(rows.iter().flatten()) {
                    *sum += factor * element;
                }
            }
            assert!(made == sum, "{count} vectors of {} x {}", first.len(), first[0].len());
        }
    });
}

#[test]
fn slices_pads_and_concatenations_move_elements() {
    for_each_shape(|rows| {
        let length = rows[0].len();
        for (offset, taken) in [(0, length), (0, 0), (length, 0), (length / 2, length / 3)] {
            let (offset, length) = (offset as u64, taken as u64);
            let made = apply(&rows, |input| SliceStep { input, offset, length });
            let slice = |row: &Vec<Fr>| row[offset as usize..][..taken].to_vec();
            assert!(made == rows.iter().map(slice).collect::<Rows>());
        }
        for padded in [length, length + 1, 2 * length + 3] {
            let made = apply(&rows, |input| PadStep { input, length: padded as u64 });
            let mut expected = rows.clone();
            expected.iter_mut().for_each(|row| row.resize(padded, Fr::ZERO));
            assert!(made == expected);
        }
        let (second, empty) = (random_rows(rows.len(), 3, 80), random_rows(rows.len(), 0, 0));
        for parts in [vec![&rows], vec![&rows, &second, &rows], vec![&empty, &second, &empty]] {
            let mut call = Call::default();
            let inputs = parts.iter().map(|rows| call.input(rows)).collect();
            let made = call.rows_of(ConcatStep { inputs });
            let row = |row: usize| parts.iter().flat_map(|rows| rows[row].clone()).collect();
            assert!(made == (0..rows.len()).map(row).collect::<Rows>());
        }
    });
}

#[test]
fn polynomials_are_evaluated_and_divided() {
    for_each_shape(|rows| {
        for point in [random(3), Fr::ZERO, Fr::ONE, -Fr::ONE] {
            let made = apply(&rows, |input| EvaluateStep { input, point: point.into() });
            let values = rows.iter().map(|row| vec![polynomial(row).evaluate(&point)]);
            assert!(made == values.collect::<Rows>(), "the values at {point}");
            let made = apply(&rows, |input| DivideByLinearStep { input, point });
            let quotient = |row: &Vec<Fr>| {
                let linear = DensePolynomial::from_coefficients_vec(vec![-point, Fr::ONE]);
                let mut quotient = (&polynomial(row) / &linear).coeffs;
                quotient.resize(row.len(), Fr::ZERO);
                quotient
            };
            assert!(made == rows.iter().map(quotient).collect::<Rows>(), "divided at {point}");
        }
    });
}

#[test]
fn elements_are_multiplied_up() {
    for_each_shape(|rows| {
        let mut rows = rows.to_vec();
        // From a zero on, all products are.
        if let Some(element) = rows.last_mut().and_then(|row| row.get_mut(40)) {
            *element = Fr::ZERO;
        }
        let made = apply(&rows, |input| PrefixProductStep { input });
        let products = |row: &Vec<Fr>| {
            let mut product = Fr::ONE;
            row.iter()
                .map(|element| {
                    product *= element;
                    product
                })
                .collect()
        };
        assert!(made == rows.iter().map(products).collect::<Rows>());
    });
}

#[test]
fn evaluations_are_divided_by_the_vanishing_polynomial() {
    for lg_n in [0, 1, 4, 13] {
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).expect("a domain");
        let rows = random_rows(2, 1 << lg_n, lg_n.into());
        for coset_generator in [Fr::GENERATOR, random(4)] {
            let made = apply(&rows, |input| DivideByVanishingStep { input, lg_n, coset_generator });
            let divisor = domain.evaluate_vanishing_polynomial(coset_generator);
            let divided = |row: &Vec<Fr>| row.iter().map(|element| *element / divisor).collect();
            assert!(made == rows.iter().map(divided).collect::<Rows>(), "2^{lg_n}");
        }
    }
}

#[test]
fn transforms_match_arkworks_and_pad_short_rows() {
    for (rows, lg_n) in [(1, 0), (3, 1), (5, 4), (2, 11), (1, 14)] {
        let n = 1 << lg_n;
        let domain = Radix2EvaluationDomain::<Fr>::new(n).expect("a domain");
        for (number, length) in [0, 1, n / 2 + 1, n].into_iter().enumerate() {
            let input = random_rows(rows, length, 90);
            for (at, coset) in [None, Some(Fr::GENERATOR)].into_iter().enumerate() {
                let domain = domain.get_coset(coset.unwrap_or(Fr::ONE)).expect("a coset");
                for inverse in some_of([false, true], 2, number + at) {
                    let plan = natural(lg_n, inverse, coset);
                    let made = apply(&input, |input| NttStep { input, plan });
                    let transform = |row: &Vec<Fr>| match inverse {
                        false => domain.fft(row),
                        true => domain.ifft(row),
                    };
                    assert!(made == input.iter().map(transform).collect::<Rows>(), "{plan:?}");
                }
            }
        }
    }
}

/// Both orders: the second transform inverts the first one without a bit reversal.
#[test]
fn transforms_keep_the_bit_reversed_order_between_them() {
    let rows = random_rows(2, 64, 91);
    let mut call = Call::default();
    let input = call.input(&rows);
    let forward = natural(6, false, Some(Fr::GENERATOR));
    let forward = NttPlan { output_reversed: true, ..forward };
    let input = call.push(NttStep { input, plan: forward });
    let inverse = natural(6, true, Some(Fr::GENERATOR));
    let plan = NttPlan { input_reversed: true, ..inverse };
    assert_eq!(call.rows_of(NttStep { input, plan }), rows);
}
