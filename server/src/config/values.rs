//! The types of flag values, parsed from text exactly as Go's `flag` and `strconv` packages do, because operators'
//! manifests were written for those: numbers in any base, `1m30s`, `T` for true.
//!
//! Lives here: text to value. Does not know: which flag a value belongs to, or whether its size makes sense
//! (`validate`). Each type is also the mark by which `kind_of` tells what a flag takes, so that the
//! command line knows which flags stand alone and the configuration file which YAML type to demand.

use std::any::TypeId;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is not a value of the type asked for. The flag's name is added by whoever knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError(String);

impl ValueError {
    /// An error with the given text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ValueError(text.into())
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// true or false; the bare flag means true.
    Switch,
    /// An integer.
    Number,
    /// A duration: `100ms` on the command line, whole nanoseconds in a file.
    Duration,
    /// A list that a file writes as a YAML list, and the command line with commas.
    List,
    /// Anything else, as text.
    Text,
}

/// Tells what `argument` takes, by the type its field has.
pub(crate) fn kind_of(argument: &clap::Arg) -> Kind {
    let parsed = argument.get_value_parser().type_id();
    if parsed == TypeId::of::<Switch>() {
        Kind::Switch
    } else if parsed == TypeId::of::<Whole>()
        || parsed == TypeId::of::<Whole32>()
        || parsed == TypeId::of::<Signed>()
    {
        Kind::Number
    } else if parsed == TypeId::of::<GoDuration>() {
        Kind::Duration
    } else if parsed == TypeId::of::<Words>() {
        Kind::List
    } else {
        Kind::Text
    }
}

/// A boolean flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Switch(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Switch(false)),
            _ => Err(ValueError::new("not a boolean: write true or false")),
        }
    }
}

/// A number without sign, of at most 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) u64);

impl FromStr for Whole {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        magnitude(text).map(Whole)
    }
}

/// A number without sign, of at most 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole32(pub(crate) u32);

impl FromStr for Whole32 {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wide = magnitude(text)?;
        u32::try_from(wide)
            .map(Whole32)
            .map_err(|_| ValueError::new(format!("value out of range: at most {}", u32::MAX)))
    }
}

/// A number with sign, of at most 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signed(pub(crate) i64);

impl FromStr for Signed {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (negative, digits) = split_sign(text);
        let size = i128::from(magnitude(digits)?);
        let value = if negative { -size } else { size };
        i64::try_from(value).map(Signed).map_err(|_| ValueError::new("value out of range"))
    }
}

/// Splits a leading `+` or `-` off; true if it was `-`.
fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

/// Digits in base 10, or 16, 8 and 2 after `0x`, `0o` (or a bare `0`) and `0b`; single underscores may stand between
/// digits.
fn magnitude(text: &str) -> Result<u64, ValueError> {
    let malformed = || ValueError::new("not a whole number");
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    let prefixed = digits.len() < lower.len();
    let digits = if prefixed { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    if digits.is_empty() || digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return Err(malformed());
    }
    let mut value = 0u64;
    for digit in digits.chars().filter(|&digit| digit != '_') {
        let digit = digit.to_digit(radix).ok_or_else(malformed)?;
        value = value
            .checked_mul(u64::from(radix))
            .and_then(|shifted| shifted.checked_add(u64::from(digit)))
            .ok_or_else(|| ValueError::new("value out of range"))?;
    }
    Ok(value)
}

/// A duration in Go's notation: `300ms`, `1m30s`, `1.5h`, `-2s`, `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoDuration {
    /// May be negative, as in Go; most flags then mean "never".
    pub(crate) nanoseconds: i64,
}

impl GoDuration {
    /// The duration, or zero if it is negative.
    pub(crate) fn at_least_zero(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanoseconds).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        GoDuration { nanoseconds: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
    }
}

impl fmt::Display for GoDuration {
    /// As Go writes it: `2h0m0s`, `1.5s`, `102.345678ms`, `0s`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.nanoseconds.unsigned_abs();
        if self.nanoseconds < 0 {
            out.write_str("-")?;
        }
        let (rest, scale, unit) = match nanoseconds {
            0 => return out.write_str("0s"),
            1..1_000 => (nanoseconds, 1, "ns"),
            1_000..1_000_000 => (nanoseconds, 1_000, "µs"),
            1_000_000..1_000_000_000 => (nanoseconds, 1_000_000, "ms"),
            _ => {
                let seconds = nanoseconds / 1_000_000_000;
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                if hours > 0 {
                    write!(out, "{hours}h")?;
                }
                if seconds >= 60 {
                    write!(out, "{minutes}m")?;
                }
                (nanoseconds % 60_000_000_000, 1_000_000_000, "s")
            }
        };
        write!(out, "{}", rest / scale)?;
        let fraction = rest % scale;
        if fraction > 0 {
            // As many digits as the scale has noughts, less the noughts at the end.
            let digits = scale.ilog10() as usize;
            write!(out, ".{}", format!("{fraction:0digits$}").trim_end_matches('0'))?;
        }
        out.write_str(unit)
    }
}

/// Units of a Go duration with their nanoseconds; a unit that another one starts with comes after it.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for GoDuration {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let malformed = || ValueError::new("not a duration: write 300ms, 10s, 1m30s or 2h");
        let out_of_range = || ValueError::new("duration out of range");
        let (negative, mut rest) = split_sign(text);
        if rest == "0" {
            return Ok(GoDuration { nanoseconds: 0 });
        }
        if rest.is_empty() {
            return Err(malformed());
        }
        let mut total = 0i128;
        while !rest.is_empty() {
            let number_length =
                rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
            let (number, tail) = rest.split_at(number_length);
            let (unit, scale) =
                UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(malformed)?;
            total += scaled(number, *scale).ok_or_else(malformed)?;
            if total > i128::from(i64::MAX) + 1 {
                return Err(out_of_range());
            }
            rest = &tail[unit.len()..];
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed).map(|nanoseconds| GoDuration { nanoseconds }).map_err(|_| out_of_range())
    }
}

/// A decimal number times `scale`, cut to whole units; `None` if it is no number or absurdly long.
fn scaled(number: &str, scale: u64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
    let mut value = whole * i128::from(scale);
    let mut place = i128::from(scale);
    for digit in fraction.bytes() {
        place /= 10;
        value += i128::from(digit - b'0') * place;
    }
    Some(value)
}

/// Words separated by commas, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

impl FromStr for Words {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut words: Vec<String> = text.split(',').map(str::to_owned).collect();
        words.sort();
        words.dedup();
        Ok(Words(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, want, why) in [
            ("100", Some(100), "decimal"),
            ("0", Some(0), "zero is not an octal prefix"),
            ("0x10", Some(16), "hexadecimal"),
            ("0X1f", Some(31), "either case"),
            ("0b101", Some(5), "binary"),
            ("0o17", Some(15), "octal"),
            ("017", Some(15), "octal, C style"),
            ("1_000", Some(1000), "underscores between digits"),
            ("0x_10", Some(16), "underscore after a prefix"),
            ("18446744073709551615", Some(u64::MAX), "the largest"),
            ("18446744073709551616", None, "one too many"),
            ("", None, "empty"),
            ("_1", None, "leading underscore"),
            ("1__0", None, "two underscores"),
            ("-1", None, "no sign in an unsigned number"),
            ("+1", None, "not even plus"),
            ("1k", None, "no suffix"),
            ("0x", None, "prefix without digits"),
            ("09", None, "9 is no octal digit"),
            ("1.0", None, "no fraction"),
        ] {
            assert_eq!(text.parse::<Whole>().ok().map(|whole| whole.0), want, "{text:?}: {why}");
        }
        assert_eq!("-0x10".parse(), Ok(Signed(-16)));
        assert_eq!("-9223372036854775808".parse(), Ok(Signed(i64::MIN)));
        assert!("9223372036854775808".parse::<Signed>().is_err());
        assert!("--1".parse::<Signed>().is_err());
        assert_eq!("4294967295".parse(), Ok(Whole32(u32::MAX)));
        assert!("4294967296".parse::<Whole32>().is_err());
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, want, why) in [
            ("100ms", Some(100_000_000), "one unit"),
            ("1m30s", Some(90_000_000_000), "two units"),
            ("1h", Some(3_600_000_000_000), "hours"),
            ("1.5s", Some(1_500_000_000), "fraction"),
            (".5s", Some(500_000_000), "no digit before the point"),
            ("1.s", Some(1_000_000_000), "no digit after the point"),
            ("0", Some(0), "zero alone needs no unit"),
            ("-2s", Some(-2_000_000_000), "negative"),
            ("+2s", Some(2_000_000_000), "plus"),
            ("5us", Some(5_000), "micro in ASCII"),
            ("5µs", Some(5_000), "micro sign"),
            ("5μs", Some(5_000), "Greek mu"),
            ("10", None, "a unit is needed"),
            ("1d", None, "no days in Go"),
            ("", None, "empty"),
            ("-", None, "sign alone"),
            (".s", None, "point alone"),
            ("1.2.3s", None, "two points"),
            ("ms", None, "unit alone"),
            ("3000000h", None, "more than 292 years"),
            ("99999999999999999999h", None, "digits beyond 64 bits"),
        ] {
            let got = text.parse::<GoDuration>().ok().map(|duration| duration.nanoseconds);
            assert_eq!(got, want, "{text:?}: {why}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanoseconds, want) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (100_000_000, "100ms"),
            (102_345_678, "102.345678ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (90_000_000_000, "1m30s"),
            (7_200_000_000_000, "2h0m0s"),
            (-2_000_000_000, "-2s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration { nanoseconds }.to_string(), want);
        }
    }

    #[test]
    fn switches_take_what_go_takes() {
        for (text, want) in [
            ("true", Some(true)),
            ("T", Some(true)),
            ("1", Some(true)),
            ("FALSE", Some(false)),
            ("0", Some(false)),
            ("yes", None),
            ("", None),
            ("tRUE", None),
        ] {
            assert_eq!(text.parse::<Switch>().ok().map(|switch| switch.0), want, "{text:?}");
        }
    }

    #[test]
    fn words_are_sorted_and_unique() {
        assert_eq!("b,a,b".parse(), Ok(Words(vec!["a".into(), "b".into()])));
        assert_eq!("".parse(), Ok(Words(vec![String::new()])), "as etcd: one empty word");
    }
}
