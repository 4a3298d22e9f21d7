//! Commands that look at a data directory nobody uses: `keelson check DIR` and `keelson inspect DIR`.
//!
//! They change nothing, not even a lock file is made, and refuse a directory that a process uses. What they find
//! goes to stdout, for people or as JSON; progress and refusals to stderr. The end is 0 if all is well, 1 if there is
//! damage or the directory cannot be looked at, 2 for words that are no command line.

mod check;
mod inspect;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use engine::disk::{DirDisk, Disk};

/// What is printed after an error in the command line.
const USAGE: &str = "\
Usage: keelson check DIR [--json]     is everything in this data directory whole
       keelson inspect DIR [--json]   what is in it";

/// One of the commands, with its words read.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    what: What,
    directory: PathBuf,
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Check,
    Inspect,
}

/// Runs the command that `args`, the words after the program's name, begin with; `None` if they begin with none.
pub(crate) fn run(args: &[OsString]) -> Option<ExitCode> {
    let what = match args.first()?.to_str()? {
        "check" => What::Check,
        "inspect" => What::Inspect,
        _ => return None,
    };
    let command = match parse(what, &args[1..]) {
        Ok(Some(command)) => command,
        Ok(None) => {
            println!("{USAGE}");
            return Some(ExitCode::SUCCESS);
        }
        Err(text) => {
            eprintln!("{text}\n{USAGE}");
            return Some(ExitCode::from(2));
        }
    };
    let found = match command.what {
        What::Check => check::run(&command.directory, command.json),
        What::Inspect => inspect::run(&command.directory, command.json),
    };
    Some(match found {
        Ok((text, whole)) => {
            print!("{text}");
            if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("keelson: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Reads the words after the command; `None` if help is wanted.
fn parse(what: What, words: &[OsString]) -> Result<Option<Command>, String> {
    let (mut directory, mut json) = (None, false);
    for word in words {
        match word.to_str() {
            Some("--help" | "-help" | "-h") => return Ok(None),
            Some("--json" | "-json") => json = true,
            Some(flag) if flag.starts_with('-') => return Err(format!("{flag:?} is not a valid flag")),
            _ if directory.is_some() => return Err(format!("{} is one directory too many", word.display())),
            _ => directory = Some(PathBuf::from(word)),
        }
    }
    let directory = directory.ok_or("a data directory is to be named")?;
    Ok(Some(Command { what, directory, json }))
}

/// Takes the directory for reading; refuses etcd's.
fn open(directory: &std::path::Path) -> engine::Result<Arc<dyn Disk>> {
    let disk = DirDisk::open_read_only(directory)?;
    let names = disk.list().map_err(|error| engine::Error::io("data directory", &error))?;
    if names.iter().any(|name| name == "member") {
        let text = format!("{} is a data directory of etcd", directory.display());
        return Err(engine::Error::Refused(text));
    }
    Ok(Arc::new(disk))
}

/// A size for people.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = count as f64;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_or_refused() {
        let command = |directory: &str, json| {
            Ok(Some(Command { what: What::Check, directory: PathBuf::from(directory), json }))
        };
        for (words, want) in [
            (&["d"][..], command("d", false)),
            (&["d", "--json"], command("d", true)),
            (&["-json", "d"], command("d", true)),
            (&["d", "--help"], Ok(None)),
            (&[], Err("a data directory is to be named".to_owned())),
            (&["d", "e"], Err("e is one directory too many".to_owned())),
            (&["d", "--fix"], Err("\"--fix\" is not a valid flag".to_owned())),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(parse(What::Check, &words), want, "{words:?}");
        }
        assert!(run(&[OsString::from("--name")]).is_none(), "a flag is no command");
        assert!(run(&[]).is_none());
    }

    #[test]
    fn sizes_are_told_for_people() {
        for (count, want) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (67_108_864, "64.0 MiB")] {
            assert_eq!(bytes(count), want);
        }
    }
}
