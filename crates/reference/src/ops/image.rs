//! `ImageDecoder`: the pixels of an encoded image.
//!
//! Formats: BMP, JPEG, PNG, PNM, TIFF and WebP. ONNX also names JPEG 2000, which is refused. Decoders of lossy formats
//! agree with each other up to rounding only.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{MAX_OUTPUT_BYTES, checked_len};
use image::{ImageReader, Limits};
use infc_tensor::{DType, Tensor};
use std::io::Cursor;

/// `[H, W, C]`, with three channels, or one for `Grayscale`.
pub(crate) fn decode(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let encoded = call.input(0)?;
    if encoded.dtype() != DType::U8 || encoded.rank() != 1 {
        return Err(EvalError::InvalidInput { index: 0, reason: "a vector of bytes is needed" });
    }
    let unreadable =
        |_| EvalError::InvalidInput { index: 0, reason: "it is no BMP, JPEG, PNG, PNM, TIFF or WebP image" };
    let mut reader = ImageReader::new(Cursor::new(encoded.bytes()))
        .with_guessed_format()
        .map_err(|_| EvalError::InvalidInput { index: 0, reason: "it cannot be read" })?;
    let mut limits = Limits::default();
    // The decoded image and its copy.
    limits.max_alloc = Some((MAX_OUTPUT_BYTES / 4) as u64);
    reader.limits(limits);
    let image = reader.decode().map_err(unreadable)?.into_rgb8();
    let (width, height) = (image.width() as usize, image.height() as usize);
    let pixels = image.pixels();
    let (channels, elements): (usize, Vec<u8>) = match call.string("pixel_format", "RGB")? {
        "RGB" => (3, image.into_raw()),
        "BGR" => (3, pixels.flat_map(|p| [p.0[2], p.0[1], p.0[0]]).collect()),
        "Grayscale" => (1, pixels.map(|p| luma(p.0)).collect()),
        _ => return Err(EvalError::InvalidAttribute { name: "pixel_format", reason: "it is no known format" }),
    };
    let shape = [height, width, channels];
    checked_len(DType::U8, &shape)?;
    one(Tensor::from_elements(&shape, &elements)?)
}

/// ITU-R BT.601's weights 0.299, 0.587 and 0.114 in 16 bits, rounded.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((u32::from(red) * 19_595 + u32::from(green) * 38_470 + u32::from(blue) * 7_471 + 0x8000) >> 16) as u8
}
