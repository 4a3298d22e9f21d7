//! What the program says about itself: usage, help, version.

use std::fmt::Write;

use clap::CommandFactory;

use super::environment::variable_of;
use super::flags::Flags;
use super::support::{Support, support_of};

/// What is printed after an error in the command line.
pub(crate) const USAGE: &str = "\
Usage: keelson [flags]

  keelson --name NAME --data-dir DIR   start a member
  keelson check DIR, inspect DIR       is a data directory whole, what is in it
  keelson --help                       list all flags
  keelson --version                    print the version";

/// The release of etcd whose API and flags this is.
pub const ETCD_VERSION: &str = "3.7.3";

/// The release of Keelson.
pub const KEELSON_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The text of `--version`; the first line is what tools parse.
pub(crate) fn version() -> String {
    format!(
        "etcd Version: {ETCD_VERSION}\nKeelson Version: {KEELSON_VERSION}\nOS/Arch: {}/{}\n",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

const INTRODUCTION: &str = "\
Start a member:  keelson --name NAME --data-dir /var/lib/keelson
Look at the data directory of one that does not run:  keelson check DIR, keelson inspect DIR

It then serves etcd's API on http://localhost:2379, for this machine alone. Flags are those of etcd; -name x, --name x
and --name=x are the same, a switch takes its value after = only. The variable ETCD_DATA_DIR stands for --data-dir, and
so on; in the last section variables begin with KEELSON_. A flag wins over its variable. With --config-file, only the
file counts.
";

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = INTRODUCTION.to_owned();
    let command = Flags::command();
    let mut sections: Vec<&str> = Vec::new();
    for section in command.get_arguments().filter_map(clap::Arg::get_help_heading) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    // Keelson's own section closes the list, after those that etcd's users know.
    sections.sort_by_key(|section| *section == super::flags::OWN_SECTION);
    for section in sections {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{section}:");
        for argument in
            command.get_arguments().filter(|argument| argument.get_help_heading() == Some(section))
        {
            describe(&mut text, argument);
        }
    }
    text
}

fn describe(text: &mut String, argument: &clap::Arg) {
    let Some(flag) = argument.get_long() else { return };
    let default =
        argument.get_default_values().first().and_then(|default| default.to_str()).unwrap_or_default();
    let mut words = argument.get_help().map(ToString::to_string).unwrap_or_default();
    if !words.ends_with('.') {
        words.push('.');
    }
    match support_of(flag) {
        Some(Support::Refused(reason)) => {
            let _ = write!(words, " Refused when set: {reason}.");
        }
        Some(Support::NoEffect(reason)) => {
            let _ = write!(words, " Accepted without effect: {reason}.");
        }
        None => {}
    }
    if let Some(variable) = variable_of(argument).filter(|variable| variable.starts_with("KEELSON_")) {
        let _ = write!(words, " [{variable}]");
    }
    let _ = writeln!(text, "  --{flag} '{default}'");
    for line in wrap(&words, 112) {
        let _ = writeln!(text, "    {line}");
    }
}

/// Breaks `words` into lines of at most `width` characters, where words allow it.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let last = lines.last_mut().expect("never empty");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_flag_and_teaches_a_start() {
        let text = help();
        assert!(text.starts_with("Start a member:  keelson --name NAME --data-dir"), "{text}");
        for argument in Flags::command().get_arguments() {
            let flag = argument.get_long().expect("every flag has a long name");
            assert!(text.contains(&format!("\n  --{flag} '")), "--{flag}");
            assert!(argument.get_help().is_some(), "--{flag} has no help");
            assert!(argument.get_help_heading().is_some(), "--{flag} has no section");
        }
        let order: Vec<usize> = [
            "\nMember:",
            "\nClustering:",
            "\nSecurity:",
            "\nAuth:",
            "\nMonitoring:",
            "\nLogging:",
            "\nFeatures:",
            "\nUnsafe:",
            "\nKeelson:",
        ]
        .iter()
        .map(|section| text.find(section).expect(section))
        .collect();
        assert!(order.is_sorted(), "{order:?}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "wrapped");
    }

    #[test]
    fn version_begins_with_what_tools_parse() {
        let version = version();
        let lines: Vec<&str> = version.lines().collect();
        assert_eq!(lines[0], "etcd Version: 3.7.3");
        assert_eq!(lines[1], format!("Keelson Version: {KEELSON_VERSION}"));
    }

    #[test]
    fn words_are_wrapped() {
        for (words, want) in [
            ("", vec![""]),
            ("a b", vec!["a b"]),
            ("aaa bbb ccc", vec!["aaa", "bbb", "ccc"]),
            ("toolong a b", vec!["toolong", "a b"]),
        ] {
            assert_eq!(wrap(words, 4), want, "{words:?}");
        }
    }
}
