//! Which values must be known as numbers, because shapes follow from them.
//!
//! Whether an input is data or says what shapes are shows only where it is read: a length may pass through ten
//! operators before a `Reshape` asks for it. So a first attempt takes all inputs for data; where a number is asked for
//! that is not known, it is traced back to where it comes from, and the import begins anew. What is not traced to a
//! shape stays data, and costs no new binding when it changes.

use super::Importer;
use crate::build::may_be_numbers;
use crate::tracked::{Contents, Tracked};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// How often the import begins anew because of what it learned.
const MAX_ROUNDS: usize = 256;

/// What earlier attempts have learned, by the names of values.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Inputs whose elements are numbers that shapes follow from.
    elements: HashSet<String>,
    /// Values that are computed as numbers whatever it takes.
    exact: HashSet<String>,
    /// Whether this attempt has added something.
    grown: bool,
    rounds: usize,
    /// Whether an attempt that failed had taken something for granted, so that another way to take it may not fail.
    pub(super) has_assumed: bool,
}

impl Demand {
    /// Whether the elements of an input are numbers.
    pub(super) fn has_elements(&self, name: &str) -> bool {
        self.elements.contains(name)
    }

    /// Whether any of these values is to be computed as numbers.
    pub(super) fn is_exact(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.exact.contains(name))
    }

    /// True if this attempt has learned something, so that another one would know more.
    pub(super) fn has_grown(&self) -> bool {
        self.grown
    }

    /// True if another attempt knows more than the last one.
    pub(super) fn next(&mut self) -> bool {
        self.rounds += 1;
        std::mem::take(&mut self.grown) && self.rounds < MAX_ROUNDS
    }
}

/// The values that a value is computed from, by name; of a node with graphs also those that these take from around it.
pub(super) type Producers<'m> = HashMap<&'m str, Rc<[&'m str]>>;

impl<'m> Importer<'m, '_> {
    /// Notes that a shape depends on the elements of a value; true if another attempt would know more of it.
    pub(super) fn want(&mut self, name: &'m str) -> bool {
        let (mut seen, mut waiting) = (HashSet::new(), vec![name]);
        let mut learned = false;
        while let Some(name) = waiting.pop() {
            if !seen.insert(name) {
                continue;
            }
            let Some(value) = self.number(name) else { continue };
            if *value.contents() != Contents::Unknown {
                continue;
            }
            let Some(inputs) = self.producers.get(name) else {
                learned |= self.demand.elements.insert(name.to_owned());
                continue;
            };
            // What it is computed from may be numbers; if that is not enough, its operator has to do its utmost.
            learned |= self.demand.exact.insert(name.to_owned());
            waiting.extend(inputs.iter());
        }
        self.demand.grown |= learned;
        learned
    }

    /// A value that has few elements, all integers.
    fn number(&mut self, name: &'m str) -> Option<Tracked> {
        self.scopes.value(name).ok().flatten().filter(|value| may_be_numbers(value.ty()))
    }
}
