//! The kernels of a product of two polynomials of 131072 coefficients over BabyBear, in device
//! memory and without the host's part. The first product is checked at a random point.

use capstan::{
    engine::JobControl,
    field::{Element31, Field31, Prime31, VectorElements},
    ntt::table_bytes_max,
    ntt31::{Ntt31Device, Product31Rows, ShortRows},
    verify::{CheckedProduct, verify_product31},
};

use crate::{
    record::{Record, TimeFigure},
    rig::{BenchRig, Random},
};

const LG_N: u32 = 17;
const RUNS: u32 = 50;

pub fn measure(rig: &BenchRig, record: &mut Record) {
    let transforms = Ntt31Device::load(&rig.gpu, table_bytes_max(rig.gpu.arena().bytes()))
        .unwrap_or_else(|reason| panic!("{reason}"));
    let (field, lg_n) = (Field31::new(Prime31::BabyBear), rig.size(LG_N, 9));
    let n = 1_usize << lg_n;
    let mut random = Random(u64::from(lg_n));
    let factors: [Vec<Element31>; 2] =
        [(); 2].map(|()| (0..n).map(|_| field.element(random.next() as u32)).collect());
    let leases = factors.each_ref().map(|factor| {
        let lease = rig.lease::<u32>(n);
        rig.put(lease.all::<Element31>(), factor);
        lease
    });
    let (of_a, of_b, out) =
        (rig.lease::<u32>(2 * n), rig.lease::<u32>(2 * n), rig.lease::<u32>(2 * n - 1));
    let plan = transforms.plan_product(field, lg_n + 1, None, 1).expect("a plan");
    let [needs_a, needs_b] = plan.needs(false);
    let rows = |words, length: usize| ShortRows { words, length: length as u32 };
    let data = Product31Rows {
        a: rows(leases[0].all(), n),
        b: Some(rows(leases[1].all(), n)),
        transforms: [needs_a.then(|| of_a.all()), needs_b.then(|| of_b.all())],
        out: rows(out.all(), 2 * n - 1),
        rows: 1,
    };
    let multiply = || transforms.multiply(&rig.stream, &plan, data);
    multiply().expect("a launch");
    let product: Vec<Element31> = rig.get(out.all());
    let [a, b] = factors.each_ref().map(Vec::as_slice);
    let checked = CheckedProduct { a, b, product: &product, modulus: None };
    let is_right = verify_product31(field, &checked, &JobControl::default());
    assert_eq!(is_right, Ok(true), "the product is wrong");
    let times = rig.times_of_graph(rig.size(RUNS, 1), multiply);
    let how = plan.to_string();
    let time = TimeFigure { op: "poly_mul", mode: "device", lg_n, batch: 1, times, how };
    record.record_us(field.id().name(), &time);
}
