//! Formats numbers for people.

use super::plan::Quantity;

/// `12345` becomes `12,345`.
pub(super) fn thousands(value: u64) -> String {
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

/// A factor with two significant digits: `1.4×`, `17×`, `2,300×`.
pub(super) fn factor(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.1}×"),
        value if value < 99.5 => format!("{value:.0}×"),
        value => {
            let unit = 10_f64.powf(value.log10().floor() - 1.0);
            format!("{}×", thousands(((value / unit).round() * unit) as u64))
        }
    }
}

/// A quantity with its unit and three significant digits.
pub(super) fn amount(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Seconds => time(value),
        Quantity::PerOp | Quantity::Cpu => time(value * 1e-9),
        Quantity::Memory => format!("{} B", thousands(value.max(0.0).round() as u64)),
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
pub(super) fn tick(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Memory if value >= 1e6 => format!("{} MB", value / 1e6),
        Quantity::Memory if value >= 1e3 => format!("{} kB", value / 1e3),
        Quantity::Memory => format!("{value} B"),
        Quantity::Seconds => round_time(value),
        Quantity::PerOp | Quantity::Cpu => round_time(value * 1e-9),
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
pub(super) fn count_tick(value: f64) -> String {
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
    }
}
