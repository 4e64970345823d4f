//! The plots of the page as SVG: time per kernel, the roofline, and the memory plan over the steps.

use super::{Profiled, Report};
use crate::picture::svg::escape;
use crate::tables;
use std::fmt::Write;

const WIDTH: f64 = 1080.0;
/// Bars that are drawn; the rest is one more.
const BARS: usize = 20;
const BAR: f64 = 20.0;
/// Where bars begin, right of their names.
const BARS_LEFT: f64 = 300.0;

/// Time per kernel, the longest first.
pub(super) fn bars(report: &Report) -> String {
    let rest: f64 = report.kernels.iter().skip(BARS).map(|kernel| kernel.time.ms).sum();
    let mut rows: Vec<(String, f64, String)> = (report.kernels.iter().take(BARS))
        .map(|kernel| (kernel.time.name.clone(), kernel.time.ms, note(kernel)))
        .collect();
    if rest > 0.0 {
        rows.push((format!("{} more kernels", report.kernels.len() - BARS), rest, String::new()));
    }
    for (name, ms) in [("steps without a kernel", report.other_steps_ms), ("between steps", report.between_ms)] {
        if ms >= 0.0005 {
            rows.push((name.to_owned(), ms, String::new()));
        }
    }
    let longest = rows.iter().map(|row| row.1).fold(1e-9, f64::max);
    let total: f64 = rows.iter().map(|row| row.1).sum::<f64>().max(1e-9);
    let height = rows.len() as f64 * BAR + 8.0;
    let mut svg = open(height, "Time per kernel");
    for (n, (name, ms, note)) in rows.iter().enumerate() {
        let top = n as f64 * BAR + 4.0;
        let width = (ms / longest * (WIDTH - BARS_LEFT - 260.0)).max(1.0);
        let text = format!("{} · {:.1} %{note}", tables::millis(*ms), ms / total * 100.0);
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{BARS_LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"13\" rx=\"2\"/>\
             <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            BARS_LEFT - 8.0,
            top + 11.0,
            escape(&shortened(name, 44)),
            top,
            BARS_LEFT + width + 6.0,
            top + 11.0,
            escape(&text)
        );
    }
    close(svg)
}

fn note(kernel: &Profiled) -> String {
    kernel.of_roofline.map_or_else(String::new, |part| format!(" · {:.0} % of the roofline", part * 100.0))
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

/// A scale of powers of ten.
struct Log {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Log {
    /// Around values, which are greater than 0.
    fn around(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (least, most) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            return Self { from: 0.0, to: 1.0, start, end };
        }
        let (from, to) = ((least.log10() - 0.15).floor(), (most.log10() + 0.15).ceil());
        Self { from, to: to.max(from + 1.0), start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.max(1e-12).log10() - self.from) / (self.to - self.from);
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a few powers of ten")]
    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.from as i32..=self.to as i32).map(|power| 10f64.powi(power))
    }
}

fn tick_text(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{value}") }
}

/// Arithmetic over memory traffic, both logarithmic: a point per kernel, as large as its share of the time, under the
/// ceilings of arithmetic and of memory.
pub(super) fn roofline(report: &Report) -> String {
    const HEIGHT: f64 = 460.0;
    let point = |kernel: &Profiled| {
        let (macs, bytes) = (kernel.macs? as f64, kernel.bytes? as f64);
        let (x, y) = (2.0 * macs / bytes, kernel.time.gflops?);
        (x > 0.0 && x.is_finite() && y > 0.0).then_some((x, y))
    };
    let points: Vec<(f64, f64)> = report.kernels.iter().filter_map(point).collect();
    let ceilings = &report.ceilings;
    let slowest = ceilings.memory.last().map_or(1.0, |ceiling| ceiling.gb_per_s);
    let highest = ceilings.highest();
    let ridge = highest / slowest;
    let x = Log::around(points.iter().map(|p| p.0).chain([ridge]), 62.0, WIDTH - 20.0);
    let y = Log::around(points.iter().map(|p| p.1).chain(ceilings.of_arithmetic()), HEIGHT - 42.0, 16.0);
    let mut svg = open(HEIGHT, "Roofline");
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1},{:.1} V{:.1}\"/><text class=\"note\" x=\"{at:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>",
            y.end,
            y.start,
            y.start + 16.0,
            tick_text(tick)
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{:.1},{at:.1} H{:.1}\"/><text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            x.start,
            x.end,
            x.start - 6.0,
            at + 4.0,
            tick_text(tick)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations per byte</text>\
         <text class=\"note\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>",
        f64::midpoint(x.start, x.end),
        y.start + 34.0,
        f64::midpoint(y.start, y.end)
    );
    let (left, right) = (10f64.powf(x.from), 10f64.powf(x.to));
    let floor = 10f64.powf(y.from);
    let mut named = 0;
    for (n, ceiling) in ceilings.memory.iter().enumerate() {
        // From where it enters the plot up to the ceiling of arithmetic.
        let begin = left.max(floor / ceiling.gb_per_s);
        let end = (highest / ceiling.gb_per_s).min(right);
        if begin >= end {
            continue;
        }
        let (x1, y1) = (x.at(begin), y.at(begin * ceiling.gb_per_s));
        let (x2, y2) = (x.at(end), y.at(end * ceiling.gb_per_s));
        let _ = write!(svg, "<path class=\"roof\" d=\"M{x1:.1},{y1:.1} L{x2:.1},{y2:.1}\"/>");
        // Lines that lie close together have one name.
        let next = ceilings.memory.get(n + 1);
        if next.is_some_and(|next| next.gb_per_s > 0.7 * ceilings.memory[named].gb_per_s) {
            continue;
        }
        let first = ceilings.memory[named].gb_per_s;
        let rate = if named == n { format!("{first:.0}") } else { format!("{first:.0} to {:.0}", ceiling.gb_per_s) };
        named = n + 1;
        let text = format!("{rate} GB/s up to {}", tables::bytes(ceiling.bytes as u64));
        let _ = write!(
            svg,
            "<text class=\"rooftext\" transform=\"translate({:.1} {:.1}) rotate({:.1})\">{}</text>",
            x1 + 16.0,
            y1 + (y2 - y1) / (x2 - x1) * 16.0 + 15.0,
            (y2 - y1).atan2(x2 - x1).to_degrees(),
            escape(&text)
        );
    }
    let fastest = ceilings.memory.first().map_or(1.0, |ceiling| ceiling.gb_per_s);
    for rate in ceilings.of_arithmetic() {
        let roof = y.at(rate);
        let _ = write!(
            svg,
            "<path class=\"roof\" d=\"M{:.1},{roof:.1} H{:.1}\"/><text class=\"rooftext\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{rate:.0} GFLOP/s{}</text>",
            x.at((rate / fastest).max(left)),
            x.end,
            x.end - 4.0,
            roof - 5.0,
            if rate > ceilings.gflops { " in tiles of 16-bit floats" } else { "" }
        );
    }
    for kernel in &report.kernels {
        let Some((intensity, rate)) = point(kernel) else { continue };
        let radius = 3.0 + 30.0 * kernel.time.share.sqrt();
        let title = format!(
            "{}\n{} ({:.1} %){}\n{rate:.1} GFLOP/s at {intensity:.2} operations per byte",
            kernel.time.name,
            tables::millis(kernel.time.ms),
            kernel.time.share * 100.0,
            note(kernel)
        );
        let _ = write!(
            svg,
            "<circle class=\"point\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"><title>{}</title></circle>",
            x.at(intensity),
            y.at(rate),
            escape(&title)
        );
    }
    close(svg)
}

/// A piece of the arena, and the steps that it is kept for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) slot: usize,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first_step: u32,
    pub(super) last_step: u32,
}

/// Where values lie in the arena, upwards, and how long, to the right.
pub(super) fn memory(pieces: &[Piece], steps: usize, arena_bytes: u64) -> String {
    const HEIGHT: f64 = 340.0;
    let (left, right, top, bottom) = (78.0, WIDTH - 20.0, 12.0, HEIGHT - 36.0);
    let x = |step: f64| left + step / steps.max(1) as f64 * (right - left);
    let y = |bytes: u64| bottom - bytes as f64 / arena_bytes.max(1) as f64 * (bottom - top);
    let mut svg = open(HEIGHT, "Memory plan");
    for quarter in 0..=4u64 {
        let bytes = arena_bytes / 4 * quarter;
        let at = y(bytes);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{left},{at:.1} H{right}\"/><text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            tables::bytes(bytes)
        );
    }
    for piece in pieces {
        let (x1, x2) = (x(f64::from(piece.first_step)), x(f64::from(piece.last_step) + 1.0));
        let (y1, y2) = (y(piece.offset + piece.bytes), y(piece.offset));
        // Neighbours get colours that are far apart: steps of the golden angle.
        let hue = (piece.slot as f64 * 137.508).rem_euclid(360.0);
        let title = format!(
            "slot {}: {} at {}, steps {} to {}",
            piece.slot,
            tables::bytes(piece.bytes),
            piece.offset,
            piece.first_step,
            piece.last_step
        );
        let _ = write!(
            svg,
            "<rect x=\"{x1:.1}\" y=\"{y1:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"hsl({hue:.0} 62% 70%)\" \
             stroke=\"#fff\" stroke-width=\".6\"><title>{}</title></rect>",
            (x2 - x1).max(0.8),
            (y2 - y1).max(0.8),
            escape(&title)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">steps 0 to {}</text>",
        f64::midpoint(left, right),
        bottom + 24.0,
        steps.saturating_sub(1)
    );
    close(svg)
}

fn open(height: f64, title: &str) -> String {
    format!("<svg class=\"chart\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">")
}

fn close(mut svg: String) -> String {
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_their_values() {
        let scale = Log::around([0.5, 30.0].into_iter(), 0.0, 100.0);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [0.1, 1.0, 10.0, 100.0]);
        assert!(scale.at(0.5) > 0.0 && scale.at(30.0) < 100.0);
        assert_eq!((scale.at(1e-9), scale.at(1e9)), (0.0, 100.0), "what is outside is drawn at the border");
        assert_eq!(Log::around(std::iter::empty(), 0.0, 1.0).ticks().count(), 2);
    }
}
