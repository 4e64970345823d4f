//! What the drawing of models asks of a source of numbers.

use infc_tensor::{AlignedBytes, Attribute, Attributes, DType, Tensor};

/// Strings that tensors are made of.
pub(crate) const WORDS: [&str; 10] = ["", "a", "B", "ab", "c d b", "7", "-3", "2.5", "é", "true"];

/// A small, repeatable source of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5eed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `below − 1`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        ((u128::from(self.next()) * below as u128) >> 64) as usize
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(1) as usize) as i64
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn flag(&mut self) -> i64 {
        self.below(2) as i64
    }

    /// In [−1, 1).
    pub(crate) fn signed_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// One of some; there is one.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// The numbers below `n` in some order.
    pub(crate) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).for_each(|at| order.swap(at, self.below(at + 1)));
        order
    }

    /// A tensor of small numbers that all types of floats can hold: quarters for floats, integers for integers; or of words.
    pub(crate) fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let len = shape.iter().product();
        if dtype == DType::String {
            let words = (0..len).map(|_| (*self.pick(&WORDS)).to_owned()).collect();
            return Tensor::from_strings(shape, words).expect("as many as the shape has");
        }
        if let Some(part) = part_of(dtype) {
            let parts = self.tensor(part, &[shape, &[2]].concat());
            let bytes = AlignedBytes::from_slice(parts.bytes());
            return Tensor::from_bytes(dtype, shape.to_vec(), bytes).expect("two parts each");
        }
        let signed = !matches!(dtype, DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64);
        let number = |random: &mut Self| match dtype {
            DType::Bool => random.flag() as f64,
            dtype if dtype.is_float() => random.between(-12, 12) as f64 / 4.0,
            _ => random.between(if signed { -7 } else { 0 }, 7) as f64,
        };
        let numbers: Vec<f64> = (0..len).map(|_| number(self)).collect();
        cast(&Tensor::from_elements(shape, &numbers).expect("as many as the shape has"), dtype)
    }
}

/// The type of the two parts of a complex number, which lie next to each other.
pub(crate) fn part_of(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Complex64 => Some(DType::F32),
        DType::Complex128 => Some(DType::F64),
        _ => None,
    }
}

/// The numbers as elements of a type.
pub(crate) fn cast(x: &Tensor, to: DType) -> Tensor {
    let code = infc_reference::dtypes::to_onnx(to).expect("a type of ONNX");
    let attributes = Attributes::from_iter([("to", Attribute::Int(code))]);
    let node = infc_reference::Node { op_type: "Cast", domain: "", opset: 21, attributes: &attributes, num_outputs: 1 };
    infc_reference::evaluate(&node, &[Some(x)]).expect("numbers can be converted").swap_remove(0)
}
