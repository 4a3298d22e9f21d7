//! The command line, read by the rules of Go's `flag` package.
//!
//! `-name x`, `--name x`, `-name=x` and `--name=x` are the same. A switch takes its value only after `=`; alone it
//! means true. Any other flag takes the next word whatever it looks like. The first word that is no flag, or `--`,
//! ends the flags, and nothing may follow.
//!
//! Lives here: words to `Given`. Does not know: what a value means.

use std::ffi::OsString;

use clap::CommandFactory;

use super::error::ConfigError;
use super::flags::{Flags, IGNORED};
use super::given::{Given, Origin};
use super::values::{Kind, kind_of};

/// The command line, split.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The flags in order.
    pub(crate) given: Vec<Given>,
    /// Help was asked for; nothing after that word has been read.
    pub(crate) help: bool,
    /// The first word that belongs to no flag.
    pub(crate) stray: Option<String>,
    /// Names that are accepted and ignored.
    pub(crate) ignored: Vec<String>,
}

/// Splits the words after the program's name.
///
/// # Errors
/// [`ConfigError::Usage`] at the first word that is an unknown or malformed flag, or lacks its value.
pub(crate) fn split(words: impl Iterator<Item = OsString>) -> Result<CommandLine, ConfigError> {
    let command = Flags::command();
    let mut line = CommandLine::default();
    let mut words = words.map(into_text);
    while let Some(word) = words.next() {
        let word = word?;
        let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) else {
            line.stray = Some(word);
            break;
        };
        let body = body.strip_prefix('-').unwrap_or(body);
        if body.is_empty() {
            line.stray = words.next().transpose()?;
            break;
        }
        if body.starts_with(['-', '=']) {
            return Err(usage(format!("bad flag syntax: {word}"), None));
        }
        let (name, attached) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        if matches!(name, "h" | "help") {
            line.help = true;
            break;
        }
        if IGNORED.contains(&name) {
            line.ignored.push(name.to_owned());
            continue;
        }
        let Some(argument) = command.get_arguments().find(|argument| argument.get_long() == Some(name))
        else {
            return Err(usage(format!("flag provided but not defined: -{name}"), similar(&command, name)));
        };
        let value = match (attached, kind_of(argument)) {
            (Some(value), _) => value.to_owned(),
            (None, Kind::Switch) => "true".to_owned(),
            (None, _) => match words.next() {
                Some(value) => value?,
                None => return Err(usage(format!("flag needs an argument: -{name}"), None)),
            },
        };
        line.given.push(Given { flag: name.to_owned(), value, origin: Origin::CommandLine });
    }
    Ok(line)
}

fn into_text(word: OsString) -> Result<String, ConfigError> {
    word.into_string().map_err(|word| usage(format!("argument is not UTF-8: {}", word.display()), None))
}

fn usage(message: String, hint: Option<String>) -> ConfigError {
    ConfigError::Usage { message, hint }
}

/// What the author of an unknown flag may have meant.
fn similar(command: &clap::Command, name: &str) -> Option<String> {
    if name.starts_with("experimental-") {
        return Some(
            "etcd 3.7 has no --experimental flags: most live on without that word or as --feature-gates"
                .to_owned(),
        );
    }
    let limit = 1 + name.chars().count() / 4;
    command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .map(|known| (distance(known, name), known))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| format!("did you mean --{known}?"))
}

/// Number of insertions, deletions and replacements that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..right.len() {
            let replaced = diagonal + usize::from(right[column] != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(text: &str) -> Result<CommandLine, ConfigError> {
        split(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_are_read_as_go_reads_them() {
        for (text, want, why) in [
            ("--name x", "name=x", "two dashes"),
            ("-name x", "name=x", "one dash"),
            ("-name=x", "name=x", "with ="),
            ("--name=a=b", "name=a=b", "only the first = counts"),
            ("--name=", "name=", "empty value"),
            ("--name --pre-vote", "name=--pre-vote", "a value may look like a flag"),
            ("--pre-vote", "pre-vote=true", "a bare switch is true"),
            ("--pre-vote=false", "pre-vote=false", "a switch with a value"),
            ("-pre-vote -name x", "pre-vote=true name=x", "a switch does not take the next word"),
            ("--name a --name b", "name=a name=b", "both are kept, the parser takes the last"),
            ("--force --v=3 --name x", "name=x", "ignored names"),
            ("--name x -- --pre-vote", "name=x !--pre-vote", "-- ends the flags"),
            ("--name x --", "name=x", "-- at the end"),
            ("--pre-vote false --name x", "pre-vote=true !false", "a stray word ends the flags"),
            ("--name x -", "name=x !-", "a dash alone is no flag"),
            ("--name x --help --bogus", "name=x ?", "help ends reading"),
            ("-h", "?", "short help"),
        ] {
            let line = split_text(text).expect(text);
            let mut got: Vec<String> =
                line.given.iter().map(|one| format!("{}={}", one.flag, one.value)).collect();
            got.extend(line.stray.map(|word| format!("!{word}")));
            got.extend(line.help.then(|| "?".to_owned()));
            assert_eq!(got.join(" "), want, "{text}: {why}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for (text, want) in [
            ("--bogus", "flag provided but not defined: -bogus"),
            ("--nam x", "did you mean --name?"),
            ("--nmae x", "did you mean --name?"),
            ("--initial-cluster-stat=new", "did you mean --initial-cluster-state?"),
            ("--experimental-initial-corrupt-check=true", "no --experimental flags"),
            ("--discovery=x", "flag provided but not defined: -discovery"),
            ("--enable-v2", "flag provided but not defined: -enable-v2"),
            ("--name", "flag needs an argument: -name"),
            ("---name", "bad flag syntax: ---name"),
            ("--=x", "bad flag syntax: --=x"),
            ("-=x", "bad flag syntax: -=x"),
            ("--Name x", "flag provided but not defined: -Name"),
        ] {
            let error = split_text(text).expect_err(text);
            assert_eq!(error.exit_code(), 2, "{text}");
            assert!(error.to_string().contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn distances() {
        for (left, right, want) in [("", "", 0), ("a", "", 1), ("name", "nam", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(left, right), want, "{left} {right}");
            assert_eq!(distance(right, left), want, "{right} {left}");
        }
    }
}
