//! The open connections of the listener for metrics: few, so that a new one replaces an old one.
//!
//! A new probe replaces an old connection instead of waiting for one to end: honest probes send
//! their request at once, so the oldest connection is the one that stalls.

use std::{collections::HashMap, net::IpAddr};

use tokio::task::{AbortHandle, Id, JoinSet};

use crate::telemetry::network;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 32;

/// The open connections, oldest first.
#[derive(Default)]
pub struct OpenConnections {
    tasks: JoinSet<()>,
    open: Vec<OpenConnection>,
}

struct OpenConnection {
    id: Id,
    address: IpAddr,
    task: AbortHandle,
}

impl OpenConnections {
    /// Serves a connection from `address` by `task`. If too many are open, the oldest one of the
    /// address that has the most ends: peers that stall cannot keep a probe out, and those of one
    /// address end before those of others.
    pub fn add(&mut self, address: IpAddr, task: impl Future<Output = ()> + Send + 'static) {
        let address = network(address);
        if self.open.len() >= CONNECTIONS_MAX {
            let addresses: Vec<_> = self.open.iter().map(|open| open.address).collect();
            if let Some(index) = replaced(&addresses, address) {
                self.open.remove(index).task.abort();
            }
        }
        let task = self.tasks.spawn(task);
        self.open.push(OpenConnection { id: task.id(), address, task });
    }

    /// Waits until a connection ends, forever if none is open.
    pub async fn ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => std::future::pending().await,
        };
        self.open.retain(|open| open.id != id);
    }
}

/// The index of the connection that one from `new` replaces.
fn replaced(open: &[IpAddr], new: IpAddr) -> Option<usize> {
    let mut counts = HashMap::from([(new, 1)]);
    for address in open {
        *counts.entry(*address).or_insert(0) += 1;
    }
    let most = counts.values().max()?;
    let is_crowded = |address: &IpAddr| counts.get(address) == Some(most);
    open.iter().position(is_crowded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn a_crowd_from_one_address_replaces_its_own() {
        let open = [1, 2, 2, 3, 2].map(address);
        assert_eq!(replaced(&open, address(4)), Some(1));
        assert_eq!(replaced(&open, address(2)), Some(1));
        assert_eq!(replaced(&[1, 2, 3].map(address), address(4)), Some(0));
        assert_eq!(replaced(&[1, 2, 3].map(address), address(3)), Some(2));
        assert_eq!(replaced(&[], address(3)), None);
    }
}
