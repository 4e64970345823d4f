//! A value of the model during import: its type, and what is known of its elements.
//!
//! A tracked value becomes a value of the graph only when something reads it as data, so shape arithmetic that ends
//! in dims leaves no trace.

use crate::element::Element;
use crate::known::{self, Item};
use infc_ir::entity::ValueId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::ConstantOp;
use infc_ir::scalar::Scalar;
use infc_tensor::{DType, Tensor};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// What is known of the elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contents {
    /// Nothing.
    Unknown,
    /// All are this one, however many there are.
    Uniform(Item),
    /// Each, in row-major order.
    Items(Vec<Item>),
}

/// See the module's text. Cloning shares.
#[derive(Clone, Debug)]
pub(crate) struct Tracked(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    ty: TensorType,
    contents: Contents,
    /// The tensor, if this is a constant of the model.
    constant: Option<Arc<ConstantOp>>,
    /// Where it is in the graph, once it is.
    value: OnceCell<ValueId>,
    /// What is known of the values within, of a sequence or an optional.
    element: Option<Rc<Element>>,
    /// Whether this is a tensor whose number of axes only a run tells: in the graph, a sequence of that one tensor.
    unranked: bool,
}

impl Tracked {
    fn new(ty: TensorType, contents: Contents, constant: Option<Arc<ConstantOp>>) -> Self {
        let contents = match contents {
            Contents::Items(items) => match &items[..] {
                [item] => Contents::Uniform(item.clone()),
                _ => Contents::Items(items),
            },
            other => other,
        };
        Self(Rc::new(Inner { ty, contents, constant, value: OnceCell::new(), element: None, unranked: false }))
    }

    /// The one tensor in a sequence, of a type whose number of axes only a run tells.
    pub(crate) fn unranked(sequence: &Self, dtype: DType) -> Self {
        let element = Some(Rc::new(Element { dtype, shape: None, of: None }));
        Self::of_inner(sequence, element, true)
    }

    /// True if only a run tells how many axes this has.
    pub(crate) fn is_unranked(&self) -> bool {
        self.0.unranked
    }

    fn of_inner(of: &Self, element: Option<Rc<Element>>, unranked: bool) -> Self {
        let Inner { ty, contents, constant, value, .. } = &*of.0;
        let (ty, contents, constant, value) = (ty.clone(), contents.clone(), constant.clone(), value.clone());
        Self(Rc::new(Inner { ty, contents, constant, value, element, unranked }))
    }

    /// The same where another graph begins: known elements stay known there. `None` if they are not known.
    pub(crate) fn in_another_graph(&self) -> Option<Self> {
        let known = self.0.constant.is_some() || self.0.contents != Contents::Unknown;
        known.then(|| Self::new(self.0.ty.clone(), self.0.contents.clone(), self.0.constant.clone()))
    }

    /// A value that the graph computes.
    pub(crate) fn of_value(ty: TensorType, value: ValueId) -> Self {
        let tracked = Self::new(ty, Contents::Unknown, None);
        tracked.set_value(value);
        tracked
    }

    /// The same value with knowledge of the values within.
    pub(crate) fn with_element(&self, element: Option<Rc<Element>>) -> Self {
        Self::of_inner(self, element, self.0.unranked)
    }

    /// The same value with what is known of the values within another one, which it stands for.
    pub(crate) fn standing_for(&self, other: &Self) -> Self {
        Self::of_inner(self, other.0.element.clone(), other.0.unranked)
    }

    /// What is known of the values within.
    pub(crate) fn element(&self) -> Option<&Rc<Element>> {
        self.0.element.as_ref()
    }

    /// The same value with other knowledge of its elements.
    pub(crate) fn with_contents(&self, contents: Contents) -> Self {
        let known = Self::new(self.0.ty.clone(), contents, self.0.constant.clone());
        if let Some(value) = self.value() {
            known.set_value(value);
        }
        known
    }

    /// A constant tensor.
    pub(crate) fn of_constant(name: &str, tensor: Tensor) -> Self {
        let ty = TensorType::new(tensor.dtype(), tensor.shape().iter().map(|&d| Dim::constant(d as i64)).collect());
        let contents = known::items_of(&tensor).map_or(Contents::Unknown, Contents::Items);
        Self::new(ty, contents, Some(Arc::new(ConstantOp { name: name.to_owned(), tensor })))
    }

    /// A value whose elements are known; as many as the static shape has.
    pub(crate) fn of_items(ty: TensorType, items: Vec<Item>) -> Self {
        Self::new(ty, Contents::Items(items), None)
    }

    /// A value whose elements are all the same.
    pub(crate) fn uniform(ty: TensorType, item: Item) -> Self {
        Self::new(ty, Contents::Uniform(item), None)
    }

    /// A vector of dims (i64).
    pub(crate) fn of_dims(dims: Vec<Dim>) -> Self {
        let ty = TensorType::new(DType::I64, vec![Dim::constant(dims.len() as i64)]);
        Self::of_items(ty, dims.into_iter().map(Item::Int).collect())
    }

    /// The same value with its dims, and elements that are dims, replaced by what `f` makes of them.
    pub(crate) fn restated(&self, f: &dyn Fn(&Dim) -> Dim) -> Self {
        let item = |item: &Item| match item {
            Item::Int(dim) => {
                let dim = f(dim);
                dim.as_const().map_or(Item::Int(dim), |value| Item::from_scalar(self.dtype(), Scalar::Int(value)))
            }
            Item::Const(_) => item.clone(),
        };
        let contents = match self.contents() {
            Contents::Unknown => Contents::Unknown,
            Contents::Uniform(one) => Contents::Uniform(item(one)),
            Contents::Items(items) => Contents::Items(items.iter().map(item).collect()),
        };
        let ty = TensorType::new(self.dtype(), self.shape().iter().map(f).collect());
        let restated = Self::new(ty, contents, self.0.constant.clone());
        if let Some(value) = self.value() {
            restated.set_value(value);
        }
        if self.element().is_some() { restated.standing_for(self) } else { restated }
    }

    pub(crate) fn ty(&self) -> &TensorType {
        &self.0.ty
    }

    pub(crate) fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    pub(crate) fn shape(&self) -> &[Dim] {
        &self.0.ty.shape
    }

    pub(crate) fn rank(&self) -> usize {
        self.0.ty.shape.len()
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.0.contents
    }

    pub(crate) fn constant(&self) -> Option<&Arc<ConstantOp>> {
        self.0.constant.as_ref()
    }

    pub(crate) fn value(&self) -> Option<ValueId> {
        self.0.value.get().copied()
    }

    pub(crate) fn set_value(&self, value: ValueId) {
        self.0.value.set(value).expect("a value enters the graph once");
    }

    /// The element, if there is one that all are equal to.
    pub(crate) fn as_uniform(&self) -> Option<&Item> {
        match &self.0.contents {
            Contents::Uniform(item) => Some(item),
            _ => None,
        }
    }

    /// All elements one by one; `None` if they are not known or too many.
    pub(crate) fn items(&self) -> Option<Vec<Item>> {
        match &self.0.contents {
            Contents::Unknown => (static_len(self.shape()) == Some(0)).then(Vec::new),
            Contents::Items(items) => Some(items.clone()),
            Contents::Uniform(item) => static_len(self.shape()).map(|n| vec![item.clone(); n]),
        }
    }

    /// All elements as dims, if they are known integers.
    pub(crate) fn dims(&self) -> Option<Vec<Dim>> {
        if self.dtype().is_float() {
            return None;
        }
        self.items()?.iter().map(|item| item.dim().cloned()).collect()
    }

    /// All elements as numbers, if this is a constant.
    pub(crate) fn floats(&self) -> Option<Vec<f64>> {
        if let Some(constant) = self.constant() {
            return (0..constant.tensor.len_elems()).map(|n| constant.tensor.get_f64(n)).collect();
        }
        self.items()?.iter().map(|item| item.scalar().map(Scalar::to_f64)).collect()
    }
}

/// The number of elements of a shape, if it is known and small enough to track them one by one.
pub(crate) fn static_len(shape: &[Dim]) -> Option<usize> {
    let extents: Vec<usize> = shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<_>>()?;
    if extents.contains(&0) {
        return Some(0);
    }
    extents.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= known::MAX_ITEMS)
}
