//! The wire: plain requests to protobuf, and answers back.
