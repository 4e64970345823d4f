//! The picture as a graph in the language of Graphviz.

use super::{Kind, Picture, short};
use std::fmt::Write;

/// The whole file.
pub(crate) fn file(picture: &Picture, title: &str) -> String {
    let mut text = format!(
        "digraph {} {{\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n",
        quoted(title)
    );
    for (index, node) in picture.nodes.iter().enumerate() {
        let colour = match node.kind {
            Kind::Input => "#ecfdf5",
            Kind::Output => "#f5f3ff",
            Kind::Kernel => "#eff6ff",
            Kind::Host => "#fff7ed",
            Kind::Other => "#f9fafb",
        };
        let mut label = node.title.clone();
        for line in node.origins.iter().map(|origin| short(origin)).chain(node.facts.iter().cloned()) {
            label.push('\n');
            label.push_str(&line);
        }
        let _ = writeln!(text, "  n{index} [label={}, fillcolor=\"{colour}\"];", quoted(&label));
    }
    for edge in &picture.edges {
        let _ = writeln!(text, "  n{} -> n{} [label={}];", edge.from, edge.to, quoted(&edge.label));
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
