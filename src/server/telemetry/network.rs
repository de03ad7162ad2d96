//! Addresses as limits count them.

use std::net::{IpAddr, Ipv6Addr};

/// The address that is counted for a peer: a host with IPv6 usually has all of a /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(prefix).into()
        }
        address => address,
    }
}
