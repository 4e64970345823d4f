//! Typed ids and the arenas they index.
//!
//! An id is four bytes, `Copy`, says which arena it indexes, and displays as it prints in IR text (`%7`, `s3`, `b0`).

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A typed index into an [`IndexVec`].
pub trait EntityId: Copy + Eq + Hash + Ord + fmt::Debug {
    /// The id with the given number.
    fn from_index(index: usize) -> Self;
    /// The number of the id.
    fn index(self) -> usize;
}

macro_rules! entity_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl EntityId for $name {
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 entities"))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

entity_id!(
    /// A value of a graph.
    ValueId, "%"
);
entity_id!(
    /// A node of a graph.
    NodeId, "n"
);
entity_id!(
    /// A symbolic dimension.
    SymbolId, "$"
);
entity_id!(
    /// An index variable: the n-th axis of a stage or access map, or a loop variable of a nest.
    VarId, "i"
);
entity_id!(
    /// A node of a scalar expression.
    ScalarId, "v"
);
entity_id!(
    /// An operand (input, constant or output) of a kernel.
    OperandId, "p"
);
entity_id!(
    /// A stage of a kernel.
    StageId, "s"
);
entity_id!(
    /// A buffer of a loop nest.
    BufferId, "b"
);
entity_id!(
    /// An entry of a graph's table of ONNX origins.
    OriginId, "o"
);

/// A vector that only its own kind of id indexes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IndexVec<I, T> {
    items: Vec<T>,
    marker: PhantomData<I>,
}

impl<I: EntityId, T> IndexVec<I, T> {
    /// An empty arena.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: Vec::new(), marker: PhantomData }
    }

    /// Appends and returns the new id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item, or `None` if the id is out of range.
    #[must_use]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// All items, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// All items for change, in order.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Ids and items, in order.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(i, t)| (I::from_index(i), t))
    }

    /// The id that the next [`IndexVec::push`] will return.
    #[must_use]
    pub fn next_id(&self) -> I {
        I::from_index(self.items.len())
    }
}

impl<I: EntityId, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: EntityId, T> Index<I> for IndexVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: EntityId, T> IndexMut<I> for IndexVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: EntityId, T> FromIterator<T> for IndexVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(iter: It) -> Self {
        Self { items: iter.into_iter().collect(), marker: PhantomData }
    }
}

impl<I: EntityId, T: fmt::Debug> fmt::Debug for IndexVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
