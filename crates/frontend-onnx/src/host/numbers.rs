//! Numbers that kernels compute, as dims.
//!
//! What is computed becomes known to shapes by way of a tensor of that extent, which the host makes and which has no
//! elements: it takes neither time nor memory.

use super::fresh_symbol;
use crate::build::{Builder, Result, may_be_numbers};
use crate::error::Problem;
use crate::known::Item;
use crate::tracked::{Contents, Tracked, static_len};
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{HostOp, Produced};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp};
use infc_tensor::DType;

/// The most numbers of one value that become dims: enough for the bounds of as many axes as models in earnest have.
const MAX_NUMBERS: usize = 16;

/// Numbers are within this distance of 0; what is farther away means the same to a slice, and nothing to an extent.
const FAR: i64 = 1 << 30;

/// A number (i64, no axes) that is computed, as a dim; less than 0 counts as 0.
pub(crate) fn counted(build: &mut Builder, number: &Tracked, reason: &str) -> Result<Dim> {
    counted_up_to(build, number, None, reason)
}

/// As [`counted`], of a number that is known to be at most `most`, if that is known.
pub(crate) fn counted_up_to(build: &mut Builder, number: &Tracked, most: Option<i64>, reason: &str) -> Result<Dim> {
    // What is beyond all extents is clamped to twice as far, which is refused then.
    let most = most.map_or(2 * FAR - 1, |most| most.min(2 * FAR - 1));
    Ok(all_counted(build, &[number], most, reason)?.remove(0))
}

/// As [`counted`], of several numbers at once, which are refused beyond `most`.
fn all_counted(build: &mut Builder, numbers: &[&Tracked], most: i64, reason: &str) -> Result<Vec<Dim>> {
    let numbers: Vec<Tracked> =
        numbers.iter().map(|number| build.reshape(number, &[Dim::constant(1)])).collect::<Result<_>>()?;
    let numbers = build.concat(&numbers.iter().collect::<Vec<_>>(), 0)?;
    extents(build, &numbers, most, reason)
}

/// Whole floats (no axes) that are computed, as extents of an operator that could not be expanded otherwise; less than 0 counts
/// as 0. What is no number, or beyond all extents, is refused when the model runs.
///
/// # Errors
/// [`Problem::DynamicValue`] where the host has no part, as within loops.
pub(crate) fn extents_of_floats(build: &mut Builder, numbers: &[&Tracked], what: &'static str) -> Result<Vec<Dim>> {
    let problem = Problem::DynamicValue { what };
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    if !build.may_use_host {
        return Err(problem);
    }
    let whole: Vec<Tracked> = numbers
        .iter()
        .map(|number| {
            build.map(&[number], |body, p| {
                // Conversions of what is beyond all integers mean nothing.
                let (number, most) = (body.cast(DType::F64, p[0]), body.constant(DType::F64, (2 * FAR) as f64));
                let (is_less, least) =
                    (body.compare(CompareOp::Lt, number, most), body.constant(DType::F64, -(2 * FAR) as f64));
                let number = body.select(is_less, number, most);
                let number = body.binary(BinaryOp::Max, number, least);
                body.cast(DType::I64, number)
            })
        })
        .collect::<Result<_>>()?;
    all_counted(build, &whole.iter().collect::<Vec<_>>(), 2 * FAR - 1, &problem.to_string())
}

/// The value with its elements, integers that are computed, known as dims of either sign; `None` if it has too many.
pub(crate) fn with_numbers(build: &mut Builder, x: &Tracked, reason: &str) -> Result<Option<Tracked>> {
    let len = static_len(x.shape()).filter(|len| (1..=MAX_NUMBERS).contains(len));
    let Some(len) = len.filter(|_| may_be_numbers(x.ty()) && x.dims().is_none()) else { return Ok(None) };
    let known: Vec<Option<Item>> = (0..len).map(|n| build.known_element(x, n)).collect();
    let numbers = build.reshape(x, &[Dim::constant(len as i64)])?;
    // Extents are not negative, so that they count from below the least number.
    let shifted = build.map(&[&numbers], |body, p| {
        let number = body.cast(DType::I64, p[0]);
        let far = constant(body, FAR);
        body.binary(BinaryOp::Add, number, far)
    })?;
    let extents = extents(build, &shifted, 2 * FAR, reason)?;
    let number = |(extent, known): (&Dim, Option<Item>)| {
        // What is known stays what it is: of a shape, maybe one extent is computed.
        known.unwrap_or_else(|| Item::Int(build.named_number("a number", extent.clone() - FAR, -FAR, FAR)))
    };
    let numbers = extents.iter().zip(known).map(number).collect();
    Ok(Some(x.with_contents(Contents::Items(numbers))))
}

fn constant(body: &mut Body, value: i64) -> infc_ir::entity::ScalarId {
    body.push(ScalarOp::Const(Const::from_i64(DType::I64, value)))
}

/// The elements of a vector (i64) as extents: at least 0, and no more than twice as far as numbers go, which is refused if
/// `most` is less.
fn extents(build: &mut Builder, numbers: &Tracked, most: i64, reason: &str) -> Result<Vec<Dim>> {
    let len = static_len(numbers.shape()).unwrap_or(0);
    let limited = build.map(&[numbers], |body, p| {
        let (none, all) = (constant(body, 0), constant(body, 2 * FAR));
        let number = body.binary(BinaryOp::Max, p[0], none);
        body.binary(BinaryOp::Min, number, all)
    })?;
    // An extent of 0 behind them: there are no elements.
    let nothing = Tracked::of_dims(vec![Dim::constant(0)]);
    let shape = build.concat(&[&limited, &nothing], 0)?;
    let symbols: Vec<_> = (0..len).map(|_| fresh_symbol(build, "count".to_owned(), Some(most))).collect();
    let produces = |(axis, &symbol): (usize, _)| Produced { output: 0, axis: axis as u32, symbol };
    let produces = symbols.iter().enumerate().map(produces).collect();
    let op = HostOp { produces, ..HostOp::shaping(reason) };
    let dims: Vec<Dim> = symbols.iter().map(|&symbol| Dim::symbol(symbol)).collect();
    let shaped = [&dims[..], &[Dim::constant(0)]].concat();
    build.host(op, &[&shape], vec![TensorType::new(DType::F32, shaped)])?;
    Ok(dims)
}
