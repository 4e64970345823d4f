//! Inputs and their dims: names of symbols, and what the user says of them.

use super::demand::Demand;
use super::scope::Scopes;
use crate::custom::CustomOps;
use crate::element::Element;
use crate::error::ImportError;
use crate::model::Model;
use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{ValueInfoProto, type_proto};
use crate::tensor_proto;
use infc_ir::entity::SymbolId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::symbol::{Symbol, Symbols};
use infc_tensor::DType;

/// What the user says of a symbolic dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimChoice {
    /// It always has this value.
    Fixed(i64),
    /// It lies between these values, both included; `None` is unbounded.
    Range(i64, Option<i64>),
}

/// One extent of a shape that the user gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeDim {
    /// This value.
    Fixed(i64),
    /// Not known before the model runs (`?`).
    Dynamic,
}

/// How a model is imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Values and ranges of symbolic dims, by name. A dim without a name, or named `?`, is called `INPUT[AXIS]`.
    pub dims: Vec<(String, DimChoice)>,
    /// Shapes of inputs, by name.
    pub shapes: Vec<(String, Vec<ShapeDim>)>,
    /// Rounds half types wherever ONNX's definition of an operator by other operators names a value of such a type, and
    /// not once per operator.
    pub strict: bool,
    /// Lets extents that are broadcast to each other be equal or 1, as the run will tell, where they are taken to be equal otherwise
    /// ([`infc_ir::graph::BROADCAST_EXTENTS`]), and positions count from either end
    /// ([`infc_ir::graph::SLICE_POSITION`]).
    pub extents_differ: bool,
    /// Operators that the program which runs the model brings.
    pub custom_ops: CustomOps,
}

/// The greatest extent that is accepted; well beyond it sizes would overflow.
const MAX_EXTENT: i64 = 1 << 40;

/// The greatest value of a symbolic dim that nobody limited. Exporters write "to the end" of an axis as 10^9 and the
/// like, which a limit shows to be the end.
const DEFAULT_MAX: i64 = 1_000_000_000;

/// A dim of an input before the user's choices are applied.
struct RawDim {
    /// Its value in the model.
    value: Option<i64>,
    /// The name of its symbol.
    name: String,
    /// The user's value, from `shapes`.
    given: Option<i64>,
    /// The greatest value that it may have.
    max: i64,
}

/// Adds the model's inputs to the graph.
pub(super) fn add<'m>(
    model: &'m Model,
    options: &ImportOptions,
    demand: &Demand,
    scopes: &mut Scopes<'m>,
) -> Result<(), ImportError> {
    let inputs: Vec<&'m ValueInfoProto> = model.inputs().collect();
    let known = |name: &str| inputs.iter().any(|i| i.name() == name);
    if let Some((found, _)) = options.shapes.iter().find(|(name, _)| !known(name)) {
        let expected = inputs.iter().map(|i| format!("`{}`", i.name())).collect();
        return Err(ImportError::UnknownInput { found: found.clone(), expected });
    }
    let mut raw: Vec<(&'m str, DType, Option<Vec<RawDim>>)> = Vec::new();
    for input in &inputs {
        let shape = options.shapes.iter().find(|(name, _)| name == input.name()).map(|(_, shape)| &shape[..]);
        let (dtype, dims) = raw_dims(input, shape)?;
        raw.push((input.name(), dtype, dims));
    }
    let mut names = Names::new(&raw, options)?;
    for (position, (name, dtype, dims)) in (0u32..).zip(raw) {
        let Some(dims) = dims else {
            let tracked = scopes.build().unranked_input(name, dtype).map_err(ImportError::value(name))?;
            scopes.define(name, tracked);
            continue;
        };
        let shape: Vec<Dim> = dims
            .into_iter()
            .map(|dim| match dim.value.or(dim.given) {
                Some(value) => Ok(Dim::constant(value)),
                None => names.dim(&dim.name, dim.max, &mut scopes.build().graph.symbols),
            })
            .collect::<Result<_, ImportError>>()?;
        let tracked =
            scopes.build().model_input(name, TensorType::new(dtype, shape)).map_err(ImportError::value(name))?;
        let element = Element::of_declaration(inputs[position as usize]).and_then(|e| e.of);
        let tracked = tracked.with_element(element);
        let tracked = match demand.has_elements(name) {
            true => scopes.build().with_elements_of_input(&tracked, position, name),
            false => tracked,
        };
        scopes.define(name, tracked);
    }
    Ok(())
}

/// How many values a sequence or an optional holds.
fn count(name: &str, max: i64) -> RawDim {
    RawDim { value: None, name: format!("{name}[0]"), given: None, max }
}

/// Element type and dims of an input, merged with the shape that the user gives; `None` if it may have any number of axes.
fn raw_dims(input: &ValueInfoProto, given: Option<&[ShapeDim]>) -> Result<(DType, Option<Vec<RawDim>>), ImportError> {
    let name = input.name();
    let unsupported = |found| ImportError::UnsupportedValueType { value: name.to_owned(), found };
    let tensor = match input.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor,
        Some(
            type_proto::Value::SequenceType(_) | type_proto::Value::OptionalType(_) | type_proto::Value::MapType(_),
        ) => {
            let declared = Element::of_declaration(input);
            let Element { dtype, .. } =
                declared.ok_or_else(|| unsupported("a sequence or map of what are no tensors"))?;
            if dtype == DType::Map {
                // Keys and values.
                let name = format!("{name}[0]");
                return Ok((dtype, Some(vec![RawDim { value: Some(2), name, given: None, max: DEFAULT_MAX }])));
            }
            let max = if dtype == DType::Optional { 1 } else { DEFAULT_MAX };
            return Ok((dtype, Some(vec![count(name, max)])));
        }
        Some(type_proto::Value::SparseTensorType(_)) => return Err(unsupported("a sparse tensor")),
        Some(_) => return Err(unsupported("of an opaque type")),
        None => return Err(unsupported("of no type")),
    };
    let dtype =
        tensor_proto::dtype_from_onnx(tensor.elem_type()).ok_or_else(|| unsupported("of an unknown element type"))?;
    let mut dims: Vec<RawDim> = match (&tensor.shape, given) {
        (Some(shape), _) => shape
            .dim
            .iter()
            .enumerate()
            .map(|(axis, dim)| {
                let unnamed = || format!("{name}[{axis}]");
                match &dim.value {
                    Some(dimension::Value::DimValue(value)) if *value >= 0 => {
                        RawDim { value: Some(*value), name: unnamed(), given: None, max: DEFAULT_MAX }
                    }
                    Some(dimension::Value::DimParam(param)) if !param.is_empty() && param != "?" => {
                        RawDim { value: None, name: param.clone(), given: None, max: DEFAULT_MAX }
                    }
                    _ => RawDim { value: None, name: unnamed(), given: None, max: DEFAULT_MAX },
                }
            })
            .collect(),
        (None, Some(given)) => (0..given.len())
            .map(|axis| RawDim { value: None, name: format!("{name}[{axis}]"), given: None, max: DEFAULT_MAX })
            .collect(),
        (None, None) => return Ok((dtype, None)),
    };
    if let Some(given) = given {
        if given.len() != dims.len() {
            return Err(ImportError::Contradiction {
                what: format!("the number of axes of input `{name}`"),
                first: format!("{} in the model", dims.len()),
                second: format!("{} as given", given.len()),
            });
        }
        for (axis, (dim, given)) in dims.iter_mut().zip(given).enumerate() {
            let ShapeDim::Fixed(given) = *given else { continue };
            if let Some(value) = dim.value.filter(|&v| v != given) {
                return Err(ImportError::Contradiction {
                    what: format!("axis {axis} of input `{name}`"),
                    first: format!("{value} in the model"),
                    second: format!("{given} as given"),
                });
            }
            dim.given = Some(given);
        }
    }
    let too_large = |d: &RawDim| d.value.or(d.given).is_some_and(|v| !(0..=MAX_EXTENT).contains(&v));
    if let Some(dim) = dims.iter().find(|d| too_large(d)) {
        let shape = dim.value.or(dim.given).unwrap_or(0).to_string();
        return Err(ImportError::DimOverflow { value: name.to_owned(), shape });
    }
    Ok((dtype, Some(dims)))
}

/// The symbols by name.
struct Names {
    choices: Vec<(String, DimChoice)>,
    symbols: Vec<(String, SymbolId)>,
}

impl Names {
    /// Collects the choices from both options; a shape that fixes one use of a name fixes all.
    fn new(raw: &[(&str, DType, Option<Vec<RawDim>>)], options: &ImportOptions) -> Result<Self, ImportError> {
        let symbolic = || raw.iter().flat_map(|(_, _, dims)| dims.iter().flatten()).filter(|d| d.value.is_none());
        let mut choices: Vec<(String, DimChoice)> = Vec::new();
        for (name, choice) in &options.dims {
            if !symbolic().any(|d| d.name == *name) {
                let mut expected: Vec<String> = symbolic().map(|d| format!("`{}`", d.name)).collect();
                expected.sort();
                expected.dedup();
                return Err(ImportError::UnknownDim { found: name.clone(), expected });
            }
            add_choice(&mut choices, name, *choice)?;
        }
        for dim in symbolic() {
            if let Some(value) = dim.given {
                add_choice(&mut choices, &dim.name, DimChoice::Fixed(value))?;
            }
        }
        Ok(Self { choices, symbols: Vec::new() })
    }

    fn dim(&mut self, name: &str, max: i64, symbols: &mut Symbols) -> Result<Dim, ImportError> {
        // ONNX has empty tensors: a cache before the first step, a batch of nothing.
        let choice = self.choices.iter().find(|(n, _)| n == name).map_or(DimChoice::Range(0, Some(max)), |(_, c)| *c);
        match choice {
            DimChoice::Fixed(value) => Ok(Dim::constant(value)),
            DimChoice::Range(min, max) => {
                if let Some((_, symbol)) = self.symbols.iter().find(|(n, _)| n == name) {
                    return Ok(Dim::symbol(*symbol));
                }
                let symbol = symbols.push(Symbol { name: name.to_owned(), min, max });
                self.symbols.push((name.to_owned(), symbol));
                Ok(Dim::symbol(symbol))
            }
        }
    }
}

/// Adds a choice for a name; two may only agree, or narrow a range to a value.
fn add_choice(choices: &mut Vec<(String, DimChoice)>, name: &str, choice: DimChoice) -> Result<(), ImportError> {
    let choice = match choice {
        DimChoice::Range(min, Some(max)) if min == max => DimChoice::Fixed(min),
        other => other,
    };
    let (min, max) = match choice {
        DimChoice::Fixed(value) => (value, Some(value)),
        DimChoice::Range(min, max) => (min, max),
    };
    if min < 0 || max.is_some_and(|max| max < min) {
        return Err(ImportError::InvalidRange { dim: name.to_owned(), min, max });
    }
    if min > MAX_EXTENT || max.is_some_and(|max| max > MAX_EXTENT) {
        return Err(ImportError::DimOverflow { value: name.to_owned(), shape: max.unwrap_or(min).to_string() });
    }
    let Some((_, known)) = choices.iter_mut().find(|(n, _)| n == name) else {
        choices.push((name.to_owned(), choice));
        return Ok(());
    };
    let contained = |value: i64, (min, max): (i64, Option<i64>)| value >= min && max.is_none_or(|max| value <= max);
    match (*known, choice) {
        (a, b) if a == b => Ok(()),
        (DimChoice::Range(a, b), DimChoice::Fixed(value)) if contained(value, (a, b)) => {
            *known = choice;
            Ok(())
        }
        (DimChoice::Fixed(value), DimChoice::Range(a, b)) if contained(value, (a, b)) => Ok(()),
        (first, second) => {
            Err(ImportError::Contradiction { what: format!("dim `{name}`"), first: show(first), second: show(second) })
        }
    }
}

fn show(choice: DimChoice) -> String {
    match choice {
        DimChoice::Fixed(value) => value.to_string(),
        DimChoice::Range(min, max) => format!("{min}..={}", max.map_or_else(String::new, |m| m.to_string())),
    }
}
