//! What `build.rs` generates from `proto/`, one module for each package.

#![allow(missing_docs, clippy::all, reason = "generated; the .proto files carry the texts")]

pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}
pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}
