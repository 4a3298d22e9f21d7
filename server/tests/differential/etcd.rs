//! A real etcd beside the test.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// One member on an empty directory; it ends with the value.
pub(crate) struct Etcd {
    process: Child,
    pub(crate) address: SocketAddr,
    _dir: tempfile::TempDir,
}

/// The program, if the environment names one.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::var_os("ETCD").map(PathBuf::from)
}

impl Etcd {
    pub(crate) fn start(program: &PathBuf) -> Etcd {
        let dir = tempfile::tempdir().expect("a directory");
        let [client, peer] = [0; 2].map(|_| {
            let free = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
            free.local_addr().expect("it is bound")
        });
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .arg(format!("--initial-cluster=default={peer_url}"))
            // What is compared does not hang on what a power cut leaves.
            .args(["--unsafe-no-fsync", "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        let mut etcd = Etcd { process, address: client, _dir: dir };
        for _ in 0..400 {
            if let Some(status) = etcd.process.try_wait().expect("its state") {
                panic!("etcd ended: {status}");
            }
            if TcpStream::connect(client).is_ok() {
                return etcd;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("etcd does not listen");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
