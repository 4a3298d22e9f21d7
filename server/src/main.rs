//! The program: reads its configuration, sets up logging, serves until it is told to end; or runs a command.

mod commands;

use std::ffi::OsString;
use std::process::ExitCode;

use server::config::{self, Invocation};

/// glibc grows the heap of every thread but the first page by page: a system call for each put. Set in the program
/// alone, so that simulation keeps the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = commands::run(&args) {
        return code;
    }
    let config = match config::load(args.into_iter(), std::env::vars_os()) {
        Ok(Invocation::Serve(config)) => config,
        Ok(Invocation::Version(text) | Invocation::Help(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&error),
    };
    let _log = match server::logging::init(&config.log) {
        Ok(guard) => guard,
        Err(error) => return refuse(&error),
    };
    for notice in &config.notices {
        notice.log();
    }
    match server::serve::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "keelson ends");
            eprintln!("keelson: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(error: &config::ConfigError) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(error.exit_code())
}
