//! Generates the clients that the workload speaks through from the server's `proto/`. The messages are the
//! server crate's own.

use std::path::PathBuf;

/// Services that the workload calls.
const FILES: [&str; 3] = ["etcdserverpb/kv.proto", "etcdserverpb/watch.proto", "etcdserverpb/lease.proto"];

/// Packages whose messages the server crate has.
const PACKAGES: [&str; 3] = ["authpb", "etcdserverpb", "mvccpb"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../server/proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let descriptors = protox::compile(FILES, ["../server/proto"])?;
    let mut clients = tonic_prost_build::configure().build_server(false).build_transport(false).out_dir(out);
    for package in PACKAGES {
        clients = clients.extern_path(format!(".{package}"), format!("::server::pb::{package}"));
    }
    clients.compile_fds(descriptors)?;
    Ok(())
}
