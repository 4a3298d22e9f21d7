//! Times as lines of the log show them, and as names of files put aside have them. UTC.

use std::time::Duration;

pub(super) const SECONDS_PER_DAY: i64 = 24 * 60 * 60;
/// Days from the first of March of the year 0 to 1970.
const EPOCH_DAYS: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// A time since 1970 like `2026-12-01T02:03:04.567890Z`.
pub(crate) fn time_text(since_epoch: Duration) -> String {
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
    // Years begin in March, so that the day that is not always there is their last.
    let days = seconds / SECONDS_PER_DAY + EPOCH_DAYS;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, month + 3);
    let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Seconds since 1970 of a time like `2026-12-01T02-03-04.567`; colons for the later dashes will do.
pub(super) fn seconds(time: &str) -> Option<i64> {
    if time.len() < 23 || !time.is_ascii() {
        return None;
    }
    let separators = time.bytes().enumerate().all(|(position, byte)| match position {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b'-' || byte == b':',
        19 => byte == b'.',
        0..23 => byte.is_ascii_digit(),
        _ => true,
    });
    if !separators {
        return None;
    }
    let part = |from: usize, to: usize| time[from..to].parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March here too.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - EPOCH_DAYS;
    Some(days * SECONDS_PER_DAY + part(11, 13)? * 3600 + part(14, 16)? * 60 + part(17, 19)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        for (time, want, why) in [
            ("1970-01-01T00-00-00.000", Some(0), "the beginning"),
            ("2000-02-29T23:59:59.999999Z", Some(951_868_799), "a leap day, with colons"),
            ("2000-03-01T00-00-00.000", Some(951_868_800), "the day after"),
            ("2026-12-01T02-03-04.567", Some(1_796_090_584), "of late"),
            ("2026-13-01T02-03-04.567", None, "no such month"),
            ("2026-12-01 02-03-04.567", None, "no T"),
            ("note", None, "no time"),
        ] {
            assert_eq!(seconds(time), want, "{time}: {why}");
        }
    }

    #[test]
    fn seconds_are_times() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_868_799, "2000-02-29T23:59:59.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (1_704_067_199, "2023-12-31T23:59:59.000000Z"),
            (1_796_090_584, "2026-12-01T02:03:04.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(time_text(Duration::from_secs(seconds)), want);
        }
        assert_eq!(time_text(Duration::from_micros(1_000_007)), "1970-01-01T00:00:01.000007Z");
        for day in 0..60_000 {
            let time = time_text(Duration::from_secs(day * 86_400 + 5));
            assert_eq!(super::seconds(&time), Some(day as i64 * 86_400 + 5), "{time}");
        }
    }
}
