//! The values of an entry's symbols: from the inputs of a run, from states, and from what steps have made.

use crate::binding::{check, wrong_shape};
use crate::error::RuntimeError;
use crate::state::{Port, States};
use crate::view::TensorView;
use infc_artifact::{Assumption, BindFrom, BindingSource, Entry, Segments, SizeExpr, SymbolSpec};
use infc_tensor::integer_element;

/// What is known of the inputs when symbols are bound.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Those of the caller.
    pub(crate) given: Given<'a>,
    /// The others.
    pub(crate) states: &'a States,
}

/// What the caller tells of inputs.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// Their shapes alone.
    Shapes(&'a [&'a [usize]]),
    /// All of them.
    Views(&'a [TensorView<'a>]),
}

impl Given<'_> {
    /// How many there are.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Shapes(shapes) => shapes.len(),
            Self::Views(views) => views.len(),
        }
    }
}

/// What is known of the elements of an input.
enum Elements<'a> {
    Known(TensorView<'a>),
    /// A state that begins with this run.
    Zeros,
    /// Only a run tells.
    Unknown,
}

impl<'a> Inputs<'a> {
    /// The shape of an input of the entry; `None` of a state that has no value yet.
    pub(crate) fn shape(self, input: usize) -> Option<&'a [usize]> {
        match (self.states.input(input), self.given) {
            (Port::State(state), _) => self.states.value(state).map(|value| value.shape()),
            (Port::Caller(n), Given::Shapes(shapes)) => Some(shapes[n]),
            (Port::Caller(n), Given::Views(views)) => Some(views[n].shape()),
        }
    }

    fn elements(self, input: usize) -> Elements<'a> {
        match (self.states.input(input), self.given) {
            (Port::State(state), _) => self.states.value(state).map_or(Elements::Zeros, Elements::Known),
            (Port::Caller(_), Given::Shapes(_)) => Elements::Unknown,
            (Port::Caller(n), Given::Views(views)) => Elements::Known(views[n]),
        }
    }
}

/// Finds the values of the entry's symbols from its inputs, of which there are as many as the entry has.
///
/// # Errors
/// An input of the wrong rank, a value outside the symbol's range, or a value that the shapes of inputs do not tell.
pub(crate) fn bind_symbols(
    entry: &Entry,
    segments: &Segments,
    inputs: Inputs<'_>,
    symbols: &mut Vec<i64>,
) -> Result<(), RuntimeError> {
    symbols.clear();
    symbols.resize(entry.symbols.len(), 0);
    for binding in &entry.bindings {
        let symbol = binding.symbol as usize;
        if segments.of_symbol[symbol] != Some(0) {
            continue;
        }
        let computed = |value: &SizeExpr, symbols: &[i64]| {
            computed(entry, symbol, value, symbols).map_err(|error| {
                let told = told(entry, inputs);
                let symbols: Vec<i64> = told.iter().map(|value| value.unwrap_or(0)).collect();
                reason(entry, &|symbol| told[symbol as usize].is_some(), &symbols, error)
            })
        };
        symbols[symbol] = match &binding.source {
            BindingSource::Axis { input, axis } => {
                let found = extent(entry, symbol, inputs, *input as usize, *axis as usize)?;
                found.unwrap_or(entry.symbols[symbol].min)
            }
            BindingSource::State { input, axis, begin } => {
                match extent(entry, symbol, inputs, *input as usize, *axis as usize)? {
                    Some(found) => found,
                    None => computed(begin, symbols)?,
                }
            }
            BindingSource::Element { input, index } => {
                element(entry, symbol, inputs, *input as usize, *index as usize)?
            }
            BindingSource::Nearest { input, index } => {
                let found = integer(entry, symbol, inputs, *input as usize, *index as usize)?;
                entry.symbols[symbol].nearest(found)
            }
            BindingSource::Computed(value) => computed(value, symbols)?,
        };
    }
    Ok(())
}

/// The value of a symbol that follows from others.
fn computed(entry: &Entry, symbol: usize, value: &SizeExpr, symbols: &[i64]) -> Result<i64, RuntimeError> {
    let spec = &entry.symbols[symbol];
    let place = || value.to_text(&entry.symbol_names());
    match value.eval(symbols) {
        Ok(value) if in_range(spec, value) => Ok(value),
        Ok(value) => Err(out_of_range(spec, place(), value.to_string())),
        Err(error) => Err(out_of_range(spec, place(), error.to_string())),
    }
}

/// What inputs tell of the symbols, in range or not.
fn told(entry: &Entry, inputs: Inputs<'_>) -> Vec<Option<i64>> {
    let mut told: Vec<Option<i64>> = vec![None; entry.symbols.len()];
    for binding in &entry.bindings {
        let symbol = binding.symbol as usize;
        told[symbol] = match &binding.source {
            BindingSource::Axis { input, axis } | BindingSource::State { input, axis, .. } => {
                let shape = inputs.shape(*input as usize);
                shape.and_then(|shape| i64::try_from(*shape.get(*axis as usize)?).ok())
            }
            BindingSource::Element { input, index } => {
                integer(entry, symbol, inputs, *input as usize, *index as usize).ok()
            }
            BindingSource::Nearest { input, index } => {
                let found = integer(entry, symbol, inputs, *input as usize, *index as usize).ok();
                found.map(|found| entry.symbols[symbol].nearest(found))
            }
            BindingSource::Computed(value) => {
                let mut known = true;
                value.for_each_symbol(&mut |symbol| known &= told[symbol as usize].is_some());
                let symbols: Vec<i64> = told.iter().map(|value| value.unwrap_or(0)).collect();
                value.eval(&symbols).ok().filter(|_| known)
            }
        };
    }
    told
}

/// Why a symbol that follows from others has no value: what was taken for granted of those that are known does not hold,
/// or else the error itself.
fn reason(entry: &Entry, is_known: &dyn Fn(u32) -> bool, symbols: &[i64], error: RuntimeError) -> RuntimeError {
    let is_telling = |assumption: &&Assumption| {
        let mut known = true;
        for side in [&assumption.left, &assumption.right] {
            side.for_each_symbol(&mut |symbol| known &= is_known(symbol));
        }
        known
    };
    let mut failed = entry.assumptions.iter().filter(is_telling).filter_map(|a| check(a, entry, symbols).err());
    // Values out of range may be too large for what is said of them.
    failed.find(|failed| matches!(failed, RuntimeError::AssumptionFailed { .. })).unwrap_or(error)
}

/// The symbols that a segment begins to know and that follow from others, with what they are.
fn computed_in<'e>(
    entry: &'e Entry,
    segments: &'e Segments,
    segment: usize,
) -> impl Iterator<Item = (usize, &'e SizeExpr)> {
    entry.bindings.iter().filter_map(move |binding| match &binding.source {
        BindingSource::Computed(value) if segments.of_symbol[binding.symbol as usize] == Some(segment) => {
            Some((binding.symbol as usize, value))
        }
        _ => None,
    })
}

fn in_range(spec: &SymbolSpec, value: i64) -> bool {
    value >= spec.min && spec.max.is_none_or(|max| value <= max)
}

fn range_text(spec: &SymbolSpec) -> String {
    match spec.max {
        Some(max) => format!("{} to {max}", spec.min),
        None => format!("at least {}", spec.min),
    }
}

fn out_of_range(spec: &SymbolSpec, place: String, found: String) -> RuntimeError {
    RuntimeError::ValueOutOfRange { symbol: spec.name.clone(), place, expected: range_text(spec), found }
}

/// The extent of an input along an axis; `None` of a state that has no value yet.
fn extent(
    entry: &Entry,
    symbol: usize,
    inputs: Inputs<'_>,
    input: usize,
    axis: usize,
) -> Result<Option<i64>, RuntimeError> {
    let port = &entry.inputs[input];
    let Some(shape) = inputs.shape(input) else { return Ok(None) };
    if shape.len() != port.shape.len() {
        return Err(wrong_shape(entry, port, "input", shape, None));
    }
    extent_in_range(&entry.symbols[symbol], shape[axis], &port.name, axis).map(Some)
}

/// The value of a symbol that is an extent of something.
fn extent_in_range(spec: &SymbolSpec, found: usize, of: &str, axis: usize) -> Result<i64, RuntimeError> {
    let value = i64::try_from(found).ok().filter(|&v| in_range(spec, v));
    value.ok_or_else(|| RuntimeError::DimOutOfRange {
        symbol: spec.name.clone(),
        input: of.to_owned(),
        axis,
        expected: range_text(spec),
        found,
    })
}

fn element(entry: &Entry, symbol: usize, inputs: Inputs<'_>, input: usize, index: usize) -> Result<i64, RuntimeError> {
    let (port, spec) = (&entry.inputs[input], &entry.symbols[symbol]);
    let value = integer(entry, symbol, inputs, input, index)?;
    let place = || format!("element {index} of `{}`", port.name);
    if in_range(spec, value) { Ok(value) } else { Err(out_of_range(spec, place(), value.to_string())) }
}

/// An element of an input, which is an integer of whatever size.
fn integer(entry: &Entry, symbol: usize, inputs: Inputs<'_>, input: usize, index: usize) -> Result<i64, RuntimeError> {
    let (port, spec) = (&entry.inputs[input], &entry.symbols[symbol]);
    let value = match inputs.elements(input) {
        Elements::Known(view) => match view.element(index) {
            Some(bytes) => integer_element(view.dtype(), bytes, 0),
            // What stays on a GPU tells no sizes.
            None if view.is_elsewhere() => {
                let reason = format!("its values say how large `{}` is", spec.name);
                return Err(RuntimeError::GpuTensor { port: format!("input `{}`", port.name), reason });
            }
            None => return Err(wrong_shape(entry, port, "input", view.shape(), None)),
        },
        Elements::Zeros => Some(0),
        Elements::Unknown => {
            return Err(RuntimeError::ValueNeeded { symbol: spec.name.clone(), input: port.name.clone() });
        }
    };
    value.ok_or_else(|| out_of_range(spec, format!("element {index} of `{}`", port.name), "no such integer".to_owned()))
}

/// Finds the values of the symbols that a bind step names, and of those that follow, which a segment begins to know;
/// `shape_of` gives the shape of what a host step has made.
///
/// # Errors
/// A value outside the symbol's range, or none.
pub(crate) fn bind_late<'s>(
    entry: &Entry,
    bind: &infc_artifact::Bind,
    (segments, segment): (&Segments, usize),
    shape_of: impl Fn(usize) -> Option<&'s [usize]>,
    symbols: &mut [i64],
) -> Result<(), RuntimeError> {
    for bound in &bind.symbols {
        let spec = &entry.symbols[bound.symbol as usize];
        let BindFrom::Axis { slot, axis } = bound.from;
        let shape = shape_of(slot as usize).unwrap_or_default();
        let found = shape.get(axis as usize).ok_or_else(|| RuntimeError::UnexpectedResult {
            expected: format!("one with more than {axis} axes"),
            found: format!("a value of shape {shape:?}"),
        })?;
        symbols[bound.symbol as usize] = extent_in_range(spec, *found, "a computed value", axis as usize)?;
    }
    for (symbol, value) in computed_in(entry, segments, segment) {
        let before = || computed_in(entry, segments, segment).take_while(|(earlier, _)| *earlier != symbol);
        let is_known = |known: u32| {
            segments.of_symbol[known as usize].is_some_and(|of| of < segment)
                || bind.symbols.iter().any(|bound| bound.symbol == known)
                || before().any(|(earlier, _)| earlier == known as usize)
        };
        symbols[symbol] =
            computed(entry, symbol, value, symbols).map_err(|error| reason(entry, &is_known, symbols, error))?;
    }
    Ok(())
}

/// Gives the symbols of a bind step that is not run, in a branch that is not taken, a value that is as good as any.
pub(crate) fn skip_late(
    entry: &Entry,
    bind: &infc_artifact::Bind,
    (segments, segment): (&Segments, usize),
    symbols: &mut [i64],
) {
    for bound in &bind.symbols {
        symbols[bound.symbol as usize] = entry.symbols[bound.symbol as usize].min;
    }
    for (symbol, value) in computed_in(entry, segments, segment) {
        symbols[symbol] = computed(entry, symbol, value, symbols).unwrap_or(entry.symbols[symbol].min);
    }
}
