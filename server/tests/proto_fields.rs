//! Our .proto files against etcd's own descriptors, fact by fact.
//!
//! `proto/etcd-fields.txt` is written by `scripts/proto-fields` from the Go packages of etcd; here the same
//! list is made from the descriptors that `build.rs` compiled.

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
};

const OURS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
const ETCDS: &str = include_str!("../proto/etcd-fields.txt");

#[test]
fn proto_files_agree_with_etcd() {
    let ours = facts(OURS);
    let etcds: Vec<&str> = ETCDS.lines().collect();
    assert!(etcds.len() > 300, "the list of etcd's facts is short: {} lines", etcds.len());
    for line in &etcds {
        assert!(ours.iter().any(|ours| ours == line), "etcd has, we have not: {line}");
    }
    for line in &ours {
        assert!(etcds.contains(&line.as_str()), "we have, etcd has not: {line}");
    }
    assert_eq!(ours, etcds, "the same facts, in the same order");
}

fn facts(descriptors: &[u8]) -> Vec<String> {
    let set = FileDescriptorSet::decode(descriptors).expect("build.rs wrote a descriptor set");
    let mut facts = Vec::new();
    for file in &set.file {
        for listed in &file.enum_type {
            enum_facts(file.package(), listed, &mut facts);
        }
        for message in &file.message_type {
            message_facts(file.package(), message, &mut facts);
        }
        for service in &file.service {
            method_facts(file.package(), service, &mut facts);
        }
    }
    facts.sort();
    facts
}

fn enum_facts(scope: &str, listed: &EnumDescriptorProto, facts: &mut Vec<String>) {
    for value in &listed.value {
        facts.push(format!("enum {scope}.{} {} {}", listed.name(), value.number(), value.name()));
    }
}

fn message_facts(scope: &str, message: &DescriptorProto, facts: &mut Vec<String>) {
    let name = format!("{scope}.{}", message.name());
    if message.field.is_empty() {
        facts.push(format!("field {name}"));
    }
    for field in &message.field {
        let mut fact = format!("field {name} {} {} {}", field.number(), kind(field), field.name());
        if let Some(index) = field.oneof_index {
            let oneof = &message.oneof_decl[usize::try_from(index).expect("an index")];
            fact = format!("{fact} oneof {}", oneof.name());
        }
        facts.push(fact);
    }
    for listed in &message.enum_type {
        enum_facts(&name, listed, facts);
    }
    for nested in &message.nested_type {
        message_facts(&name, nested, facts);
    }
}

fn kind(field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    if field.label() == Label::Repeated { format!("repeated {kind}") } else { kind }
}

fn method_facts(scope: &str, service: &ServiceDescriptorProto, facts: &mut Vec<String>) {
    let streamed = |stream: bool, message: &str| {
        let message = message.trim_start_matches('.');
        if stream { format!("stream {message}") } else { message.to_owned() }
    };
    for method in &service.method {
        facts.push(format!(
            "method {scope}.{} {} ({}) ({})",
            service.name(),
            method.name(),
            streamed(method.client_streaming(), method.input_type()),
            streamed(method.server_streaming(), method.output_type()),
        ));
    }
}
