//! Made-up data: the same for the same seed on every machine.

use crate::convert::cast;
use crate::error::CliError;
use crate::sizes;
use infc_artifact::{BindingSource, Entry, PortSpec, SizeExpr};
use infc_tensor::{DType, DTypeClass, Tensor};
use infc_tune::Random;
use std::collections::BTreeMap;

/// What an input is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    /// Floats in [0,1), integers 0, bools true.
    Random,
    /// Floats in [0,1), integers of all kinds, bools both ways: where no integer says which elements are read.
    Varied,
    /// Integers from 0 up to this one, or all 0.
    Below(u64),
    /// One number everywhere.
    Value(f64),
}

/// Makes tensors from a stream of pseudo-random numbers.
#[derive(Debug)]
pub(super) struct Generator {
    random: Random,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// A multiple of 2⁻²⁴ in [0,1): exact in `f32`.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
    fn float(&mut self) -> f32 {
        (self.random.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Fills bools and integers: those of a byte or less with any bits, others with small numbers, as zero points and sums of
    /// products are, so that arithmetic on them stays within their type.
    fn vary(&mut self, bytes: &mut [u8], dtype: DType, class: DTypeClass) {
        let width = dtype.size_bytes().unwrap_or(1);
        for element in bytes.chunks_exact_mut(width) {
            let bits = self.random.next_u64() >> 32;
            let value = match class {
                DTypeClass::Bool => bits & 1,
                _ if width == 1 => bits,
                DTypeClass::Unsigned => bits % 128,
                _ => (bits % 128).wrapping_sub(64),
            };
            element.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }

    /// The tensor for an input.
    pub(super) fn tensor(&mut self, port: &PortSpec, shape: &[usize], fill: Fill) -> Result<Tensor, CliError> {
        let too_large = || CliError::TooLarge { what: format!("input `{}` of shape {shape:?}", port.name) };
        let unfit = |found| CliError::WrongElements {
            place: format!("made-up data for input `{}`", port.name),
            expected: port.element_type(),
            found,
        };
        if port.dtype.class() == DTypeClass::Value {
            // Nobody knows what would be in it.
            return Err(CliError::MissingData {
                names: vec![format!("input `{}` ({}), which cannot be made up", port.name, port.type_text(&[]))],
            });
        }
        let zeros = |dtype| allocate(dtype, shape).ok_or_else(too_large);
        let wide = match (fill, port.dtype.class()) {
            (Fill::Random | Fill::Varied, DTypeClass::Float) => {
                let mut tensor = zeros(DType::F32)?;
                for element in tensor.elements_mut::<f32>().map_err(|_| too_large())? {
                    *element = self.float();
                }
                tensor
            }
            (Fill::Random, DTypeClass::Bool) => {
                let mut tensor = zeros(DType::Bool)?;
                tensor.bytes_mut().fill(1);
                return Ok(tensor);
            }
            (Fill::Below(end), _) => {
                let mut tensor = zeros(port.dtype)?;
                let width = port.dtype.size_bytes().unwrap_or(1);
                for element in tensor.bytes_mut().chunks_exact_mut(width) {
                    element.copy_from_slice(&((self.random.next_u64() >> 16) % end.max(1)).to_le_bytes()[..width]);
                }
                return Ok(tensor);
            }
            (Fill::Varied, class) => {
                let mut tensor = zeros(port.dtype)?;
                self.vary(tensor.bytes_mut(), port.dtype, class);
                return Ok(tensor);
            }
            (Fill::Random, _) | (Fill::Value(0.0), _) => return zeros(port.dtype),
            (Fill::Value(value), _) => {
                let mut tensor = zeros(DType::F64)?;
                tensor.elements_mut::<f64>().map_err(|_| too_large())?.fill(value);
                tensor
            }
        };
        if wide.dtype() == port.dtype {
            return Ok(wide);
        }
        cast(&wide, port.dtype).ok_or_else(|| unfit(wide.dtype()))
    }
}

/// Zeros, unless there is not even the address space for them: asking for more would end the process.
fn allocate(dtype: DType, shape: &[usize]) -> Option<Tensor> {
    let len_elems = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
    let bytes = dtype.storage_bytes(len_elems).unwrap_or(len_elems);
    Vec::<u8>::new().try_reserve_exact(bytes).ok()?;
    Tensor::zeros(dtype, shape).ok()
}

/// The shape of every input: of those given their own, of the others what the symbols make of it. A symbol is what a
/// given input says, else what the user says, else [`sizes::least`].
pub(super) fn input_shapes(
    entry: &Entry,
    given: &[Option<Tensor>],
    dims: &BTreeMap<String, i64>,
) -> Result<Vec<Vec<usize>>, CliError> {
    let known = || entry.symbols.iter().map(|symbol| format!("`{}`", symbol.name)).collect::<Vec<_>>().join(", ");
    if let Some(name) = dims.keys().find(|name| !entry.symbols.iter().any(|symbol| symbol.name == **name)) {
        let known = if entry.symbols.is_empty() { "none".to_owned() } else { known() };
        return Err(CliError::usage(format!("--dim: the model has no dynamic dim `{name}`, it has {known}")));
    }
    let mut said: Vec<Option<i64>> = entry.symbols.iter().map(|symbol| dims.get(&symbol.name).copied()).collect();
    same_extents(entry, dims, &mut said)?;
    for binding in &entry.bindings {
        // The shapes of inputs depend on those of others alone.
        let (BindingSource::Axis { input, axis } | BindingSource::State { input, axis, .. }) = &binding.source else {
            continue;
        };
        let tensor = given.get(*input as usize).and_then(Option::as_ref);
        let extent = tensor.and_then(|tensor| tensor.shape().get(*axis as usize));
        if let (Some(&extent), Some(symbol)) = (extent, said.get_mut(binding.symbol as usize)) {
            *symbol = Some(i64::try_from(extent).unwrap_or(i64::MAX));
        }
    }
    let symbols = sizes::least(entry, &said);
    let shape_of = |(port, tensor): (&PortSpec, &Option<Tensor>)| match tensor {
        Some(tensor) => Ok(tensor.shape().to_vec()),
        None => port
            .shape
            .iter()
            .map(|dim| dim.eval_size(&symbols))
            .collect::<Result<Vec<usize>, _>>()
            .map_err(|_| CliError::TooLarge { what: format!("input `{}`", port.name) }),
    };
    entry.inputs.iter().zip(given).map(shape_of).collect()
}

/// Where two dims of the model have to be equal, one stands for both in the shapes of inputs: what the user says of the other
/// is said of it.
fn same_extents(entry: &Entry, dims: &BTreeMap<String, i64>, said: &mut [Option<i64>]) -> Result<(), CliError> {
    for (name, &wanted) in dims {
        let of_dim = |symbol: u32| entry.symbols.get(symbol as usize).is_some_and(|spec| spec.name == *name);
        for binding in entry.bindings.iter().filter(|binding| of_dim(binding.symbol)) {
            let BindingSource::Axis { input, axis } = &binding.source else { continue };
            let extent = entry.inputs.get(*input as usize).and_then(|port| port.shape.get(*axis as usize));
            let Some(other) = extent.and_then(SizeExpr::as_symbol).filter(|&other| other != binding.symbol) else {
                continue;
            };
            let Some((spec, symbol)) = entry.symbols.get(other as usize).zip(said.get_mut(other as usize)) else {
                continue;
            };
            if let Some(said) = dims.get(&spec.name).filter(|&&said| said != wanted) {
                let other = &spec.name;
                let text = format!("--dim: `{name}` and `{other}` have to be equal, and are {wanted} and {said}");
                return Err(CliError::usage(text));
            }
            *symbol = Some(wanted);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_artifact::{Binding, BindingSource, SizeExpr, SymbolSpec};

    fn port(dtype: DType) -> PortSpec {
        let shape = vec![SizeExpr::symbol(0), SizeExpr::constant(2)];
        PortSpec::new("x", dtype, shape)
    }

    #[test]
    fn random_data_is_the_same_every_time() {
        let make = |seed| Generator::new(seed).tensor(&port(DType::F32), &[2, 2], Fill::Random).unwrap();
        assert_eq!(make(0), make(0));
        assert_ne!(make(0), make(1));
        // A change of these numbers makes stored measurements incomparable.
        assert_eq!(make(0).elements::<f32>().unwrap()[0], 0.883_310_8);
        let sample = Generator::new(5).tensor(&port(DType::F32), &[1000], Fill::Random).unwrap();
        let sample = sample.elements::<f32>().unwrap();
        assert!(sample.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = sample.iter().sum::<f32>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }

    #[test]
    fn every_class_of_type() {
        let make = |dtype, fill| Generator::new(0).tensor(&port(dtype), &[1, 2], fill).unwrap();
        assert_eq!(make(DType::I64, Fill::Random).elements::<i64>().unwrap(), [0, 0]);
        assert_eq!(make(DType::Bool, Fill::Random).bytes(), [1, 1]);
        // Varied ones are of both signs, and not all the same.
        let varied = |dtype| Generator::new(0).tensor(&port(dtype), &[50, 2], Fill::Varied).unwrap();
        let wide = varied(DType::I32);
        let wide = wide.elements::<i32>().unwrap();
        assert!(wide.iter().all(|n| (-64..64).contains(n)) && wide.iter().any(|n| *n < 0), "{wide:?}");
        assert!(varied(DType::U32).elements::<u32>().unwrap().iter().all(|n| *n < 128));
        assert!(varied(DType::U8).bytes().iter().any(|n| *n > 200) && varied(DType::I8).bytes().contains(&0xff));
        assert_eq!((varied(DType::I4).bytes().len(), varied(DType::F32).dtype()), (50, DType::F32));
        let bools = varied(DType::Bool);
        assert!(bools.bytes().contains(&0) && bools.bytes().contains(&1) && bools.bytes().iter().all(|n| *n < 2));
        let below = Generator::new(0).tensor(&port(DType::I64), &[50, 2], Fill::Below(3)).unwrap();
        let distinct: std::collections::BTreeSet<i64> = below.elements::<i64>().unwrap().iter().copied().collect();
        assert_eq!(
            (distinct, make(DType::I64, Fill::Below(0)).elements::<i64>().unwrap()),
            ((0..3).collect(), &[0, 0][..])
        );
        assert_eq!(make(DType::I32, Fill::Value(7.0)).elements::<i32>().unwrap(), [7, 7]);
        assert_eq!(make(DType::F16, Fill::Random).dtype(), DType::F16);
        assert_eq!(make(DType::Bool, Fill::Value(2.0)).bytes(), [1, 1]);
    }

    #[test]
    fn symbols_come_from_given_inputs_then_from_the_user_then_from_their_range() {
        let entry = Entry {
            name: "main".to_owned(),
            inputs: vec![port(DType::F32), port(DType::F32)],
            outputs: vec![],
            symbols: vec![SymbolSpec { name: "N".to_owned(), min: 0, max: None }],
            bindings: vec![Binding { symbol: 0, source: BindingSource::Axis { input: 1, axis: 0 } }],
            state: vec![],
            assumptions: vec![],
            specializes: None,
            slices: None,
        };
        let shape = |given: Option<Tensor>, dims: &[(&str, i64)]| {
            let dims = dims.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
            input_shapes(&entry, &[None, given], &dims).map(|shapes| shapes[0].clone())
        };
        assert_eq!(shape(None, &[]).unwrap(), [1, 2]);
        assert_eq!(shape(None, &[("N", 5)]).unwrap(), [5, 2]);
        let given = Tensor::zeros(DType::F32, &[3, 2]).unwrap();
        assert_eq!(shape(Some(given), &[("N", 5)]).unwrap(), [3, 2]);
        assert_eq!(shape(None, &[("M", 5)]).unwrap_err().code(), "cli::usage");
    }

    /// `M` stands for `N` in all shapes, as the model needs them to be equal.
    #[test]
    fn dims_that_are_equal_are_said_by_either_name() {
        let shaped = |symbol| PortSpec { shape: vec![SizeExpr::symbol(symbol)], ..port(DType::F32) };
        let spec = |name: &str| SymbolSpec { name: name.to_owned(), min: 0, max: None };
        let read = |symbol| Binding { symbol, source: BindingSource::Axis { input: symbol, axis: 0 } };
        let entry = Entry {
            name: "main".to_owned(),
            inputs: vec![shaped(1), shaped(1)],
            outputs: vec![],
            symbols: vec![spec("N"), spec("M")],
            bindings: vec![read(0), read(1)],
            state: vec![],
            assumptions: vec![],
            specializes: None,
            slices: None,
        };
        let shapes = |dims: &[(&str, i64)]| {
            let dims = dims.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
            input_shapes(&entry, &[None, None], &dims)
        };
        for dims in [&[("N", 7)][..], &[("M", 7)], &[("N", 7), ("M", 7)]] {
            assert_eq!(shapes(dims).unwrap(), [[7], [7]], "{dims:?}");
        }
        assert_eq!(shapes(&[("N", 7), ("M", 5)]).unwrap_err().code(), "cli::usage");
    }

    #[test]
    fn absurd_sizes_are_errors() {
        let make = |shape: &[usize]| Generator::new(0).tensor(&port(DType::F32), shape, Fill::Random);
        assert_eq!(make(&[1 << 60, 2]).unwrap_err().code(), "input::too-large");
        assert_eq!(make(&[usize::MAX, 2]).unwrap_err().code(), "input::too-large");
    }
}
