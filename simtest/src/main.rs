//! The `simtest` program.

use std::process::ExitCode;

use clap::Parser as _;
use simtest::cli::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    simtest::endpoint::run(&arguments)
}
