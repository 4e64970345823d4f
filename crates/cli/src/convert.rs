//! Conversions between element types.

use infc_reference::{Attribute, Attributes, Node, dtypes, evaluate};
use infc_tensor::{DType, Tensor};

/// The elements converted as ONNX's `Cast` does; `None` if there is no such conversion.
pub(crate) fn cast(tensor: &Tensor, dtype: DType) -> Option<Tensor> {
    let mut attributes = Attributes::new();
    attributes.insert("to", Attribute::Int(dtypes::to_onnx(dtype)?));
    let node = Node { op_type: "Cast", domain: "", opset: 25, attributes: &attributes, num_outputs: 1 };
    evaluate(&node, &[Some(tensor)]).ok()?.pop()
}

/// The elements as they are compared and printed: as [`Tensor::get_f64`] gives them, for every type of number.
pub(crate) fn to_f64(tensor: &Tensor) -> Option<Vec<f64>> {
    match tensor.dtype() {
        // Integers of 64 bits would be rounded either way; floats of all widths are exact.
        DType::F64 => Some(tensor.elements().ok()?.to_vec()),
        dtype => {
            let wide;
            let tensor = if dtype.size_bytes().is_some() && tensor.get_f64(0).is_some() {
                tensor
            } else {
                wide = cast(tensor, DType::F64)?;
                &wide
            };
            (0..tensor.len_elems()).map(|index| tensor.get_f64(index)).collect()
        }
    }
}
