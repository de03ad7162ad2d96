//! `ntt31_rows_product` of `kernels/ntt31`: products of polynomials in device memory, compared with
//! those of the CPU's transforms.

use std::{cell::RefCell, collections::BTreeSet};

use capstan::{
    curve::NttPlan,
    device::DeviceLease,
    engine::{JobControl, MsmNttEngine},
    field::{Arithmetic, Element31, Field31, Prime31, VectorElements},
    ntt31::{Product31Rows, ShortRows},
};
use rand::Rng;

use crate::{
    elements::rng,
    ntt31::{Case, all_cases, each_case, random_rows},
};

/// log2 of n, and of the words of all rows for which a product is planned: many words get wide
/// kernels. The last two have passes over columns, too.
const PLANS: [(u32, u32); 15] = [
    (8, 8),
    (9, 9),
    (10, 10),
    (11, 11),
    (12, 12),
    (13, 13),
    (8, 21),
    (9, 21),
    (10, 21),
    (11, 21),
    (12, 21),
    (13, 21),
    (14, 21),
    (14, 14),
    (15, 21),
];

type Rows31 = Vec<Vec<Element31>>;

/// The factors of products, and what the products are.
struct Factors {
    lg_n: u32,
    coset: Option<Element31>,
    a: Rows31,
    /// `None` for squares.
    b: Option<Rows31>,
    expected: Rows31,
}

impl Case<'_> {
    /// Factors of a few coefficients less than n.
    fn factors(&self, lg_n: u32, coset: Option<Element31>, is_square: bool) -> Factors {
        let count = if lg_n < 12 { 19 } else { 2 };
        let shortened = |missing: usize| {
            let mut rows = random_rows(self.field, lg_n, count);
            rows.iter_mut().for_each(|row| row.truncate((1 << lg_n) - missing));
            rows
        };
        let a = shortened(5);
        let b = (!is_square).then(|| shortened(2));
        let expected = self.products(lg_n, coset, &a, b.as_ref().unwrap_or(&a));
        Factors { lg_n, coset, a, b, expected }
    }

    /// The products modulo `X^n - shift^n`, where `shift` is the coset's generator or 1.
    fn products(&self, lg_n: u32, coset: Option<Element31>, a: &Rows31, b: &Rows31) -> Rows31 {
        let transform = |rows: &Rows31, inverse| {
            let mut rows = rows.clone();
            rows.iter_mut().for_each(|row| row.resize(1 << lg_n, Element31::default()));
            let (input_reversed, output_reversed) = (false, false);
            let plan = NttPlan { lg_n, inverse, coset, input_reversed, output_reversed };
            self.cpu.ntt31(self.field, &plan, &mut rows, &JobControl::default()).unwrap();
            rows
        };
        let (mut values, of_b) = (transform(a, false), transform(b, false));
        for (x, y) in values.iter_mut().flatten().zip(of_b.iter().flatten()) {
            *x = self.field.multiply(*x, *y);
        }
        transform(&values, true)
    }

    /// Multiplies by a plan for 2^`lg_words` words. Returns the name of its kernel.
    fn multiplies(&self, lg_words: u32, factors: &Factors) -> String {
        let &Self { rig, device, field, .. } = self;
        let Factors { lg_n, coset, a, b, expected } = factors;
        let plan = device.plan_product(field, *lg_n, *coset, 1 << (lg_words - lg_n)).unwrap();
        let kernel = plan.kernel().unwrap();
        let rows = a.len() as u32;
        // The last coefficients are not wanted.
        let wanted = (1 << lg_n) - 3;
        let (of_a, of_b) = (rig.upload(&a.concat()), b.as_ref().map(|b| rig.upload(&b.concat())));
        let whole = |is_needed: bool| is_needed.then(|| rig.lease::<u32>(a.len() << lg_n));
        let transforms = plan.needs(b.is_none()).map(whole);
        let out = rig.lease::<u32>(a.len() * wanted);
        fn short_rows(words: &DeviceLease, rows: u32) -> ShortRows<'_> {
            let words = words.all();
            ShortRows { words, length: words.len() as u32 / rows }
        }
        let data = Product31Rows {
            a: short_rows(&of_a, rows),
            b: of_b.as_ref().map(|b| short_rows(b, rows)),
            transforms: [0, 1].map(|at| transforms[at].as_ref().map(|lease| lease.all())),
            out: short_rows(&out, rows),
            rows,
        };
        device.multiply(rig.stream(), &plan, data).unwrap();
        let expected = expected.iter().flat_map(|row| &row[..wanted]).copied();
        let (id, has_coset) = (field.id(), coset.is_some());
        let what = format!("{kernel} over {id}, on a coset: {has_coset}");
        assert!(rig.download::<Element31>(&out) == expected.collect::<Vec<_>>(), "{what}");
        kernel
    }

    /// Multiplies words of any size modulo `X^n + 1`.
    fn agrees_on_residues(&self, lg_n: u32, lg_words: u32) {
        let &Self { rig, device, field, .. } = self;
        let mut rng = rng();
        let mut words = [0, 1].map(|_| (0..1 << lg_n).map(|_| rng.random()).collect::<Vec<u32>>());
        words[0][0] = u32::MAX;
        words[1][(1 << lg_n) - 1] = u32::MAX;
        let elements =
            |words: &Vec<u32>| vec![words.iter().map(|word| field.element(*word)).collect()];
        let root = field.root_of_unity(lg_n + 1);
        let product = self.products(lg_n, root, &elements(&words[0]), &elements(&words[1]));
        let expected: Vec<_> = product[0].iter().map(|element| field.value(*element)).collect();
        let plan = device.plan_residues(field, lg_n, true, 1 << (lg_words - lg_n)).unwrap();
        let [a, b] = words.map(|words| rig.upload(&words));
        let whole = |is_needed: bool| is_needed.then(|| rig.lease::<u32>(1 << lg_n));
        let transforms = plan.needs(false).map(whole);
        let out = rig.lease::<u32>(1 << lg_n);
        let [a, b, to] =
            [&a, &b, &out].map(|words| ShortRows { words: words.all(), length: 1 << lg_n });
        let transforms = [0, 1].map(|at| transforms[at].as_ref().map(|lease| lease.all()));
        let data = Product31Rows { a, b: Some(b), transforms, out: to, rows: 1 };
        device.multiply(rig.stream(), &plan, data).unwrap();
        assert!(rig.download::<u32>(&out) == expected, "{:?} over {}", plan.kernel(), field.id());
    }
}

#[test]
fn every_kernel_of_products_multiplies_as_the_cpu() {
    let (reached, loaded) = (RefCell::new(BTreeSet::new()), RefCell::new(BTreeSet::new()));
    all_cases(PLANS.len(), |number, case| {
        let (lg_n, lg_words) = PLANS[number];
        loaded.borrow_mut().extend(case.device.product_kernels());
        for (coset, is_square) in [(None, number % 2 == 0), (Some(case.field.generator()), false)] {
            let factors = case.factors(lg_n, coset, is_square);
            reached.borrow_mut().insert(case.multiplies(lg_words, &factors));
        }
        case.agrees_on_residues(lg_n, lg_words);
    });
    let (reached, loaded) = (reached.into_inner(), loaded.into_inner());
    assert!(loaded.len() > 10, "{loaded:?}");
    assert_eq!(reached, loaded, "a kernel multiplies in no case of this test");
}

#[test]
fn rows_of_more_than_a_million_words_are_multiplied_as_by_the_cpu() {
    each_case(1, |_, case| {
        let case = Case { field: Field31::new(Prime31::BabyBear), ..*case };
        let (lg_n, rows) = (12, 257);
        let a = random_rows(case.field, lg_n, rows);
        let expected = case.products(lg_n, None, &a, &a);
        case.multiplies(21, &Factors { lg_n, coset: None, a, b: None, expected });
    });
}
