//! How reports write times, numbers and what comes from outside.

use pilot_core::diagnostic::is_invisible;
use pilot_core::value::Time;

/// A moment as RFC 3339 writes it, always with the time of day; beyond the year 9999, the Unix seconds.
pub fn rfc3339(time: Time) -> String {
    match time.date() {
        Some((year, month, day)) => format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(time)),
        None => time.unix().to_string(),
    }
}

/// A moment for people.
pub fn moment(time: Time) -> String {
    match time.date() {
        Some((year, month, day)) => format!("{year:04}-{month:02}-{day:02} {} UTC", time_of_day(time)),
        None => format!("{} seconds after 1970", grouped(time.unix())),
    }
}

/// 12:34:56, UTC.
pub fn time_of_day(time: Time) -> String {
    format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.unix() % 60)
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 record", "2 records".
pub fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {one}{ending}", grouped(number))
}

/// A text from outside, in which nothing steers a terminal, hides, or changes the direction of reading.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_has_a_time_of_day() {
        assert_eq!(rfc3339(Time::from_unix(1_780_272_000)), "2026-06-01T00:00:00Z");
        assert_eq!(moment(Time::from_unix(1_780_275_661)), "2026-06-01 01:01:01 UTC");
        assert_eq!(rfc3339(Time::from_unix(u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((counted(1, "record"), counted(0, "record")), ("1 record".into(), "0 records".into()));
    }

    #[test]
    fn what_hides_is_shown() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\u{9b}é"), "a\\u{1b}[2J\\u{202e}b\\u{9b}é");
    }
}
