//! Quantities with their units, and every conversion between them.
//!
//! A number without a unit in its type or name is a bug waiting for a bytes-versus-MiB mix-up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// GPU memory in MiB (2^20 bytes), as DCGM's `FB_*` fields and NVML print it.
///
/// `Mib(9_856).to_string()` is `9,856 MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mib(pub u64);

impl Mib {
    /// Rounds bytes up to whole MiB.
    pub fn from_bytes_ceil(bytes: u64) -> Self {
        Self(bytes.div_ceil(1 << 20))
    }

    /// The need for a peak of `self` with `percent` headroom: ⌈self × (100 + percent) ÷ 100⌉.
    pub fn with_headroom_percent(self, percent: u32) -> Self {
        Self((self.0 * (100 + u64::from(percent))).div_ceil(100))
    }

    /// ⌊self × share⌋, for limits.
    pub fn share_floor(self, share: Ratio) -> Self {
        Self(self.0 * u64::from(share.ppm()) / 1_000_000)
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", thousands(self.0))
    }
}

impl std::ops::Add for Mib {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::iter::Sum for Mib {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), |a, b| a + b)
    }
}

/// A share of something, 0 to 1, kept in parts per million so that equal inputs give equal bytes.
///
/// `Ratio::from_f64(0.19)` displays as `19 %`, `Ratio::from_f64(0.128)` as `12.8 %`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All of it.
    pub const ONE: Self = Self(1_000_000);

    /// From parts per million; values above one are kept (a broken exporter can print 1.29).
    pub const fn from_ppm(ppm: u32) -> Self {
        Self(ppm)
    }

    /// Rounds to the nearest part per million. `None` for negative, NaN, infinite or absurd (≥ 4,000) values.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before the cast"
    )]
    pub fn from_f64(value: f64) -> Option<Self> {
        (value.is_finite() && (0.0..4_000.0).contains(&value)).then(|| Self((value * 1e6).round() as u32))
    }

    /// `numerator ÷ denominator`, rounded down. `None` when the denominator is zero or the result does not fit.
    pub fn of(numerator: u64, denominator: u64) -> Option<Self> {
        let ppm = u128::from(numerator) * 1_000_000 / u128::from(std::num::NonZero::new(denominator)?.get());
        u32::try_from(ppm).ok().map(Self)
    }

    /// Parts per million.
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Thousandths, rounded up: the unit of compute needs (`19 %` is 190).
    pub const fn milli_ceil(self) -> u32 {
        self.0.div_ceil(1_000)
    }

    /// As a float, for display and charts only.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (u64::from(self.0) + 500) / 1_000;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} %"),
            (whole, tenth) => write!(f, "{whole}.{tenth} %"),
        }
    }
}

impl Serialize for Ratio {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::from_f64(value)
            .ok_or_else(|| serde::de::Error::custom(format!("{value} is not a share between 0 and 1")))
    }
}

/// An amount of money: millionths of one unit of `currency` (an ISO 4217 code). The period is in the field's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Money {
    /// Millionths of the currency's unit.
    pub micros: i64,
    /// ISO 4217 code, `USD`.
    pub currency: String,
}

impl Money {
    /// Hours in the month that monthly figures are given for (365 × 24 ÷ 12).
    pub const HOURS_PER_MONTH: i64 = 730;

    /// Rounds to the nearest millionth. `None` when `units` is not finite or out of range.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before the cast")]
    pub fn from_f64(units: f64, currency: &str) -> Option<Self> {
        (units.is_finite() && units.abs() < 1e12)
            .then(|| Self { micros: (units * 1e6).round() as i64, currency: currency.to_owned() })
    }

    /// An hourly price as a price for one month of 730 hours.
    #[must_use]
    pub fn per_month_from_hour(&self) -> Self {
        self.times(Self::HOURS_PER_MONTH)
    }

    /// `self × count`, saturating.
    #[must_use]
    pub fn times(&self, count: i64) -> Self {
        Self { micros: self.micros.saturating_mul(count), currency: self.currency.clone() }
    }

    /// Adds an amount of the same currency; `None` when the currencies differ.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        (self.currency == other.currency).then(|| Self {
            micros: self.micros.saturating_add(other.micros),
            currency: self.currency.clone(),
        })
    }
}

impl fmt::Display for Money {
    /// `$1,120` for whole amounts of 100 and more, `$3.67` below; other currencies with their code: `1,120 CHF`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.micros < 0 { "-" } else { "" };
        let micros = self.micros.unsigned_abs();
        let amount = if micros >= 100_000_000 {
            thousands((micros + 500_000) / 1_000_000)
        } else {
            let cents = (micros + 5_000) / 10_000;
            format!("{}.{:02}", cents / 100, cents % 100)
        };
        match self.currency.as_str() {
            "USD" => write!(f, "{sign}${amount}"),
            "EUR" => write!(f, "{sign}€{amount}"),
            "GBP" => write!(f, "{sign}£{amount}"),
            code => write!(f, "{sign}{amount} {code}"),
        }
    }
}

/// `1234567` as `1,234,567`.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 node`, `2 nodes`. For nouns that take an `s`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(n as u64), if n == 1 { "" } else { "s" })
}

/// The first `most` of some texts, and how many more there are: `a, b, c and 2 more`.
pub fn first_few<T: AsRef<str>>(texts: &[T], most: usize, between: &str) -> String {
    let shown: Vec<&str> = texts.iter().take(most).map(AsRef::as_ref).collect();
    match texts.len() - shown.len() {
        0 => shown.join(between),
        more => format!("{} and {} more", shown.join(between), thousands(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_end_with_their_rest() {
        assert_eq!(first_few(&["a", "b"], 2, ", "), "a, b");
        assert_eq!(first_few(&["a", "b", "c", "d"], 2, "; "), "a; b and 2 more");
    }

    #[test]
    fn headroom_rounds_up() {
        assert_eq!(Mib(7_578).with_headroom_percent(20), Mib(9_094));
        assert_eq!(Mib(1).with_headroom_percent(20), Mib(2));
    }

    #[test]
    fn money_reads_as_people_write_it() {
        let show = |units: f64, currency: &str| Money::from_f64(units, currency).unwrap().to_string();
        assert_eq!(show(3.67, "USD"), "$3.67");
        assert_eq!(show(5_358.2, "USD"), "$5,358");
        assert_eq!(show(-5_358.2, "CHF"), "-5,358 CHF");
    }

    #[test]
    fn ratios_refuse_what_is_not_a_share() {
        assert_eq!(Ratio::from_f64(f64::NAN), None);
        assert_eq!(Ratio::from_f64(-0.1), None);
        assert_eq!(Ratio::from_f64(140_737_488_355_328.0), None);
        assert_eq!(Ratio::from_f64(0.128).unwrap().to_string(), "12.8 %");
        assert_eq!(Ratio::of(28, 108).unwrap().ppm(), 259_259);
        assert_eq!(Ratio::of(1, 0), None);
    }

    #[test]
    fn usable_share_is_floored() {
        assert_eq!(Mib(23_028).share_floor(Ratio::from_ppm(800_000)), Mib(18_422));
    }
}
