//! The kernels that a plan has work for.

use std::collections::BTreeSet;

use super::{Plan, Windows};

impl Plan {
    /// The names of the kernels that its passes have work for, and of the one that makes its
    /// tables. The kind of windows is named, too: kernels that read scalars branch on it.
    ///
    /// A plan for scalars that arrive is taken to have two passes.
    pub fn kernels(&self) -> BTreeSet<String> {
        let kind = match &self.windows {
            Windows::Fixed(_) => "fixed windows",
            Windows::Radix(_) => "radix windows",
            Windows::Sliding(_) => "sliding windows",
        };
        let mut names = BTreeSet::from([kind.to_owned()]);
        if self.windows.tables() > 1 {
            names.insert(format!("{}_tables", self.job.group.name()));
        }
        let (n, half) = (self.job.n, self.job.n / 2);
        let passes: Vec<_> = match self.arriving {
            true => vec![self.over(0..half), self.over(half..n)],
            false => self.passes().collect(),
        };
        for pass in passes {
            let Some(layout) = self.layout(&pass) else { continue };
            names.extend(layout.sort.kernels());
            names.extend(layout.accumulate.kernels(&self.limits));
            if pass.last {
                names.extend(layout.reduce.kernels());
            }
        }
        names
    }
}
