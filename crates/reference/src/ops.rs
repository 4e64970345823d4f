//! The operators, one family per file.

pub(crate) mod arithmetic;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod contract;
pub(crate) mod conv;
pub(crate) mod create;
pub(crate) mod einsum;
pub(crate) mod gather_scatter;
pub(crate) mod linear_quantize;
pub(crate) mod microsoft;
pub(crate) mod movement;
pub(crate) mod norm;
pub(crate) mod pad;
pub(crate) mod pool;
pub(crate) mod quantized;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod scan;
pub(crate) mod select_rows;
pub(crate) mod slice;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod special;
pub(crate) mod unary;
pub(crate) mod window;
