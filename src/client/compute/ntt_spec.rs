//! The message of an NTT, and the lengths that it implies.

use capstan_math::{
    curve::scalars::ScalarEncoding,
    error::FieldProblem,
    field::FieldId,
    program::{Constant, InputSpec},
};

use crate::wire::v1;
use crate::{
    NttOptions, convert,
    error::{ClientError, Result},
};

pub(crate) struct NttCallSpec {
    pub message: v1::NttSpec,
    /// The rows that are sent.
    pub input: InputSpec,
    /// Elements to receive: all rows at full size.
    pub received: usize,
}

impl NttCallSpec {
    pub fn new<C: Into<Constant> + Copy>(
        field: FieldId,
        len: usize,
        options: &NttOptions<C>,
        encoding: ScalarEncoding,
    ) -> Result<Self> {
        let wrong_length = |expected: usize, got: usize| {
            Err(ClientError::length("values", expected as u64, got as u64))
        };
        let batch = options.batch.max(1) as usize;
        let row = len / batch;
        if row * batch != len {
            return wrong_length(row * batch, len);
        }
        let lg_n = match options.lg_n {
            Some(lg_n) => lg_n,
            None if row.is_power_of_two() => row.ilog2(),
            None => return wrong_length(row.next_power_of_two(), row),
        };
        if lg_n > field.two_adicity() {
            let problem = FieldProblem::TooLarge { max: field.two_adicity().into() };
            return Err(ClientError::input("lg_n", problem));
        }
        let n = 1_usize << lg_n;
        if row > n {
            return wrong_length(n, row);
        }
        let received =
            n.checked_mul(batch).ok_or(ClientError::input("batch", FieldProblem::OutOfRange))?;
        let coset: Option<Constant> = options.coset.map(Into::into);
        if coset.is_some_and(Constant::is_zero) {
            return Err(ClientError::input("coset", FieldProblem::Zero));
        }
        let coset_generator = coset.map(|generator| generator.to_bytes_le()).unwrap_or_default();
        let message = v1::NttSpec {
            lg_n,
            direction: v1::Direction::from(options.direction).into(),
            coset_generator: coset_generator.into(),
            input_order: v1::Order::from(options.input_order).into(),
            output_order: v1::Order::from(options.output_order).into(),
            batch: options.batch,
            output_encoding: convert::scalar_encoding(encoding)?,
            reduce: options.reduce,
            row_length: (row < n).then_some(row as u64),
            verify: v1::Verify::from(options.verify).into(),
            field: v1::Field::from(field).into(),
        };
        let input = InputSpec { encoding, count: len as u64, reduce: options.reduce };
        Ok(Self { message, input, received })
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldId, NttCallSpec, NttOptions, ScalarEncoding};

    #[test]
    fn refuses_rows_that_are_not_powers_of_two_unless_padded() {
        let spec = |len, options: &NttOptions| {
            NttCallSpec::new(FieldId::Bls12381Fr, len, options, ScalarEncoding::Montgomery)
        };
        let batch = NttOptions { batch: 3, ..NttOptions::default() };
        let NttCallSpec { message, received, .. } = spec(24, &batch).unwrap();
        assert_eq!((message.lg_n, message.row_length, received), (3, None, 24));
        assert!(spec(25, &batch).is_err() && spec(15, &batch).is_err());
        assert!(spec(0, &NttOptions::default()).is_err());
        let padded = NttOptions { lg_n: Some(3), ..batch };
        let NttCallSpec { message, received, .. } = spec(15, &padded).unwrap();
        assert_eq!((message.lg_n, message.row_length, received), (3, Some(5), 24));
        assert!(spec(27, &padded).is_err());
    }
}
