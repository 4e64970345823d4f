//! Models as files again: one message, and beside it a file of large tensors where the message would be too large.
//!
//! ONNX, "External Data": a tensor names the file and the bytes in it. A protobuf message cannot have more than 2 GiB.

use crate::error::ImportError;
use crate::proto::tensor_proto::{DataLocation, DataType};
use crate::proto::{ModelProto, StringStringEntryProto, TensorProto};
use crate::tensor_proto;
use bytes::Bytes;
use prost::Message;
use std::io::{self, Write};

/// The largest message that is written in one piece. Half of what protobuf allows: tools add types and names.
pub const MAX_INLINE_BYTES: usize = 1 << 30;

/// Tensors of fewer bytes stay in the message.
const MIN_EXTERNAL_BYTES: usize = 1024;

/// Where a tensor in a file of its own begins: at multiples of this, so that mapped elements are aligned.
const ALIGNMENT: u64 = 64;

/// A model as it is written.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The message.
    pub model: Vec<u8>,
    /// What goes into the file of tensors, if there is one.
    pub data: Option<TensorData>,
}

/// The contents of a file of tensors.
#[derive(Clone, Debug, Default)]
pub struct TensorData {
    /// Tensors, and where they begin.
    pieces: Vec<(u64, Bytes)>,
    len: u64,
}

impl TensorData {
    /// Length of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Writes the file.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut at = 0;
        for (start, bytes) in &self.pieces {
            const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
            out.write_all(&ZEROS[..(start - at) as usize])?;
            out.write_all(bytes)?;
            at = start + bytes.len() as u64;
        }
        Ok(())
    }

    fn push(&mut self, bytes: Bytes) -> u64 {
        let start = self.len.next_multiple_of(ALIGNMENT);
        self.len = start + bytes.len() as u64;
        self.pieces.push((start, bytes));
        start
    }
}

/// Encodes a model. With `data_file`, the name of a file beside the model, large initializers of the main graph go there.
///
/// # Errors
/// [`ImportError::InvalidTensor`] of a damaged tensor.
pub fn encode(mut model: ModelProto, data_file: Option<&str>) -> Result<Encoded, ImportError> {
    let Some(data_file) = data_file else { return Ok(Encoded { model: model.encode_to_vec(), data: None }) };
    let mut data = TensorData::default();
    for tensor in model.graph.iter_mut().flat_map(|graph| &mut graph.initializer) {
        move_out(tensor, data_file, &mut data)?;
    }
    Ok(Encoded { model: model.encode_to_vec(), data: Some(data) })
}

fn move_out(tensor: &mut TensorProto, file: &str, data: &mut TensorData) -> Result<(), ImportError> {
    if tensor.data_type() == DataType::String as i32 || tensor.encoded_len() < MIN_EXTERNAL_BYTES {
        return Ok(());
    }
    if tensor.raw_data.is_none() {
        // Elements that are listed one by one.
        let raw = tensor_proto::to_proto(tensor.name(), &tensor_proto::read(tensor)?);
        *tensor = TensorProto { doc_string: tensor.doc_string.take(), ..raw };
    }
    let Some(bytes) = tensor.raw_data.take() else { return Ok(()) };
    let length = bytes.len();
    let offset = data.push(bytes);
    let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
    tensor.external_data = vec![
        entry("location", file.to_owned()),
        entry("offset", offset.to_string()),
        entry("length", length.to_string()),
    ];
    tensor.data_location = Some(DataLocation::External as i32);
    Ok(())
}
