//! The address of this machine, for a member that listens on all interfaces but advertises only the default.

use std::net::{IpAddr, UdpSocket};

/// The address that this machine would send from to the rest of the world, as etcd finds it from the default route.
///
/// `None` without a default route. Nothing is sent: connecting a datagram socket only chooses a route.
pub(crate) fn default_host() -> Option<IpAddr> {
    // TEST-NET-3: it belongs to nobody, so it is routed as the rest of the world is.
    from_route("0.0.0.0:0", "203.0.113.1:9").or_else(|| from_route("[::]:0", "[2001:db8::1]:9"))
}

fn from_route(local: &str, remote: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(local).ok()?;
    socket.connect(remote).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}
