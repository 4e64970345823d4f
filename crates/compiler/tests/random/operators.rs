//! What nodes are drawn: one function per operator or family, which picks operands and attributes that may fit.
//!
//! Whether they do is found out by evaluating the node, so these functions aim at what is interesting and not at what is
//! legal. An operator whose results jump is applied wherever operands allow: where they depend on roundings, the jump
//! shows in the samples, and the node is not added.

mod contract;
mod convert;
mod elementwise;
mod gather;
mod movement;
mod norm;
mod quantized;
mod recurrent;
mod reduce;
mod sample;
mod text;
mod trees;

use crate::draft::{Candidate, Draft};

/// A node for a draft, if it has what the node reads.
pub(crate) type Drawer = fn(&mut Draft) -> Option<Candidate>;

/// Families with how often they are drawn.
const FAMILIES: &[(usize, &[Drawer])] = &[
    (6, elementwise::DRAWERS),
    (6, movement::DRAWERS),
    (3, reduce::DRAWERS),
    (3, contract::DRAWERS),
    (2, norm::DRAWERS),
    (3, gather::DRAWERS),
    (2, convert::DRAWERS),
    (2, quantized::DRAWERS),
    (2, recurrent::DRAWERS),
    (3, sample::DRAWERS),
    (1, trees::DRAWERS),
];

/// How often an operator on strings is drawn for a model that has some, in twenty times.
const TEXT: usize = 6;

pub(crate) fn draw(draft: &mut Draft) -> Option<Candidate> {
    if draft.has_text && draft.random.below(20) < TEXT {
        return draft.random.pick(text::DRAWERS)(draft);
    }
    let total = FAMILIES.iter().map(|(weight, _)| weight).sum();
    let mut at = draft.random.below(total);
    let family = FAMILIES.iter().find(|(weight, _)| {
        let here = at < *weight;
        at = at.saturating_sub(*weight);
        here
    })?;
    let drawer = *draft.random.pick(family.1);
    drawer(draft)
}
