//! Formats numbers for people.

use super::plan::Quantity;

/// `12345` becomes `12,345`.
pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, whose noun is given in the plural: `1 person`, `1,024 people`, `1 pair of
/// strands`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", thousands(count), inflected(count, noun))
}

/// The noun, given in the plural, as this count of it demands.
pub(crate) fn inflected(count: u64, noun: &str) -> String {
    if count != 1 {
        return noun.to_owned();
    }
    let (first, rest) = noun.split_at(noun.find(' ').unwrap_or(noun.len()));
    let one = match first {
        "people" => "person",
        "processes" => "process",
        regular => regular.strip_suffix('s').unwrap_or(regular),
    };
    format!("{one}{rest}")
}

/// A factor with two significant digits: `1.4×`, `17×`, `2,300×`.
pub(crate) fn factor(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}×"),
        value if value < 99.5 => format!("{value:.0}×"),
        value => {
            let unit = 10_f64.powf(value.log10().floor() - 1.0);
            format!("{}×", thousands(((value / unit).round() * unit) as u64))
        }
    }
}

/// A share with its sign: `+12 %`, `-3.4 %`.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent.abs() < 9.95 => format!("{percent:+.1} %"),
        percent => format!("{percent:+.0} %"),
    }
}

/// A quantity with its unit and three significant digits.
pub(crate) fn amount(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Seconds | Quantity::Latency => time(value),
        Quantity::PerOp | Quantity::Cpu | Quantity::Accept | Quantity::LongestAccept => {
            time(value * 1e-9)
        }
        Quantity::Memory => format!("{} B", thousands(value.max(0.0).round() as u64)),
        Quantity::Requests => format!("{} requests/s", thousands(value.max(0.0).round() as u64)),
    }
}

fn time(seconds: f64) -> String {
    let (scale, unit) = match seconds {
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "µs"),
        s if s < 1.0 => (1e3, "ms"),
        _ => (1.0, "s"),
    };
    format!("{} {unit}", three_digits(seconds * scale))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A tick of an axis. Ticks are round numbers, so they are printed without trailing zeros.
pub(crate) fn tick(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Memory if value >= 1e6 => format!("{} MB", value / 1e6),
        Quantity::Memory if value >= 1e3 => format!("{} kB", value / 1e3),
        Quantity::Memory => format!("{value} B"),
        Quantity::Requests => format!("{}/s", count_tick(value)),
        Quantity::Seconds | Quantity::Latency => round_time(value),
        Quantity::PerOp | Quantity::Cpu | Quantity::Accept | Quantity::LongestAccept => {
            round_time(value * 1e-9)
        }
    }
}

fn round_time(seconds: f64) -> String {
    let text = time(seconds * 1.000_001);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = number.trim_end_matches('0').trim_end_matches('.');
    match number {
        // A whole ten or hundred has no decimal point, so its zeros are significant.
        _ if !text.contains('.') => text,
        number => format!("{number} {unit}"),
    }
}

/// A count on an axis: `1k`, `10k`, `1M`.
pub(crate) fn count_tick(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 10_000.0 => format!("{}k", value / 1e3),
        value => thousands(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [thousands(7), thousands(1234), thousands(1_000_000)],
            ["7", "1,234", "1,000,000"]
        );
        assert_eq!([factor(1.44), factor(17.2), factor(2345.0)], ["1.4×", "17×", "2,300×"]);
        assert_eq!(amount(Quantity::Seconds, 0.012_34), "12.3 ms");
        assert_eq!(amount(Quantity::PerOp, 3.1), "3.10 ns");
        assert_eq!(amount(Quantity::PerOp, 43_600.0), "43.6 µs");
        assert_eq!(amount(Quantity::Memory, 4567.8), "4,568 B");
        assert_eq!(amount(Quantity::Requests, 103_917.4), "103,917 requests/s");
        assert_eq!(amount(Quantity::Latency, 0.002_46), "2.46 ms");
    }

    #[test]
    fn one_thing_is_singular() {
        let nouns = ["people", "pairs of strands", "nutrients each", "levels", "processes"];
        assert_eq!(
            nouns.map(|noun| counted(1, noun)),
            ["1 person", "1 pair of strands", "1 nutrient each", "1 level", "1 process"]
        );
        assert_eq!(counted(2048, "people"), "2,048 people");
    }

    #[test]
    fn ticks_are_short() {
        let times: Vec<_> =
            [1e-6, 1e-5, 1e-4, 1e-3, 0.1, 1.0, 10.0].map(|s| tick(Quantity::Seconds, s)).into();
        assert_eq!(times, ["1 µs", "10 µs", "100 µs", "1 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(
            [1.0, 512.0, 2048.0, 1e4, 1e6].map(count_tick),
            ["1", "512", "2,048", "10k", "1M"]
        );
        assert_eq!(tick(Quantity::Memory, 4096.0), "4.096 kB");
        assert_eq!(tick(Quantity::Requests, 20_000.0), "20k/s");
    }
}
