//! Invalid transforms, plans and memory are refused.

use ark_bls12_381::Fr;
use ark_ff::AdditiveGroup;
use capstan::{
    curve::NttPlan,
    device::{DeviceFault, FaultClass},
    error::{FieldProblem, InputError},
    ntt::{LG_N_MAX, NttPass},
};

use crate::rig::{each_seed, edge_elements};

const PLAIN: NttPlan = NttPlan {
    lg_n: 11,
    inverse: false,
    coset: None,
    input_reversed: false,
    output_reversed: false,
};

#[test]
fn invalid_transforms_and_plans_are_refused() {
    each_seed(1 << 20, |rig, _| {
        let long = NttPlan { lg_n: LG_N_MAX + 1, ..PLAIN };
        let max = LG_N_MAX.into();
        let refused = rig.transforms.plan(&long, 1).err();
        assert_eq!(
            refused,
            Some(DeviceFault::Input(InputError::field("lg_n", FieldProblem::TooLarge { max })))
        );
        for lg_n in [0, 3, 11] {
            let zero = NttPlan { lg_n, coset: Some(Fr::ZERO), ..PLAIN };
            let refused = rig.transforms.plan(&zero, 1).err();
            assert_eq!(
                refused,
                Some(DeviceFault::Input(InputError::field("coset", FieldProblem::Zero)))
            );
        }
        let short = vec![NttPass { lg_r: 10, lg_c: 0, lg_e: 2, multiples: 0, fused: false }];
        assert!(matches!(
            rig.transforms.plan_with_passes(&PLAIN, short),
            Err(DeviceFault::KernelMismatch { .. })
        ));
        let odd = vec![NttPass { lg_r: 11, lg_c: 0, lg_e: 1, multiples: 0, fused: false }];
        assert!(matches!(
            rig.transforms.plan_with_passes(&PLAIN, odd),
            Err(DeviceFault::KernelMismatch { .. })
        ));
    });
}

#[test]
fn memory_of_a_wrong_length_is_refused() {
    each_seed(8 << 20, |rig, _| {
        let stream = rig.stream();
        let data = rig.upload(&stream, &edge_elements(2 << PLAIN.lg_n, 1));
        let out = rig.upload(&stream, &edge_elements(3 << PLAIN.lg_n, 2));
        let plan = rig.transforms.plan(&PLAIN, 2).unwrap();
        let run = |rows, to| rig.transforms.run(&stream, &plan, data.all(), rows, to);
        let is_misuse =
            |done: Result<(), DeviceFault>| done.unwrap_err().class() == FaultClass::Misuse;
        assert!(is_misuse(run(2, None)), "this plan cannot run in place");
        assert!(is_misuse(run(2, Some(out.all()))), "the output has another length");
        assert!(is_misuse(run(3, Some(out.all()))), "the input has fewer rows");
        let out = rig.upload(&stream, &edge_elements(2 << PLAIN.lg_n, 2));
        run(2, Some(out.all())).unwrap();
        stream.synchronize().unwrap();
    });
}
