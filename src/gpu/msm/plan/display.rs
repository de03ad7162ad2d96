//! The text of a plan, for people.

use std::fmt::{self, Display, Formatter};

use super::{MsmPassPlan, Recoding};

/// Prints the windows and tables, and bucket sets and passes if there are several.
impl Display for MsmPassPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let windows = &self.windows;
        match windows {
            Recoding::Fixed(fixed) => write!(f, "{} windows of {} bits", fixed.count, fixed.bits)?,
            Recoding::Radix(radix) => {
                let (factor, doublings) = (radix.factor, radix.doublings);
                write!(f, "{} windows of radix {factor} x 2^{doublings}", radix.count)?
            }
            Recoding::Sliding(sliding) => write!(f, "sliding windows of {} bits", sliding.bits)?,
        }
        match (windows.tables(), windows.sets()) {
            (1, _) => write!(f, ", no tables")?,
            (tables, 1) => write!(f, ", {tables} tables")?,
            (tables, sets) => write!(f, ", {tables} tables, {sets} bucket sets")?,
        }
        match self.passes().count() {
            _ if self.streamed => write!(f, ", passes as scalars arrive"),
            1 => Ok(()),
            passes => write!(f, ", {passes} passes"),
        }
    }
}
