//! Telling the service manager (sd_notify): one datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that the server is ready. Nothing happens without a service manager.
pub(super) fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&path, "READY=1") {
        tracing::warn!(%error, "failed to notify systemd for readiness");
    }
}

fn send(path: &OsStr, state: &str) -> io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_arrives_at_either_kind_of_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let by_path = UnixDatagram::bind(&path).expect("a socket");
        let name = format!("keelson-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("a socket");
        for (socket, address, why) in [
            (by_path, path.into_os_string(), "a path"),
            (by_name, format!("@{name}").into(), "an abstract name"),
        ] {
            send(&address, "READY=1").expect("somebody listens");
            let mut text = [0; 32];
            let len = socket.recv(&mut text).expect("a datagram");
            assert_eq!(&text[..len], b"READY=1", "{why}");
        }
        assert!(send(OsStr::new("/nowhere/to/be/found"), "READY=1").is_err(), "nobody listens");
    }
}
