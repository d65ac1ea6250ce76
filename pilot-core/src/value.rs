//! 𝒱: the values of items and attributes, of four kinds, each with one exact meaning on every machine.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::str::FromStr;
use time::{Date, Month, OffsetDateTime, UtcOffset};

/// The kind of a value; comparisons are only between values of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A decimal number.
    Number,
    /// A text.
    String,
    /// True or false.
    Boolean,
    /// A moment.
    Time,
}

impl Kind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::Number, Self::String, Self::Boolean, Self::Time];

    /// The word for the kind in vocabulary files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Time => "time",
        }
    }

    /// Whether values of this kind can be compared with `<`.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Number | Self::Time)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A value c ∈ 𝒱. The undefined value ⊥ is the absence of one: `Option<Value>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A decimal number.
    Number(Number),
    /// A text; shared, so that states are cheap to copy.
    String(Arc<str>),
    /// True or false.
    Boolean(bool),
    /// A moment.
    Time(Time),
}

/// Says the kind only: values are personal, and `Debug` ends up in logs and panics.
impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "<{}>", self.kind())
    }
}

impl Value {
    /// The kind of this value.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Number,
            Self::String(_) => Kind::String,
            Self::Boolean(_) => Kind::Boolean,
            Self::Time(_) => Kind::Time,
        }
    }
}

/// An exact decimal number with up to six decimal places.
///
/// Counted in millionths: no rounding, no NaN, no second form of the same number. Six places are
/// a tenth of a metre in degrees of latitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Number(i64);

impl Number {
    const SCALE: i64 = 1_000_000;
    const PLACES: usize = 6;

    /// The number of this many millionths.
    pub const fn from_millionths(millionths: i64) -> Self {
        Self(millionths)
    }

    /// This number in millionths.
    pub const fn millionths(self) -> i64 {
        self.0
    }

    /// A small whole number.
    pub const fn whole(number: u32) -> Self {
        Self(number as i64 * Self::SCALE)
    }

    /// The nearest `f64`, for functions of real numbers.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / Self::SCALE as f64
    }

    /// The nearest number; saturates, and takes what is not a number as zero.
    pub fn from_f64(number: f64) -> Self {
        // `as` from float to integer saturates and maps NaN to 0.
        Self(libm::round(number * Self::SCALE as f64) as i64)
    }
}

/// Why a text is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// Not digits, with an optional sign and fraction.
    #[error("not a number")]
    NotANumber,
    /// More than six decimal places.
    #[error("a number has at most six decimal places")]
    TooPrecise,
    /// Out of the range of 64-bit millionths.
    #[error("a number is between -9223372036854.775808 and 9223372036854.775807")]
    OutOfRange,
}

impl FromStr for Number {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(NumberError::NotANumber);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > Self::PLACES {
            return Err(NumberError::TooPrecise);
        }
        let mut millionths: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            millionths = millionths * 10 + i128::from(digit - b'0');
            if millionths > i128::from(u64::MAX) {
                return Err(NumberError::OutOfRange);
            }
        }
        for _ in fraction.len()..Self::PLACES {
            millionths *= 10;
        }
        let signed = if negative { -millionths } else { millionths };
        i64::try_from(signed).map(Self).map_err(|_| NumberError::OutOfRange)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            out.write_str("-")?;
        }
        let scale = Self::SCALE.unsigned_abs();
        write!(out, "{}", self.0.unsigned_abs() / scale)?;
        let fraction = self.0.unsigned_abs() % scale;
        if fraction > 0 {
            let digits = alloc::format!("{fraction:06}");
            write!(out, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// A moment: seconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The last moment that RFC 3339 can write: 9999-12-31T23:59:59Z.
    pub const LAST_WRITABLE: Self = Self(253_402_300_799);
    const DAY: u64 = 86_400;

    /// The moment this many seconds after 1970.
    pub const fn from_unix(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970.
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// Whether it falls on midnight UTC, so that its date says all.
    pub const fn is_midnight(self) -> bool {
        self.0.is_multiple_of(Self::DAY)
    }

    /// Hour of the day, UTC, 0 to 23.
    pub const fn hour(self) -> u32 {
        (self.0 % Self::DAY / 3_600) as u32
    }

    /// Minute of the hour, 0 to 59.
    pub const fn minute(self) -> u32 {
        (self.0 % 3_600 / 60) as u32
    }

    /// Day of the week, UTC, as in ISO 8601: Monday is 1, Sunday is 7.
    pub const fn weekday(self) -> u32 {
        // 1970-01-01 was a Thursday.
        ((self.0 / Self::DAY + 3) % 7 + 1) as u32
    }

    /// Year, month and day, UTC, where the year has at most four digits.
    pub fn date(self) -> Option<(i32, u8, u8)> {
        if self > Self::LAST_WRITABLE {
            return None;
        }
        let moment = OffsetDateTime::from_unix_timestamp(i64::try_from(self.0).ok()?).ok()?;
        Some((moment.year(), moment.month().into(), moment.day()))
    }
}

/// Why a text is no moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Neither `2024-12-21` nor `2024-12-21T10:00:00Z`.
    #[error("not a date (2024-12-21) or an RFC 3339 time (2024-12-21T10:00:00Z)")]
    NotATime,
    /// Written as a date, but there is no such day or hour.
    #[error("there is no such day or time of day")]
    NoSuchTime,
    /// Parts of a second.
    #[error("times are in whole seconds")]
    Fraction,
    /// Before 1970.
    #[error("times start at 1970-01-01")]
    BeforeEpoch,
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let moment = if shape == "0000-00-00" {
            let number = |range| text.get(range).and_then(|part: &str| part.parse::<u16>().ok());
            let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
                return Err(TimeError::NotATime);
            };
            let month = u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok());
            let day = u8::try_from(day).unwrap_or(0);
            month
                .and_then(|month| Date::from_calendar_date(i32::from(year), month, day).ok())
                .map(|date| date.midnight().assume_offset(UtcOffset::UTC))
                .ok_or(TimeError::NoSuchTime)?
        } else if shape.starts_with("0000-00-00T00:00:00") {
            if shape.get(19..20) == Some(".") {
                return Err(TimeError::Fraction);
            }
            let moment = OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
            moment.map_err(|error| match error {
                time::error::Parse::TryFromParsed(_) => TimeError::NoSuchTime,
                _ => TimeError::NotATime,
            })?
        } else {
            return Err(TimeError::NotATime);
        };
        if moment.nanosecond() != 0 {
            return Err(TimeError::Fraction);
        }
        u64::try_from(moment.unix_timestamp()).map(Self).map_err(|_| TimeError::BeforeEpoch)
    }
}

/// A date when it is midnight, an RFC 3339 time otherwise, seconds beyond the year 9999.
impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((year, month, day)) = self.date() else {
            return write!(out, "{}", self.0);
        };
        write!(out, "{year:04}-{month:02}-{day:02}")?;
        if !self.is_midnight() {
            write!(out, "T{:02}:{:02}:{:02}Z", self.hour(), self.minute(), self.0 % 60)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn numbers_have_one_written_form() {
        for (text, shown) in [("18", "18"), ("-0", "0"), ("1.50", "1.5"), ("-0.000001", "-0.000001"), ("007", "7")] {
            assert_eq!(text.parse::<Number>().unwrap().to_string(), shown);
        }
        assert_eq!("1.0000001".parse::<Number>(), Err(NumberError::TooPrecise));
        assert_eq!("9223372036854.775808".parse::<Number>(), Err(NumberError::OutOfRange));
        assert_eq!("-9223372036854.775808".parse::<Number>().unwrap().millionths(), i64::MIN);
        for text in ["", "-", ".5", "5.", "1e3", "+1", "1_000", "NaN"] {
            assert_eq!(text.parse::<Number>(), Err(NumberError::NotANumber), "{text}");
        }
    }

    #[test]
    fn times_are_dates_or_rfc_3339() {
        for (text, unix) in [
            ("1970-01-01", 0),
            ("2024-12-21", 1_734_739_200),
            ("2024-04-19", 1_713_484_800),
            ("2024-12-21T01:30:00+01:30", 1_734_739_200),
            ("9999-12-31T23:59:59Z", Time::LAST_WRITABLE.unix()),
        ] {
            assert_eq!(text.parse::<Time>().unwrap().unix(), unix, "{text}");
        }
        assert_eq!("2023-02-29".parse::<Time>(), Err(TimeError::NoSuchTime));
        assert_eq!("2023-13-01".parse::<Time>(), Err(TimeError::NoSuchTime));
        assert_eq!("1969-12-31".parse::<Time>(), Err(TimeError::BeforeEpoch));
        assert_eq!("2024-12-21T00:00:00.5Z".parse::<Time>(), Err(TimeError::Fraction));
        assert_eq!("2024-12-21T00:00:00".parse::<Time>(), Err(TimeError::NotATime));
        assert_eq!("2024-12-21T25:00:00Z".parse::<Time>(), Err(TimeError::NoSuchTime));
    }

    #[test]
    fn weekdays_follow_iso_8601() {
        assert_eq!("2024-12-21".parse::<Time>().unwrap().weekday(), 6);
        assert_eq!("1970-01-01".parse::<Time>().unwrap().weekday(), 4);
        assert_eq!("2024-12-22".parse::<Time>().unwrap().weekday(), 7);
    }
}
