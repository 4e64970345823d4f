//! What a session carries from run to run: outputs that are inputs of the next run.
//!
//! A state has memory for the value that a run reads and for the one that it writes; after a run the two are exchanged.
//! One that grows in place ([`Append`]) has a single memory of its capacity, in which a run leaves what is there and
//! writes behind it; a run that fails leaves these as they were. One that is full, in which a run replaces elements, is
//! written at once: a run that is cancelled, or passes its deadline, may leave those replaced that it was to replace.

use crate::arena::{Arena, Span};
use crate::error::RuntimeError;
use crate::view::{TensorView, dense_size};
use infc_artifact::{Append, Entry, StatePair};
use infc_tensor::DType;

/// The states of a session, and who has which inputs and outputs of its entry.
#[derive(Debug)]
pub(crate) struct States {
    states: Vec<State>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// How many inputs and outputs are the caller's.
    of_caller: (usize, usize),
}

/// Who has an input or output of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The caller, as the n-th of those that are no states.
    Caller(usize),
    /// The n-th state.
    State(usize),
}

/// One state.
#[derive(Debug)]
struct State {
    /// That of the input.
    name: String,
    output: usize,
    input: usize,
    dtype: DType,
    append: Option<Append>,
    /// Whether there is a value: one that was given, or that a run has left.
    is_set: bool,
    /// Of what the next run reads.
    shape: Vec<usize>,
    /// Of the same, in elements.
    strides: Vec<isize>,
    /// What the next run reads.
    current: Arena,
    /// What the next run writes, unless the state grows in place.
    next: Arena,
}

impl States {
    pub(crate) fn new(entry: &Entry) -> Self {
        let state = |pair: &StatePair| State {
            name: entry.inputs[pair.input as usize].name.clone(),
            output: pair.output as usize,
            input: pair.input as usize,
            dtype: entry.inputs[pair.input as usize].dtype,
            append: pair.append,
            is_set: false,
            shape: Vec::new(),
            strides: Vec::new(),
            current: Arena::empty(),
            next: Arena::empty(),
        };
        let ports = |count: usize, state_of: &dyn Fn(usize) -> Option<usize>| {
            let mut callers = 0;
            let mut port = |n| match state_of(n) {
                Some(state) => Port::State(state),
                None => {
                    callers += 1;
                    Port::Caller(callers - 1)
                }
            };
            let ports: Vec<Port> = (0..count).map(&mut port).collect();
            (ports, callers)
        };
        let (inputs, given) = ports(entry.inputs.len(), &|n| entry.state_of_input(n));
        let (outputs, taken) = ports(entry.outputs.len(), &|n| entry.state_of_output(n));
        Self { states: entry.state.iter().map(state).collect(), inputs, outputs, of_caller: (given, taken) }
    }

    /// How many inputs the caller gives.
    pub(crate) fn given(&self) -> usize {
        self.of_caller.0
    }

    /// How many outputs the caller takes.
    pub(crate) fn taken(&self) -> usize {
        self.of_caller.1
    }

    /// Who has an input of the entry.
    pub(crate) fn input(&self, input: usize) -> Port {
        self.inputs[input]
    }

    /// Who has an output of the entry.
    pub(crate) fn output(&self, output: usize) -> Port {
        self.outputs[output]
    }

    /// The entry's number of the n-th output that the caller takes.
    pub(crate) fn taken_output(&self, n: usize) -> Option<usize> {
        self.outputs.iter().position(|&port| port == Port::Caller(n))
    }

    /// The entry's number of the n-th input that the caller gives.
    pub(crate) fn given_input(&self, n: usize) -> Option<usize> {
        self.inputs.iter().position(|&port| port == Port::Caller(n))
    }

    /// The value of a state; `None` if it has none.
    pub(crate) fn value(&self, state: usize) -> Option<TensorView<'_>> {
        let state = &self.states[state];
        if !state.is_set {
            return None;
        }
        let len_bytes = state.len_bytes(&state.shape).ok()?;
        let bytes = state.current.bytes().get(..len_bytes)?;
        match state.append {
            None => TensorView::new(state.dtype, &state.shape, bytes).ok(),
            Some(_) => TensorView::strided(state.dtype, &state.shape, &state.strides, 0, bytes).ok(),
        }
    }

    /// Gives a state a value.
    pub(crate) fn set(&mut self, state: usize, value: &TensorView<'_>) -> Result<(), RuntimeError> {
        let state = &mut self.states[state];
        let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
        let shape = value.shape();
        let len_bytes = state.len_bytes(shape)?;
        // Growing may lose what is there, and copying cannot fail half way.
        state.is_set = false;
        state.current.reserve(len_bytes)?;
        match state.append {
            None => value.copy_dense(&mut state.current.bytes_mut()[..len_bytes]),
            Some(append) => {
                let dense = value.to_tensor()?;
                let axis = append.axis as usize;
                let size = state.dtype.size_bytes().ok_or_else(too_large)?;
                let inner = shape[axis + 1..].iter().product::<usize>() * size;
                let row = shape[axis] * inner;
                // As long as the memory at most, so this is a number.
                let place = usize::try_from(append.capacity).map_err(|_| too_large())? * inner;
                if row > 0 {
                    let places = state.current.bytes_mut().chunks_exact_mut(place);
                    for (to, from) in places.zip(dense.bytes().chunks_exact(row)) {
                        to[..row].copy_from_slice(from);
                    }
                }
            }
        }
        state.take(shape);
        state.is_set = true;
        Ok(())
    }

    /// Takes the values of all states away: each begins anew with zeros.
    pub(crate) fn reset(&mut self) {
        for state in &mut self.states {
            state.is_set = false;
        }
    }

    /// Brings the states into the memory that a run reads them from: `pairs` says how they lie there. What lies so
    /// already is not touched; the others are copied.
    ///
    /// # Errors
    /// `runtime::state-full` if a value has no room there, `runtime::out-of-memory`. The states are as they were then.
    pub(crate) fn lie(&mut self, pairs: &[StatePair]) -> Result<(), RuntimeError> {
        self.states.iter_mut().zip(pairs).try_for_each(|(state, pair)| state.lie(pair.append))
    }

    /// Gives states without a value zeros to read, of the shapes that the entry's inputs have in a run.
    pub(crate) fn begin<'s>(&mut self, shape_of: impl Fn(usize) -> &'s [usize]) -> Result<(), RuntimeError> {
        for state in self.states.iter_mut().filter(|state| !state.is_set) {
            let shape = shape_of(state.input);
            let len_bytes = state.len_bytes(shape)?;
            state.current.reserve(len_bytes)?;
            state.current.bytes_mut()[..len_bytes].fill(0);
            state.take(shape);
        }
        Ok(())
    }

    /// What a run reads of a state.
    pub(crate) fn read(&mut self, state: usize) -> Span {
        self.states[state].current.span()
    }

    /// Where a run writes the next value of a state, of the given shape.
    pub(crate) fn write(&mut self, state: usize, shape: &[usize]) -> Result<Span, RuntimeError> {
        let state = &mut self.states[state];
        let len_bytes = state.len_bytes(shape)?;
        let Some(append) = state.append else {
            if state.next.bytes().len() < len_bytes {
                // What grows a little with every run shall not ask for memory with every run.
                let amortised = if state.is_growing(shape) { len_bytes.saturating_mul(2) } else { len_bytes };
                state.next.reserve(amortised)?;
            }
            return Ok(state.next.span());
        };
        // A state keeps its other extents, or it would not begin where the input does.
        let axis = append.axis as usize;
        let kept = |n: usize| n == axis || state.shape.get(n) == shape.get(n);
        if !(0..shape.len()).all(kept) || len_bytes > state.current.bytes().len() {
            return Err(RuntimeError::BadProgram {
                what: "a state that grows in place".to_owned(),
                expected: format!("the extents {:?} but for axis {axis}", state.shape),
                found: format!("{shape:?}"),
            });
        }
        Ok(state.current.span())
    }

    /// Writes what a host step has made as the next value of a state.
    pub(crate) fn give(&mut self, state: usize, shape: &[usize], bytes: &[u8]) -> Result<(), RuntimeError> {
        // What kernels do not write never lies in strides.
        self.write(state, shape)?;
        if let Some(to) = self.states[state].next.bytes_mut().get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Makes what a run has written the value of each state; `shape_of` gives the shape of an output.
    pub(crate) fn advance<'s>(&mut self, shape_of: impl Fn(usize) -> Option<&'s [usize]>) {
        for state in &mut self.states {
            let Some(shape) = shape_of(state.output) else { continue };
            if state.append.is_none() {
                std::mem::swap(&mut state.current, &mut state.next);
            }
            state.take(shape);
            state.is_set = true;
        }
    }
}

impl State {
    /// Changes how the state lies, and copies its value if it has one.
    fn lie(&mut self, append: Option<Append>) -> Result<(), RuntimeError> {
        let before = self.append;
        if before == append || !self.is_set {
            self.append = append;
            return Ok(());
        }
        if before.is_some() && append.is_some() {
            // From one way of growing to another by way of a dense value.
            self.lie(None)?;
            return self.lie(append);
        }
        self.append = append;
        let copied = self.copy_from(before);
        if copied.is_err() {
            self.append = before;
        }
        copied
    }

    /// Copies a value that lies as `before` says, of which either this or the present way of lying is dense, to where
    /// the next run reads it.
    fn copy_from(&mut self, before: Option<Append>) -> Result<(), RuntimeError> {
        let too_large = || RuntimeError::OutOfMemory { len_bytes: usize::MAX };
        let Some(grown) = before.or(self.append) else { return Ok(()) };
        let len_bytes = self.len_bytes(&self.shape)?;
        self.next.reserve(len_bytes)?;
        let (axis, size) = (grown.axis as usize, self.dtype.size_bytes().ok_or_else(too_large)?);
        let inner = self.shape[axis + 1..].iter().product::<usize>() * size;
        let row = self.shape[axis] * inner;
        // As long as the memory at most, so this is a number.
        let place = usize::try_from(grown.capacity).map_err(|_| too_large())? * inner;
        let (from, to) = if before.is_some() { (place, row) } else { (row, place) };
        if row > 0 {
            let rows = self.current.bytes().chunks(from).zip(self.next.bytes_mut().chunks_mut(to));
            for (from, to) in rows.take(self.shape[..axis].iter().product()) {
                to[..row].copy_from_slice(&from[..row]);
            }
        }
        std::mem::swap(&mut self.current, &mut self.next);
        self.measure();
        Ok(())
    }

    /// Takes note of a value's shape.
    fn take(&mut self, shape: &[usize]) {
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        self.measure();
    }

    /// Finds the strides of the value.
    fn measure(&mut self) {
        self.strides.clear();
        self.strides.resize(self.shape.len(), 0);
        let mut stride = 1usize;
        for axis in (0..self.shape.len()).rev() {
            self.strides[axis] = stride.cast_signed();
            // The size of the memory is representable, so strides are as far as anything is read with them.
            stride = stride.saturating_mul(self.extent(axis, &self.shape));
        }
    }

    /// How many elements the memory has along an axis.
    fn extent(&self, axis: usize, shape: &[usize]) -> usize {
        match self.append {
            Some(append) if append.axis as usize == axis => usize::try_from(append.capacity).unwrap_or(usize::MAX),
            _ => shape[axis],
        }
    }

    /// The length of the memory for a value of this shape.
    fn len_bytes(&self, shape: &[usize]) -> Result<usize, RuntimeError> {
        if let Some(append) = self.append {
            let (extent, axis) = (shape[append.axis as usize], append.axis);
            if extent as u64 > append.capacity {
                let (state, axis, capacity) = (self.name.clone(), axis as usize, append.capacity);
                return Err(RuntimeError::StateFull { state, axis, capacity, found: extent });
            }
        }
        let extents = (0..shape.len()).map(|axis| self.extent(axis, shape));
        let len = extents.clone().try_fold(1usize, |n, extent| n.checked_mul(extent));
        let size = match self.dtype.size_bytes() {
            Some(size) => len.and_then(|len| len.checked_mul(size)),
            None => dense_size(self.dtype, shape),
        };
        size.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })
    }

    /// Whether the next value is larger than this one.
    fn is_growing(&self, next: &[usize]) -> bool {
        self.shape.iter().zip(next).any(|(now, next)| now < next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_artifact::{PortSpec, SizeExpr};
    use infc_tensor::Tensor;

    fn entry(append: Option<Append>) -> Entry {
        let shape = vec![SizeExpr::constant(2), SizeExpr::constant(3), SizeExpr::constant(2)];
        let port = |name: &str| PortSpec::new(name, DType::I16, shape.clone());
        Entry {
            name: "main".to_owned(),
            inputs: vec![port("past")],
            outputs: vec![port("present")],
            symbols: vec![],
            bindings: vec![],
            state: vec![StatePair { output: 0, input: 0, append }],
            assumptions: vec![],
            specializes: None,
            slices: None,
        }
    }

    #[test]
    fn a_value_is_the_same_however_it_lies() {
        let elements: Vec<i16> = (1..=12).collect();
        let value = Tensor::from_elements(&[2, 3, 2], &elements).unwrap();
        let grows = |axis, capacity| Some(Append { axis, capacity });
        let ways = [None, grows(1, 8), grows(0, 2), None, grows(2, 5), grows(2, 2), grows(1, 3), grows(1, 4)];
        let mut states = States::new(&entry(None));
        // Without a value there is nothing to copy.
        states.lie(&entry(grows(1, 4)).state).unwrap();
        states.set(0, &TensorView::try_from(&value).unwrap()).unwrap();
        for way in ways {
            states.lie(&entry(way).state).unwrap();
            assert_eq!(states.value(0).unwrap().to_tensor().unwrap(), value, "{way:?}");
        }
        // What has no room stays as it was.
        for narrow in [grows(1, 2), grows(0, 1)] {
            assert_eq!(states.lie(&entry(narrow).state).unwrap_err().code(), "runtime::state-full");
            assert_eq!(states.value(0).unwrap().to_tensor().unwrap(), value);
        }
    }
}
