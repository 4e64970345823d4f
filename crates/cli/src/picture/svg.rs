//! The picture as SVG: layers from top to bottom, a card per node, the schedule and the names of ONNX nodes where the
//! pointer rests.

use super::layers::{Size, place};
use super::{Kind, Node, Picture, short};
use std::fmt::Write;

const LINE: f64 = 15.0;
const PADDING: f64 = 9.0;
const TITLE_CHAR: f64 = 8.3;
const TEXT_CHAR: f64 = 6.3;
const MIN_WIDTH: f64 = 96.0;
/// Longer texts are cut; the whole is in the tooltip.
const MAX_CHARS: usize = 40;
const ORIGINS_SHOWN: usize = 3;

const STYLE: &str = "\
.graph text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif;font-size:11px;fill:#4b5563}\
.graph .title{font-size:12.5px;font-weight:600;fill:#111827}\
.graph .edge{fill:none;stroke:#9ca3af;stroke-width:1.3}\
.graph .size{font-size:9.5px;fill:#6b7280;stroke:#fff;stroke-width:3px;paint-order:stroke}";

/// The whole file.
pub(crate) fn file(picture: &Picture, title: &str) -> String {
    let (width, height, body) = drawing(picture);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\"><title>{}</title>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}</svg>\n",
        escape(title)
    )
}

/// Width, height, and the elements between.
pub(crate) fn drawing(picture: &Picture) -> (f64, f64, String) {
    let cards: Vec<Card> = picture.nodes.iter().map(Card::new).collect();
    let sizes: Vec<Size> = cards.iter().map(|card| card.size).collect();
    let ends: Vec<(usize, usize)> = picture.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = place(&sizes, &ends);
    let mut svg = format!(
        "<style>{STYLE}</style><defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0,1 L7,4 L0,7 z\" fill=\"#9ca3af\"/></marker></defs><g class=\"graph\">"
    );
    for (edge, points) in picture.edges.iter().zip(&layout.edges) {
        let _ = write!(
            svg,
            "<path class=\"edge\" d=\"{}\" marker-end=\"url(#tip)\"><title>{}</title></path>",
            curve(points),
            escape(&edge.label)
        );
    }
    // What a node makes is said once, below it, however many read it.
    let mut said: Vec<(usize, u32)> = Vec::new();
    for (edge, points) in picture.edges.iter().zip(&layout.edges) {
        let shown = picture.nodes[edge.from].kind != Kind::Input && picture.nodes[edge.to].kind != Kind::Output;
        if shown && !said.contains(&(edge.from, edge.slot)) {
            said.push((edge.from, edge.slot));
            let (x, y) = points[0];
            let _ = write!(
                svg,
                "<text class=\"size\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 5.0,
                y + 13.0,
                escape(&edge.label)
            );
        }
    }
    for ((node, card), &(x, y)) in picture.nodes.iter().zip(&cards).zip(&layout.nodes) {
        card.draw(node, x, y, &mut svg);
    }
    svg.push_str("</g>");
    (layout.width, layout.height, svg)
}

/// A node as it is drawn.
struct Card {
    lines: Vec<String>,
    size: Size,
}

impl Card {
    fn new(node: &Node) -> Self {
        let mut lines = vec![cut(&node.title)];
        let named: Vec<String> = node.origins.iter().map(|origin| cut(&short(origin))).collect();
        lines.extend(named.iter().take(ORIGINS_SHOWN).cloned());
        if named.len() > ORIGINS_SHOWN {
            lines.push(format!("… and {} more", named.len() - ORIGINS_SHOWN));
        }
        let mut facts = node.facts.clone();
        facts.extend(node.share.map(|share| format!("{:.1} %", share * 100.0)));
        if !facts.is_empty() {
            lines.push(facts.join(" · "));
        }
        let width = |(n, line): (usize, &String)| {
            line.chars().count() as f64 * if n == 0 { TITLE_CHAR } else { TEXT_CHAR } + 2.0 * PADDING + 4.0
        };
        let width = lines.iter().enumerate().map(width).fold(MIN_WIDTH, f64::max);
        let height = lines.len() as f64 * LINE + 2.0 * PADDING - 3.0;
        Self { size: Size { width, height }, lines }
    }

    fn draw(&self, node: &Node, x: f64, y: f64, svg: &mut String) {
        let Size { width, height } = self.size;
        let (left, top) = (x - width / 2.0, y - height / 2.0);
        let (fill, stripe) = colours(node);
        let _ = write!(
            svg,
            "<g transform=\"translate({left:.1} {top:.1})\"><title>{}</title>\
             <rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\" fill=\"{fill}\" stroke=\"{stripe}\"/>\
             <path d=\"M5,0 a5,5 0 0 0 -5,5 V{:.1} a5,5 0 0 0 5,5 z\" fill=\"{stripe}\"/>",
            escape(&tooltip(node)),
            height - 5.0
        );
        for (n, line) in self.lines.iter().enumerate() {
            let class = if n == 0 { " class=\"title\"" } else { "" };
            let baseline = PADDING + LINE * n as f64 + 9.0;
            let _ = write!(svg, "<text{class} x=\"{:.1}\" y=\"{baseline:.1}\">{}</text>", PADDING + 4.0, escape(line));
        }
        svg.push_str("</g>");
    }
}

/// Fill, and stripe and border. With times, the fill tells who has most of them.
fn colours(node: &Node) -> (String, &'static str) {
    let (fill, stripe) = match node.kind {
        Kind::Input => ("#ecfdf5", "#059669"),
        Kind::Output => ("#f5f3ff", "#7c3aed"),
        Kind::Kernel => ("#eff6ff", "#2563eb"),
        Kind::Host => ("#fff7ed", "#ea580c"),
        Kind::Other => ("#f9fafb", "#6b7280"),
    };
    match node.share {
        // White to orange, the whole of it for a sixth of the time: few kernels have more.
        Some(share) => {
            let heat = (share * 6.0).clamp(0.0, 1.0);
            let channel = |cold: f64, hot: f64| (cold + (hot - cold) * heat).round();
            let (red, green, blue) = (channel(255.0, 251.0), channel(255.0, 146.0), channel(255.0, 60.0));
            (format!("rgb({red},{green},{blue})"), stripe)
        }
        None => (fill.to_owned(), stripe),
    }
}

fn tooltip(node: &Node) -> String {
    let mut text = node.title.clone();
    for fact in node.facts.iter().chain(&node.origins).chain(&node.weights) {
        text.push('\n');
        text.push_str(fact);
    }
    if !node.schedule.is_empty() {
        text.push_str("\n\n");
        text.push_str(&node.schedule);
    }
    text
}

/// A line through points that leaves and arrives upright.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (n, &(x, y)) in points.iter().enumerate() {
        let _ = match n.checked_sub(1).map(|before| points[before]) {
            None => write!(path, "M{x:.1},{y:.1}"),
            Some((before, _)) if (before - x).abs() < 0.05 => write!(path, " L{x:.1},{y:.1}"),
            Some((before, above)) => {
                let middle = f64::midpoint(above, y);
                write!(path, " C{before:.1},{middle:.1} {x:.1},{middle:.1} {x:.1},{y:.1}")
            }
        };
    }
    path
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_CHARS - 1).collect();
    format!("{kept}…")
}

/// Text as XML has it. Control characters have no place there.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_file() {
        assert_eq!(escape("<a b=\"c\">&\u{0}\n"), "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}&#10;");
        assert_eq!(cut(&"x".repeat(99)).chars().count(), MAX_CHARS);
    }

    #[test]
    fn lines_leave_and_arrive_upright() {
        assert_eq!(curve(&[(1.0, 0.0), (1.0, 10.0)]), "M1.0,0.0 L1.0,10.0");
        assert_eq!(curve(&[(1.0, 0.0), (5.0, 10.0)]), "M1.0,0.0 C1.0,5.0 5.0,5.0 5.0,10.0");
    }
}
