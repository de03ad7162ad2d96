//! `kernels/ntt31`: transforms in device memory, compared with those of the CPU.

use capstan::{
    curve::NttPlan,
    device::DeviceFault,
    engine::{JobControl, MsmNttEngine, cpu::CpuEngine},
    error::{FieldProblem, InputError},
    field::{Element31, Field31, Prime31, VectorElements},
    ntt31::{Cut31, Ntt31Device},
};
use rand::Rng;

use crate::{
    elements::rng,
    gpu::{KernelRig, each_seed},
};

const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Every direction and order.
fn transforms(lg_n: u32, coset: Option<Element31>) -> impl Iterator<Item = NttPlan<Element31>> {
    (0..8).map(move |bits| NttPlan {
        lg_n,
        inverse: bits & 1 != 0,
        coset,
        input_reversed: bits & 2 != 0,
        output_reversed: bits & 4 != 0,
    })
}

/// Random rows that begin and end with the largest element.
pub(crate) fn random_rows(field: Field31, lg_n: u32, rows: usize) -> Vec<Vec<Element31>> {
    let mut rng = rng();
    let mut row = || {
        let mut row: Vec<_> = (0..1 << lg_n).map(|_| field.element(rng.random())).collect();
        row[0] = field.montgomery_element(field.modulus() - 1).unwrap();
        row[(1 << lg_n) - 1] = row[0];
        row
    };
    (0..rows).map(|_| row()).collect()
}

pub(crate) struct Case<'a> {
    pub rig: &'a KernelRig,
    pub device: &'a Ntt31Device,
    pub cpu: &'a CpuEngine,
    pub field: Field31,
}

impl Case<'_> {
    /// Shared memory that a block may have.
    fn shared_bytes_max(&self) -> u32 {
        self.rig.gpu().identity().limits.block_shared_bytes
    }

    /// Runs the passes that suit the rows.
    fn agrees(&self, transform: &NttPlan<Element31>, rows: &[Vec<Element31>]) {
        let rows_count = rows.len() as u32;
        let cut = Cut31::of(transform.lg_n, rows_count, self.shared_bytes_max()).unwrap();
        self.agrees_in_passes(cut, transform, rows);
    }

    fn agrees_in_passes(
        &self,
        cut: Cut31<'_>,
        transform: &NttPlan<Element31>,
        rows: &[Vec<Element31>],
    ) {
        let &Self { rig, device, field, .. } = self;
        let mut expected = rows.to_vec();
        self.cpu.ntt31(field, transform, &mut expected, &JobControl::default()).unwrap();
        let data = rig.upload(&rows.concat());
        let second = rig.lease::<u32>(rows.len() << transform.lg_n);
        let plan = device.plan_cut(field, transform, cut).unwrap();
        let second = plan.needs_second_buffer().then(|| second.all());
        let count = rows.len() as u32;
        let found = device.run(rig.stream(), &plan, data.all(), count, second).unwrap();
        let found = rig.read::<Element31>(found.cast().unwrap());
        let what = format!("{} {cut:?} {count} rows", field.id());
        let NttPlan { inverse, input_reversed, output_reversed, .. } = *transform;
        let mode = (inverse, transform.coset.is_some(), input_reversed, output_reversed);
        assert!(found == expected.concat(), "{what}, {mode:?}");
    }
}

/// Runs the part of the cases that belongs to the seed.
pub(crate) fn each_case(cases: usize, test: impl Fn(usize, &Case<'_>)) {
    cases_if(cases, KernelRig::runs_case, test);
}

pub(crate) fn all_cases(cases: usize, test: impl Fn(usize, &Case<'_>)) {
    cases_if(cases, |_, _| true, test);
}

fn cases_if(
    cases: usize,
    is_chosen: impl Fn(&KernelRig, usize) -> bool,
    test: impl Fn(usize, &Case<'_>),
) {
    let cpu = CpuEngine::new(1).unwrap();
    each_seed(|rig| {
        let device = Ntt31Device::load(rig.gpu(), TABLE_BYTES_MAX).unwrap();
        for number in (0..cases).filter(|number| is_chosen(rig, *number)) {
            let field = Field31::new(Prime31::ALL[number % Prime31::ALL.len()]);
            test(number, &Case { rig, device: &device, cpu: &cpu, field });
        }
    });
}

#[test]
fn every_size_order_direction_and_coset_is_transformed_as_on_the_cpu() {
    // More rows than a tile has lanes.
    each_case(12 * Prime31::ALL.len(), |number, case| {
        let (lg_n, field) = ((number / Prime31::ALL.len()) as u32, case.field);
        let rows = random_rows(field, lg_n, if lg_n < 7 { 37 } else { 3 });
        for coset in [None, Some(field.generator())] {
            let wanted = |bits: &usize| lg_n < 9 || (bits + number).is_multiple_of(3);
            for (_, transform) in transforms(lg_n, coset).enumerate().filter(|(i, _)| wanted(i)) {
                case.agrees(&transform, &rows);
            }
        }
    });
}

#[test]
fn every_kernel_transforms_as_on_the_cpu() {
    let narrow: [&[u32]; 6] = [&[11], &[12], &[6, 8], &[7, 8], &[8, 8], &[8, 9]];
    let wide: [&[u32]; 10] =
        [&[8], &[9], &[10], &[11], &[12], &[13], &[14], &[8, 8], &[9, 8], &[10, 8]];
    let narrow = narrow.map(|lg_radices| Cut31 { lg_radices, is_wide: false });
    let wide = wide.map(|lg_radices| Cut31 { lg_radices, is_wide: true });
    let cuts: Vec<_> = narrow.into_iter().chain(wide).collect();
    each_case(cuts.len(), |number, case| {
        let (cut, field) = (cuts[number], case.field);
        let lg_n = cut.lg_radices.iter().sum();
        let has_kernels = cut.shared_bytes() <= case.shared_bytes_max();
        if lg_n > field.id().two_adicity() || !has_kernels {
            return;
        }
        // More rows than a tile has, except for long ones.
        let rows = random_rows(field, lg_n, if lg_n < 12 { 19 } else { 2 });
        for (coset, step) in [(None, 0), (Some(field.generator()), 1)] {
            let wanted = |bits: &usize| lg_n < 12 || (bits + number + step).is_multiple_of(2);
            for (_, transform) in transforms(lg_n, coset).enumerate().filter(|(i, _)| wanted(i)) {
                case.agrees_in_passes(cut, &transform, &rows);
            }
        }
    });
}

#[test]
fn three_passes_transform_as_on_the_cpu() {
    each_case(1, |_, case| {
        let field = Field31::new(Prime31::BabyBear);
        let case = Case { field, ..*case };
        let rows = random_rows(field, 20, 1);
        let [from_natural, from_reversed] = [false, true].map(|input_reversed| NttPlan {
            lg_n: 20,
            inverse: input_reversed,
            coset: Some(field.generator()),
            input_reversed,
            output_reversed: !input_reversed,
        });
        for transform in [from_natural, from_reversed] {
            let cut = Cut31 { lg_radices: &[6, 6, 8], is_wide: false };
            case.agrees_in_passes(cut, &transform, &rows);
        }
    });
}

#[test]
fn equal_elements_are_transformed_as_on_the_cpu() {
    each_case(Prime31::ALL.len(), |_, case| {
        let field = case.field;
        let largest = field.montgomery_element(field.modulus() - 1).unwrap();
        for (lg_n, element) in
            [(5, Element31::default()), (5, largest), (11, largest), (11, Element31::default())]
        {
            let rows = vec![vec![element; 1 << lg_n]; 2];
            for transform in transforms(lg_n, Some(largest)).take(if lg_n > 5 { 3 } else { 8 }) {
                case.agrees(&transform, &rows);
            }
        }
    });
}

#[test]
fn transforms_that_are_impossible_are_refused() {
    each_case(1, |_, case| {
        let (device, field) = (case.device, case.field);
        let lg_n = field.id().two_adicity() + 1;
        let too_long = transforms(lg_n, None).next().unwrap();
        let max = u64::from(lg_n - 1);
        let refused = device.plan(field, &too_long, 1).err();
        assert_eq!(
            refused,
            Some(DeviceFault::Input(InputError::field("lg_n", FieldProblem::TooLarge { max })))
        );
        let on_zero = transforms(4, Some(Element31::default())).next().unwrap();
        let refused = device.plan(field, &on_zero, 1).err();
        assert_eq!(
            refused,
            Some(DeviceFault::Input(InputError::field("coset", FieldProblem::Zero)))
        );
        let transform = transforms(11, None).next().unwrap();
        let cut = Cut31 { lg_radices: &[5, 6], is_wide: false };
        assert!(matches!(
            device.plan_cut(field, &transform, cut),
            Err(DeviceFault::KernelMismatch { .. })
        ));
        let plan = device.plan(field, &transform, 1).unwrap();
        let data = case.rig.lease::<u32>(1 << 11);
        for rows in [1, 2] {
            // It needs a second buffer, and then more memory.
            assert!(device.run(case.rig.stream(), &plan, data.all(), rows, None).is_err());
        }
    });
}

#[test]
fn tables_return_their_memory_when_they_are_evicted() {
    each_case(1, |_, case| {
        let (device, field) = (case.device, case.field);
        let free_bytes = case.rig.gpu().arena().free_bytes();
        for lg_n in 0..16 {
            for transform in transforms(lg_n, Some(field.generator())) {
                drop(device.plan(field, &transform, 1).unwrap());
                let used_bytes = free_bytes - case.rig.gpu().arena().free_bytes();
                // Small tables take more than their bytes.
                assert!(used_bytes <= 2 * TABLE_BYTES_MAX, "{used_bytes} bytes at 2^{lg_n}");
            }
        }
        device.evict_tables();
        assert_eq!(case.rig.gpu().arena().free_bytes(), free_bytes);
    });
}
