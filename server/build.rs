//! Generates Rust from `proto/`: messages and servers for the crate, clients for its tests, and the
//! descriptors that a test compares with etcd's.
//!
//! protox parses, so nobody needs a `protoc`. `bytes` fields become `Bytes`: keys and values are not copied
//! on their way in.

use std::path::PathBuf;

use protox::prost_reflect::prost_types::FileDescriptorSet;

/// Every file; those that others import come along by themselves.
const FILES: [&str; 8] = [
    "etcdserverpb/kv.proto",
    "etcdserverpb/watch.proto",
    "etcdserverpb/lease.proto",
    "etcdserverpb/cluster.proto",
    "etcdserverpb/maintenance.proto",
    "etcdserverpb/auth.proto",
    "v3lockpb.proto",
    "v3electionpb.proto",
];

/// Packages and the module of the crate that holds each.
const PACKAGES: [&str; 5] = ["authpb", "etcdserverpb", "mvccpb", "v3electionpb", "v3lockpb"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let descriptors = compiler.file_descriptor_set();

    let mut messages = prost_build::Config::new();
    messages.bytes(["."]);
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .codec_path("crate::api::codec::CountingCodec")
        .compile_fds_with_config(generated(descriptors.clone()), messages)?;

    let clients = out.join("clients");
    std::fs::create_dir_all(&clients)?;
    let mut clients =
        tonic_prost_build::configure().build_server(false).build_transport(false).out_dir(clients);
    for package in PACKAGES {
        clients = clients.extern_path(format!(".{package}"), format!("::server::pb::{package}"));
    }
    clients.compile_fds(descriptors)?;
    Ok(())
}

/// What is served by generated code. `KV/Range` and `Watch` are not: their answers are put on the wire by the crate
/// itself, the one piece by piece, the other with parts that many answers share.
fn generated(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut descriptors.file {
        file.service.retain(|service| service.name() != "Watch");
        for service in file.service.iter_mut().filter(|service| service.name() == "KV") {
            service.method.retain(|method| method.name() != "Range");
        }
    }
    descriptors
}
