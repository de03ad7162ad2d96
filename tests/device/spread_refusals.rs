//! Which element a program on several GPUs refuses.

use capstan::{
    client::{ClientError, Fr, NttTransform, ProgramBuilder, ProgramRun, ScalarInput},
    curve::{G1Affine, scalars::ScalarEncoding},
};

use crate::{daemon_jobs::MsmData, spread::SpreadServer};

const SHORT: usize = 64;
/// Its GPU is the last one to find an element that is not canonical.
const LONG: usize = 1 << 12;

/// Zeros, of which one may be replaced by bytes that are not canonical.
fn elements(count: usize, bad: Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; 32 * count];
    bad.inspect(|index| bytes[32 * index..][..32].fill(0xff));
    bytes
}

/// A program on several GPUs refuses the element that one GPU would refuse: that of the earliest
/// step, and not that of the GPU that is done first.
pub fn refuses_the_element_of_the_earliest_step(spread: &SpreadServer) {
    let points = MsmData::<G1Affine>::new().points;
    let bases = spread.client.put_bases(&points[..SHORT]).unwrap();
    let mut program = ProgramBuilder::new();
    let inputs = [LONG, SHORT, SHORT].map(|length| program.input(length as u64).unwrap());
    let [x, y, z] = inputs;
    let transforms =
        (0..8).fold(x, |value, _| program.ntt(value, NttTransform::forward()).unwrap());
    let sum = program.msm(&bases, y).unwrap();
    let [of_y, of_z] = [y, z].map(|input| program.evaluate(input, Fr::from(1)).unwrap());
    let program = program.build().unwrap();
    // Elements that only MSMs read are checked by the MSMs, so after those of other inputs.
    for (bad, is_y_decoded, (input, index)) in [
        ([Some(7), None, Some(3)], false, (0, 7)),
        ([Some(9), Some(0), Some(0)], false, (0, 9)),
        ([None, Some(5), None], false, (1, 5)),
        ([None, Some(5), Some(1)], false, (2, 1)),
        ([None, Some(5), Some(1)], true, (1, 5)),
    ] {
        let bytes = [(LONG, bad[0]), (SHORT, bad[1]), (SHORT, bad[2])];
        let bytes = bytes.map(|(count, bad)| elements(count, bad));
        let mut run = ProgramRun::new(&program);
        for (input, bytes) in inputs.into_iter().zip(&bytes) {
            let encoding = ScalarEncoding::Canonical;
            run = run.input(input, ScalarInput::Bytes { encoding, bytes });
        }
        run = run.send(transforms).send_points(sum).send(of_z);
        if is_y_decoded {
            run = run.send(of_y);
        }
        let Err(ClientError::Refused(refusal)) = spread.client.run(run) else {
            panic!("accepted {bad:?}")
        };
        let field = format!("program.steps[{input}].input.elements");
        assert_eq!(refusal.reason_text, "NOT_CANONICAL");
        assert_eq!((refusal.field, refusal.index), (Some(field), Some(index)), "{bad:?}");
    }
}
