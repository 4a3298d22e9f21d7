//! etcd's semantics in plain maps.
