//! Invalid input and misbehaving clients: the server answers as promised and stays healthy.
//!
//! To add a case, add a row to the `rows` function of the module that it belongs to: a name, the
//! request, and the expected status, reason, field and index. After each row the table asserts that
//! the server still computes, that nothing is left in flight, and that the memory and the
//! descriptors of the process stayed within bounds.
#![cfg(all(feature = "client", feature = "server"))]

mod abandoned_calls;
mod bits;
mod cancel;
#[path = "../rig/mod.rs"]
mod daemon;
mod engines;
mod enums;
mod fields;
mod ids;
mod integers;
mod lengths;
mod limits;
mod long_lists;
mod matrices;
mod messages;
mod min_rate;
mod mutations;
mod open_calls;
mod points;
mod program_calls;
mod programs;
mod region_uploads;
mod regions;
mod resources;
mod runs;
mod scalars;
mod slow_readers;
mod slow_senders;
mod stored_words;
#[path = "../common/sweep.rs"]
mod sweep;
mod table;
mod tenant_limits;
mod transport;
mod unfinished_messages;
mod unread_responses;

use table::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_table_gets_the_expected_answer() {
    let world = World::new(table::settings()).await.with_matrix().await;
    let rows = [
        points::rows,
        scalars::rows,
        lengths::rows,
        matrices::rows,
        ids::rows,
        enums::rows,
        fields::rows,
        bits::rows,
        integers::rows,
        slow_senders::rows,
        programs::rows,
        runs::rows,
    ]
    .map(|rows| rows(&world));
    let mut count = 0;
    for row in rows.into_iter().flatten() {
        world.check(row).await;
        count += 1;
    }
    assert!(count > 250, "only {count} rows");
}
