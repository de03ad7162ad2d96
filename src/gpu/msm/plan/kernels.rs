//! The kernels that a plan has work for.

use std::collections::BTreeSet;

use super::{MsmPassPlan, Recoding};
use crate::msm::tables;

impl MsmPassPlan {
    /// The names of the kernels that its passes have work for, and of the one that builds its
    /// tables. The kind of windows is included, because kernels that read scalars branch on it.
    ///
    /// A plan whose caller chooses the passes is assumed to have two.
    pub fn kernels(&self) -> BTreeSet<String> {
        let kind = match &self.windows {
            Recoding::Fixed(_) => "fixed windows",
            Recoding::Radix(_) => "radix windows",
            Recoding::Sliding(_) => "sliding windows",
        };
        let mut names = BTreeSet::from([kind.to_owned()]);
        if self.windows.tables() > 1 {
            names.insert(tables::kernel_name(self.job.group));
        }
        let (n, half) = (self.job.n, self.job.n / 2);
        let passes: Vec<_> = match self.streamed {
            true => vec![self.pass_over(0..half), self.pass_over(half..n)],
            false => self.passes().collect(),
        };
        for pass in passes {
            let Some(layout) = self.layout(&pass) else { continue };
            names.extend(layout.sort.kernels());
            names.extend(layout.accumulate.kernels(&self.limits));
            if pass.reduces {
                names.extend(layout.reduce.kernels());
            }
        }
        names
    }
}
