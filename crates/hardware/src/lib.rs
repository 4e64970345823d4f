//! What has to be seen on an NVIDIA GPU: that its instructions do what the simulator takes them to do, that kernels and models
//! agree with their definitions, and how fast they are.
//!
//! All of it is written against [`infc_runtime::Gpu`], so that it runs on the simulator too: there it is a test of itself, and
//! of what was recorded on hardware. Only developers use this crate, by its command `infc-hardware`.

#![forbid(unsafe_code)]

pub mod child;
pub mod device;
pub mod instructions;
pub mod kernels;
pub mod library;
pub mod models;
pub mod report;
pub mod speed;
pub mod sweep;

/// The day by the machine's clock, in its time zone zero, as in 2026-11-25.
#[must_use]
pub fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(i64::try_from(seconds / 86_400).unwrap_or(0))
}

/// The date so many days after 1970-01-01, by years that begin in March and eras of 400 years.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let days = [0, 59, 11_016, 20_782, -1];
        assert_eq!(days.map(date), ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-25", "1969-12-31"]);
    }
}
