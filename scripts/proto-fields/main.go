// Command proto-fields prints the facts of etcd's protobuf API that a peer of etcd must agree with to be
// equal on the wire: messages with the numbers, types, names and oneofs of their fields, enums with their
// values, services with their methods. It reads the descriptors that etcd's own Go packages carry.
//
// The list is sorted, one fact a line, so that two lists can be compared line by line:
//
//	enum   PACKAGE.ENUM NUMBER NAME
//	field  PACKAGE.MESSAGE NUMBER TYPE NAME [oneof NAME]
//	method PACKAGE.SERVICE NAME (REQUEST) (ANSWER)
//
// A type carries `repeated` before it and `stream` stands before what a method streams. A message without
// fields has one line `field PACKAGE.MESSAGE`.
//
// Run in this folder, after a change of etcd's version in go.mod:
//
//	go run . > ../../server/proto/etcd-fields.txt
package main

import (
	"fmt"
	"os"
	"sort"

	_ "go.etcd.io/etcd/api/v3/authpb"
	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.etcd.io/etcd/api/v3/mvccpb"
	_ "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	_ "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// packages that clients of etcd's API see.
var packages = []protoreflect.FullName{"etcdserverpb", "mvccpb", "authpb", "v3lockpb", "v3electionpb"}

// internalFiles hold messages that members write to their own logs; no client sees them.
var internalFiles = map[string]bool{"etcdserver.proto": true, "raft_internal.proto": true}

func main() {
	var facts []string
	for _, name := range packages {
		protoregistry.GlobalFiles.RangeFilesByPackage(name, func(file protoreflect.FileDescriptor) bool {
			if !internalFiles[base(file.Path())] {
				facts = append(facts, enums(file.Enums())...)
				facts = append(facts, messages(file.Messages())...)
				facts = append(facts, methods(file.Services())...)
			}
			return true
		})
	}
	sort.Strings(facts)
	for _, fact := range facts {
		fmt.Fprintln(os.Stdout, fact)
	}
}

func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

func enums(list protoreflect.EnumDescriptors) (facts []string) {
	for i := range list.Len() {
		values := list.Get(i).Values()
		for j := range values.Len() {
			facts = append(facts, fmt.Sprintf("enum %s %d %s", list.Get(i).FullName(), values.Get(j).Number(), values.Get(j).Name()))
		}
	}
	return facts
}

func messages(list protoreflect.MessageDescriptors) (facts []string) {
	for i := range list.Len() {
		message := list.Get(i)
		if message.Fields().Len() == 0 {
			facts = append(facts, fmt.Sprintf("field %s", message.FullName()))
		}
		for j := range message.Fields().Len() {
			facts = append(facts, field(message, message.Fields().Get(j)))
		}
		facts = append(facts, enums(message.Enums())...)
		facts = append(facts, messages(message.Messages())...)
	}
	return facts
}

func field(message protoreflect.MessageDescriptor, field protoreflect.FieldDescriptor) string {
	kind := field.Kind().String()
	if field.Message() != nil {
		kind = string(field.Message().FullName())
	} else if field.Enum() != nil {
		kind = string(field.Enum().FullName())
	}
	if field.Cardinality() == protoreflect.Repeated {
		kind = "repeated " + kind
	}
	fact := fmt.Sprintf("field %s %d %s %s", message.FullName(), field.Number(), kind, field.Name())
	if field.ContainingOneof() != nil {
		fact += fmt.Sprintf(" oneof %s", field.ContainingOneof().Name())
	}
	return fact
}

func methods(list protoreflect.ServiceDescriptors) (facts []string) {
	for i := range list.Len() {
		service := list.Get(i)
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			facts = append(facts, fmt.Sprintf("method %s %s (%s) (%s)", service.FullName(), method.Name(),
				streamed(method.IsStreamingClient(), method.Input()), streamed(method.IsStreamingServer(), method.Output())))
		}
	}
	return facts
}

func streamed(stream bool, message protoreflect.MessageDescriptor) string {
	if stream {
		return "stream " + string(message.FullName())
	}
	return string(message.FullName())
}
