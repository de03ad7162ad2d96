//! NTTs on the least busy servers.

use futures_util::future::try_join_all;
use tokio::time::Instant;
use zeroize::{Zeroize, Zeroizing};

use super::{Fleet, members::Candidates, slices::divide};
use crate::{
    Client, FieldId, Fr, NttOptions, NttReport, NttResult, ScalarEncoding,
    compute::ntt::NttCallSpec,
    error::{ClientError, Result},
};

/// Some rows of a result. They are wiped if another part fails.
struct NttPart {
    values: Zeroizing<Vec<Fr>>,
    report: NttReport,
}

impl Fleet {
    /// Transforms the rows of `values`. The rows of a batch are divided among all servers.
    ///
    /// Shape: `options.batch` rows of equal length, one after another, padded with zeros to
    /// 2^`options.lg_n` elements if that is set. Errors: those of [`Client::ntt_padded`] that
    /// another server cannot repair.
    pub async fn ntt(&self, values: &[Fr], options: NttOptions) -> Result<NttResult> {
        let started = Instant::now();
        let rows = options.batch.max(1) as usize;
        let field = FieldId::Bls12381Fr;
        let encoding = ScalarEncoding::Montgomery;
        let lg_n = NttCallSpec::new(field, values.len(), &options, encoding)?.message.lg_n;
        let row = values.len() / rows;
        let groups = divide(rows, self.inner.members.count());
        let parts = groups.into_iter().map(|group| {
            let options = NttOptions { batch: group.len() as u32, ..options.clone() };
            self.ntt_part(&values[group.start * row..group.end * row], lg_n, options)
        });
        let mut parts = try_join_all(parts).await?;
        let total = parts.iter().map(|part| part.values.len()).sum::<usize>();
        let (first, others) =
            parts.split_first_mut().ok_or(ClientError::invalid_response("no part"))?;
        let NttReport { mut timing, execution } = first.report.clone();
        let mut values = std::mem::take(&mut *first.values);
        if !others.is_empty() {
            // Growing would leave the old contents behind unwiped.
            let mut all = Vec::with_capacity(total);
            all.extend_from_slice(&values);
            values.zeroize();
            values = all;
        }
        for part in others {
            values.extend_from_slice(&part.values);
            timing = timing.longest(&part.report.timing);
        }
        timing.total = started.elapsed();
        Ok(NttResult { values, report: NttReport { timing, execution } })
    }

    async fn ntt_part(&self, values: &[Fr], lg_n: u32, options: NttOptions) -> Result<NttPart> {
        let limit = options.deadline.or(self.inner.deadline);
        let ntt = |client: Client, left| {
            let options = NttOptions { deadline: left, ..options.clone() };
            async move {
                let NttResult { values, report } = client.ntt_padded(values, lg_n, options).await?;
                Ok(NttPart { values: Zeroizing::new(values), report })
            }
        };
        let place = self.inner.next_place.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let candidates = Candidates { key: None, place, replicas: 1 };
        self.call_within(candidates, limit, ntt).await
    }
}
