//! Tables and numbers as people read them.

use comfy_table::{CellAlignment, Table, presets};
use infc_artifact::SizeExpr;

/// Which side a column keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A table of text, indented by two, without lines.
pub(crate) fn table(columns: &[(&str, Side)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|(name, _)| *name));
    table.add_rows(rows);
    for (column, (_, side)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        column.set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    table.lines().map(|line| format!("  {}\n", line.trim_end()).replace("  \n", "\n")).collect()
}

/// `99.1 MB`: decimal units, three digits.
pub(crate) fn bytes(count: u64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB"])
}

/// `4.1 G`: a large count.
pub(crate) fn count(count: u64) -> String {
    scaled(count, &["", "k", "M", "G", "T"])
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn scaled(count: u64, units: &[&str]) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", units[unit]).trim_end().to_owned()
}

/// A time in milliseconds with three digits or more.
pub(crate) fn millis(ms: f64) -> String {
    let digits = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        3
    };
    format!("{ms:.digits$} ms")
}

/// An element of a tensor, in about six digits.
pub(crate) fn number(x: f64) -> String {
    if x == x.trunc() && x.abs() < 1e15 {
        return format!("{x}");
    }
    if x.abs() >= 1e6 || x.abs() < 1e-4 { format!("{x:.5e}") } else { format!("{x:.6}") }
}

/// `1.3 s`: a time that people wait.
pub(crate) fn seconds(time: std::time::Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 1000.0 { millis(ms) } else { format!("{:.1} s", ms / 1e3) }
}

/// `97 %`, or `-` of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share in percent")]
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// A size at given symbol values; `None` if it has none.
pub(crate) fn value(size: &SizeExpr, symbols: &[i64]) -> Option<u64> {
    size.eval_size(symbols).ok().map(|value| value as u64)
}

/// The first few of many names: `a, b, … (7)`.
pub(crate) fn few(names: &[String], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
    let more = if names.len() > most { format!(", … ({})", names.len()) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(99_100_000), "99.1 MB");
        assert_eq!(bytes(999_700), "1.00 MB");
        assert_eq!(count(0), "0");
        assert_eq!(count(4_089_000_000), "4.09 G");
        assert_eq!(millis(0.01234), "0.012 ms");
        assert_eq!(millis(1234.5), "1234 ms");
        assert_eq!(percent(1, 3), "33 %");
        assert_eq!(percent(0, 0), "-");
        assert_eq!(number(3.0), "3");
        assert_eq!(number(0.25), "0.250000");
        assert_eq!(number(1.5e-9), "1.50000e-9");
        assert_eq!(number(f64::NEG_INFINITY), "-inf");
        assert_eq!(few(&["a".to_owned(), "b".to_owned(), "c".to_owned()], 2), "a, b, … (3)");
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "200".to_owned()]];
        let text = table(&[("name", Side::Left), ("count", Side::Right)], rows);
        assert_eq!(text, "  name  count\n  a         1\n  bcd     200\n");
    }
}
