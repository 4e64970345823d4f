//! Layouts: `layout(order [0, 2, 3, 1], halo [0:0, 1:1, 1:1, 0:0], fill 117)`, or with strides, offset and length of their own.

use super::super::error::ParseErrorKind;
use super::super::index::{Index, Names, Scope};
use super::super::names::separated;
use super::super::parser::{Parsed, Parser};
use crate::index::Dim;
use crate::kernel::Layout;
use std::fmt;

/// The most axes an operand may have.
const MAX_RANK: usize = 64;

/// Parses a layout if there is one; without, the operand is dense.
pub(super) fn parse_layout(p: &mut Parser<'_>, scope: Scope<'_>, shape: &[Dim]) -> Parsed<Layout> {
    if !p.eat_word("layout") {
        return Ok(Layout::dense(shape));
    }
    let rank = shape.len();
    let mut order: Vec<usize> = (0..rank).collect();
    let mut halo = vec![(0, 0); rank];
    let mut fill = 0;
    let (mut strides, mut offset, mut len_elems) = (None, None, None);
    p.expect("(")?;
    p.list(")", |p| {
        let mark = p.mark();
        let same_rank = |p: &Parser<'_>, found: usize| {
            if found == rank {
                return Ok(());
            }
            Err(p.error_at(mark, ParseErrorKind::WrongCount { what: "axes of the layout", expected: rank, found }))
        };
        let part = p.name("a part of a layout")?;
        match &*part {
            "order" => {
                p.expect("[")?;
                order = p.list("]", |p| p.count(MAX_RANK))?;
                same_rank(p, order.len())?;
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if sorted.iter().enumerate().any(|(n, &axis)| n != axis) {
                    return Err(p.unknown(mark, "order of axes", format!("{order:?}")));
                }
            }
            "halo" => {
                p.expect("[")?;
                halo = p.list("]", |p| {
                    let before = p.signed()?;
                    p.expect(":")?;
                    Ok((before, p.signed()?))
                })?;
                same_rank(p, halo.len())?;
            }
            "fill" => fill = p.unsigned()?,
            "strides" => {
                p.expect("[")?;
                let list = p.list("]", |p| p.index(scope))?;
                same_rank(p, list.len())?;
                strides = Some(list);
            }
            "offset" => offset = Some(p.index(scope)?),
            "len" => len_elems = Some(p.index(scope)?),
            _ => return Err(p.unknown(mark, "part of a layout", part)),
        }
        Ok(())
    })?;
    let mut layout = Layout { fill, ..Layout::padded(shape, &order, &halo) };
    layout.strides = strides.unwrap_or(layout.strides);
    layout.offset = offset.unwrap_or(layout.offset);
    layout.len_elems = len_elems.unwrap_or(layout.len_elems);
    Ok(layout)
}

/// A layout with a blank in front, or nothing if it is dense.
pub(super) struct LayoutText<'a> {
    pub(super) layout: &'a Layout,
    pub(super) shape: &'a [Dim],
    pub(super) names: Names<'a>,
}

/// The order of axes whose padded layout comes closest: by descending strides.
fn order_of(layout: &Layout) -> Vec<usize> {
    let mut order: Vec<usize> = (0..layout.strides.len()).collect();
    // More factors, then larger constants, mean slower axes; ties keep their order.
    let weight = |axis: &usize| {
        let stride = &layout.strides[*axis];
        let factors = stride.terms().iter().map(|t| t.atoms.len()).max().unwrap_or(0);
        let coefficient = stride.terms().iter().map(|t| t.coefficient).max().unwrap_or(stride.constant_part());
        std::cmp::Reverse((factors, coefficient))
    };
    order.sort_by_key(weight);
    order
}

impl fmt::Display for LayoutText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, shape, names } = self;
        let rank = shape.len();
        if **layout == Layout::dense(shape) {
            return Ok(());
        }
        if layout.strides.len() != rank || layout.halo.len() != rank {
            return f.write_str(" layout(?)");
        }
        let mut parts: Vec<String> = Vec::new();
        let identity: Vec<usize> = (0..rank).collect();
        let fits =
            |order: &Vec<usize>| Layout { fill: layout.fill, ..Layout::padded(shape, order, &layout.halo) } == **layout;
        match [identity.clone(), order_of(layout)].into_iter().find(fits) {
            Some(order) if order == identity => {}
            Some(order) => parts.push(format!("order {order:?}")),
            None => {
                let index = |e| Index(e, *names).to_string();
                let strides: Vec<String> = layout.strides.iter().map(index).collect();
                parts.push(format!("strides [{}]", strides.join(", ")));
                parts.push(format!("offset {}", index(&layout.offset)));
                parts.push(format!("len {}", index(&layout.len_elems)));
            }
        }
        if layout.halo.iter().any(|&h| h != (0, 0)) {
            let halo: Vec<String> = layout.halo.iter().map(|(before, after)| format!("{before}:{after}")).collect();
            parts.push(format!("halo [{}]", halo.join(", ")));
        }
        if layout.fill != 0 {
            parts.push(format!("fill {}", layout.fill));
        }
        f.write_str(" layout(")?;
        separated(f, ", ", parts, |f, part| f.write_str(&part))?;
        f.write_str(")")
    }
}
