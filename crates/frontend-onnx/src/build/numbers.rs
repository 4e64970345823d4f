//! Numbers that shapes follow from and that only the run will tell: elements of inputs, and what is computed of them.
//!
//! A size that takes choices to say (`Reshape` to −1, a slice from the end) becomes a symbol of its own, whose value is
//! computed and checked when the symbols are bound. So what stands in shapes and access maps stays short, and within a
//! range.

use super::{Builder, Result, is_long};
use crate::error::Problem;
use crate::known::Item;
use crate::tracked::{Contents, Tracked, static_len};
use infc_ir::entity::{EntityId, SymbolId};
use infc_ir::graph::{SymbolSource, TensorType};
use infc_ir::index::{Atom, Dim};
use infc_ir::symbol::Symbol;
use infc_tensor::DType;

/// The most elements of one value that become symbols: enough for the paddings of as many axes as a value may have.
const MAX_ELEMENTS: usize = 64;

/// The greatest extent that is computed from numbers of the run.
pub(crate) const MAX_SIZE: i64 = 1_000_000_000;

/// The greatest magnitude of a number of the run; beyond it, arithmetic on sizes would overflow.
const MAX_NUMBER: i64 = 1 << 40;

/// Expressions of at most this many atoms stand for themselves.
const SHORT: usize = 3;

/// True if the elements of such a value may become symbols.
pub(crate) fn may_be_numbers(ty: &TensorType) -> bool {
    number_range(ty.dtype).is_some() && static_len(&ty.shape).is_some_and(|n| (1..=MAX_ELEMENTS).contains(&n))
}

/// The least and greatest number that an element may be; `None` if it is not an integer.
fn number_range(dtype: DType) -> Option<(i64, i64)> {
    let bits = dtype.size_bits() as u32;
    match dtype {
        DType::Bool => Some((0, 1)),
        DType::I64 => Some((-MAX_NUMBER, MAX_NUMBER)),
        DType::U64 => Some((0, MAX_NUMBER)),
        DType::I8 | DType::I16 | DType::I32 => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        DType::U8 | DType::U16 | DType::U32 => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}

impl Builder {
    /// The same value with a symbol for each of its elements, of which it has few.
    pub(crate) fn with_elements_of_input(&mut self, x: &Tracked, input: u32, name: &str) -> Tracked {
        let Some((min, max)) = number_range(x.dtype()).filter(|_| may_be_numbers(x.ty())) else { return x.clone() };
        let items = (0..static_len(x.shape()).unwrap_or(0) as u32)
            .map(|index| {
                let source = SymbolSource::Element { input, index };
                let symbol = self.new_symbol(format!("{name}{{{index}}}"), min, max, source);
                self.facts.take_as_number(symbol);
                Item::Int(Dim::symbol(symbol))
            })
            .collect();
        x.with_contents(Contents::Items(items))
    }

    /// The number, or where it is an element of an input, the nearest one that arithmetic with numbers of the run allows:
    /// for what means the same from somewhere far on.
    pub(crate) fn saturated(&mut self, number: &Dim) -> Dim {
        let source = number.as_symbol().and_then(|symbol| Some((symbol, self.symbol_source(symbol)?)));
        let Some((symbol, &SymbolSource::Element { input, index })) = source else { return number.clone() };
        let source = SymbolSource::Nearest { input, index };
        if let Some((known, _)) = self.graph.sources.iter().find(|(_, other)| *other == source) {
            return Dim::symbol(*known);
        }
        let Symbol { name, min, max } = self.graph.symbols[symbol].clone();
        let nearest = self.new_symbol(name, min, max.unwrap_or(MAX_NUMBER), source);
        self.facts.take_as_number(nearest);
        Dim::symbol(nearest)
    }

    /// True if the number follows from elements, which may have either sign; sizes do not.
    pub(crate) fn is_signed(&self, dim: &Dim) -> bool {
        let mut signed = false;
        dim.for_each_atom(&mut |atom| {
            if let Atom::Symbol(symbol) = atom {
                signed |= self.graph.symbols.get(*symbol).is_some_and(|s| s.min < 0);
            }
        });
        signed
    }

    /// True if the number depends on anything but the extents of inputs.
    fn is_of_run(&self, dim: &Dim) -> bool {
        let mut found = self.facts.is_late(dim);
        dim.for_each_atom(&mut |atom| {
            if let Atom::Symbol(symbol) = atom {
                let source = self.symbol_source(*symbol);
                found |= !matches!(source, None | Some(SymbolSource::Axis { .. }));
            }
        });
        found
    }

    /// Where a symbol comes from, if that has been said.
    fn symbol_source(&self, symbol: SymbolId) -> Option<&SymbolSource> {
        self.graph.sources.iter().find(|(s, _)| *s == symbol).map(|(_, source)| source)
    }

    /// An extent that is computed when symbols are bound, and checked to be one.
    pub(crate) fn size(&mut self, what: &'static str, value: &Dim) -> Result<Dim> {
        self.computed(what, value, 0, MAX_SIZE)
    }

    /// As [`Builder::size`], but a symbol of its own even where the expression is short: products of many choices are not.
    pub(crate) fn named_size(&mut self, what: &'static str, value: &Dim) -> Result<Dim> {
        self.computed_beyond(0, what, value, 0, MAX_SIZE)
    }

    /// A number of either sign that is computed when symbols are bound, and checked to be in a range; always a symbol.
    pub(crate) fn named_number(&mut self, what: &'static str, value: Dim, min: i64, max: i64) -> Dim {
        let number = self.symbol_of(what, value, min, max);
        number.as_symbol().into_iter().for_each(|symbol| self.facts.take_as_number(symbol));
        number
    }

    /// The extent, or a symbol of its own where it is long: what is put together of several stays short.
    pub(crate) fn short_extent(&mut self, what: &'static str, value: &Dim) -> Dim {
        if is_long(value) { self.named_extent(what, value) } else { value.clone() }
    }

    /// The extent as a symbol of its own, whatever it follows from.
    pub(crate) fn named_extent(&mut self, what: &'static str, value: &Dim) -> Dim {
        let value = self.facts.apply(value).simplify(&self.ranges());
        if value.as_const().is_some() || value.as_symbol().is_some() {
            return value;
        }
        self.symbol_of(what, value, 0, MAX_SIZE)
    }

    /// A number that is computed when symbols are bound, and checked to be in a range. What follows from sizes alone, and
    /// what is known to be in the range and short, stands for itself.
    pub(crate) fn number(&mut self, what: &'static str, value: &Dim, min: i64, max: i64) -> Result<Dim> {
        let number = self.computed(what, value, min, max)?;
        if let Some(symbol) = number.as_symbol().filter(|s| {
            matches!(self.symbol_source(*s), Some(SymbolSource::Element { .. } | SymbolSource::Computed(_)))
        }) {
            self.facts.take_as_number(symbol);
        }
        Ok(number)
    }

    fn computed(&mut self, what: &'static str, value: &Dim, min: i64, max: i64) -> Result<Dim> {
        self.computed_beyond(SHORT, what, value, min, max)
    }

    /// An expression of so many atoms, within the range, stands for itself.
    fn computed_beyond(&mut self, short: usize, what: &'static str, value: &Dim, min: i64, max: i64) -> Result<Dim> {
        let ranges = self.ranges();
        let value = self.facts.apply(value).simplify(&ranges);
        let interval = ranges.interval(&value);
        if interval.max.is_some_and(|m| m < min) || interval.min.is_some_and(|m| m > max) {
            return Err(Problem::ShapeMismatch {
                expected: format!("{what} from {min} to {max}"),
                found: value.to_string(),
            });
        }
        if let (Some(least), Some(most)) = (interval.min, interval.max)
            && least == most
        {
            return Ok(Dim::constant(least));
        }
        let mut atoms = 0;
        value.for_each_atom(&mut |_| atoms += 1);
        let within = interval.min.is_some_and(|m| m >= min) && interval.max.is_some_and(|m| m <= max);
        if !self.is_of_run(&value) || within && (atoms <= short || value.as_symbol().is_some()) {
            return Ok(value);
        }
        // What follows from the ranges of its parts, others may rely on.
        let (least, most) = (interval.min.unwrap_or(min), interval.max.unwrap_or(max));
        Ok(self.symbol_of(what, value, min.max(least), max.min(most)))
    }

    /// A symbol that is computed, the same for the same expression.
    fn symbol_of(&mut self, what: &'static str, value: Dim, min: i64, max: i64) -> Dim {
        let known = self.graph.sources.iter().find_map(|(symbol, source)| {
            let range = &self.graph.symbols[*symbol];
            let same = *source == SymbolSource::Computed(value.clone()) && (range.min, range.max) == (min, Some(max));
            same.then_some(*symbol)
        });
        let symbol = match known {
            Some(symbol) => symbol,
            None => {
                let place = self.graph.origins[self.origin].first().map(|node| format!(" of `{node}`"));
                let name = format!("{what}{}", place.unwrap_or_default());
                let is_late = self.facts.is_late(&value);
                let symbol = self.new_symbol(name, min, max, SymbolSource::Computed(value));
                if is_late {
                    self.facts.take_as_late(symbol);
                }
                symbol
            }
        };
        Dim::symbol(symbol)
    }

    fn new_symbol(&mut self, name: String, min: i64, max: i64, source: SymbolSource) -> SymbolId {
        let taken = |name: &str| self.graph.symbols.iter().any(|s| s.name == name);
        let mut unique = name.clone();
        let mut n = 1;
        while taken(&unique) {
            n += 1;
            unique = format!("{name} ({n})");
        }
        let symbol = self.graph.symbols.push(Symbol { name: unique, min, max: Some(max) });
        self.graph.sources.push((symbol, source));
        symbol
    }

    /// Leaves out the symbols that nothing depends on: elements, computed numbers, and what a branch or a body would have
    /// produced that was given up.
    pub(super) fn drop_unused_symbols(&mut self) {
        let is_of_axis = |symbol| matches!(self.graph.source(symbol), Some(SymbolSource::Axis { .. }));
        if self.graph.symbols.ids().all(is_of_axis) {
            return;
        }
        self.graph.drop_dead_nodes();
        self.graph.sources.sort_by_key(|(symbol, _)| *symbol);
        let mut used = self.graph.used_symbols();
        // What a used symbol is computed from is used; expressions mention earlier symbols only.
        for (symbol, source) in self.graph.sources.iter().rev() {
            match source {
                SymbolSource::Axis { .. } => used[symbol.index()] = true,
                SymbolSource::Computed(value) if used[symbol.index()] => {
                    value.for_each_atom(&mut |atom| {
                        if let Atom::Symbol(s) = atom {
                            used[s.index()] = true;
                        }
                    });
                }
                _ => {}
            }
        }
        for symbol in self.graph.symbols.ids() {
            used[symbol.index()] |= matches!(self.graph.source(symbol), Some(SymbolSource::Axis { .. }));
        }
        if used.contains(&false) {
            self.graph.keep_symbols(&used);
        }
    }
}
