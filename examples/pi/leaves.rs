//! Computes the leaves of the series on all cores, and sends each group while the next one is
//! computed.

use std::sync::Arc;

use bytes::Bytes;
use capstan::client::{Client, ScalarEncoding, ScalarInput, UploadKey};
use indicatif::ProgressBar;
use rayon::prelude::*;
use tokio::task;

use super::{Outcome, bounds::TermLimbs, sizes::Sizes, terms::TermSums};

/// Returns the vector of each group. A row has P, Q and T of its leaf, one after another.
pub async fn put_leaves(
    client: &Client,
    sizes: &Arc<Sizes>,
    progress: &ProgressBar,
) -> Outcome<Vec<UploadKey>> {
    let mut puts = Vec::new();
    for group in 0..sizes.groups {
        let (sizes, bar) = (sizes.clone(), progress.clone());
        let rows = task::spawn_blocking(move || compute_group(&sizes, group, &bar)).await?;
        let client = client.clone();
        puts.push(tokio::spawn(async move {
            let bytes = Bytes::from(rows);
            let rows = ScalarInput::Shared { encoding: ScalarEncoding::Limbs32, bytes };
            client.put_vector(rows).await
        }));
    }
    let (mut vectors, mut failed) = (Vec::new(), None);
    for put in puts {
        match put.await? {
            Ok(vector) => vectors.push(vector.id),
            Err(error) => failed = Some(error),
        }
    }
    let Some(error) = failed else { return Ok(vectors) };
    for vector in vectors {
        client.release_vector(vector).await?;
    }
    Err(error.into())
}

fn compute_group(sizes: &Sizes, group: u64, progress: &ProgressBar) -> Vec<u8> {
    let limbs = TermLimbs::of_rows(sizes.terms, sizes.leaf_terms);
    let row_bytes = 4 * (limbs.p + limbs.q + limbs.t) as usize;
    let mut rows = vec![0; row_bytes * sizes.group_rows as usize];
    let leaves = rows.par_chunks_mut(row_bytes).enumerate();
    leaves.for_each_init(TermSums::default, |sums, (index, row)| {
        let first = (index as u64 * sizes.groups + group) * sizes.leaf_terms;
        sums.compute(first..first + sizes.leaf_terms);
        sums.write(limbs, row);
        if index % 256 == 0 {
            progress.inc(256);
        }
    });
    rows
}
