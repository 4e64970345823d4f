//! Pictures as inputs: decoded, resized to the model's height and width, `(pixel − mean) / scale`, in its layout.

use crate::convert::cast;
use crate::error::CliError;
use image::imageops::FilterType;
use image::{DynamicImage, ImageReader, Limits};
use infc_artifact::PortSpec;
use infc_tensor::{DType, Tensor};
use std::io::Cursor;
use std::path::Path;

/// Most memory that decoding a picture may take.
const MAX_DECODED_BYTES: u64 = 1 << 30;

/// How pixels become elements.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ImageOptions {
    /// For images: subtracted from pixels 0…255; one number, or one per channel
    #[arg(long, value_name = "X[,X…]", value_delimiter = ',', allow_negative_numbers = true, default_value = "0")]
    mean: Vec<f32>,
    /// For images: what pixels are then divided by; one number, or one per channel
    #[arg(long, value_name = "X[,X…]", value_delimiter = ',', default_value = "1")]
    scale: Vec<f32>,
    /// For images: the order of the input's axes (nchw, nhwc, chw, hwc); else told from its shape
    #[arg(long, value_enum, value_name = "LAYOUT", hide_possible_values = true)]
    layout: Option<Layout>,
}

/// The order of an image input's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Layout {
    Nchw,
    Nhwc,
    Chw,
    Hwc,
}

impl Layout {
    fn rank(self) -> usize {
        match self {
            Self::Nchw | Self::Nhwc => 4,
            Self::Chw | Self::Hwc => 3,
        }
    }

    /// Axes of channels, height, width.
    fn axes(self) -> [usize; 3] {
        match self {
            Self::Nchw => [1, 2, 3],
            Self::Nhwc => [3, 1, 2],
            Self::Chw => [0, 1, 2],
            Self::Hwc => [2, 0, 1],
        }
    }
}

impl ImageOptions {
    pub(super) fn check(&self) -> Result<(), CliError> {
        if self.scale.contains(&0.0) {
            return Err(CliError::usage("--scale: pixels cannot be divided by 0"));
        }
        Ok(())
    }
}

/// Makes the tensor for `port` from the bytes of a picture.
pub(super) fn read(bytes: &[u8], path: &Path, port: &PortSpec, options: &ImageOptions) -> Result<Tensor, CliError> {
    // Only the batch may be dynamic: then it is one picture.
    let dims: Vec<Option<usize>> =
        port.shape.iter().map(|dim| dim.as_const().and_then(|n| usize::try_from(n).ok())).collect();
    let text: Vec<String> = dims.iter().map(|dim| dim.map_or_else(|| "?".to_owned(), |n| n.to_string())).collect();
    let bad = |reason: String| CliError::BadImage {
        path: path.to_owned(),
        input: port.name.clone(),
        expected: format!("{}[{}]", port.dtype, text.join(", ")),
        reason,
    };
    let layout = options.layout.or_else(|| guess_layout(&dims));
    let layout = layout.ok_or_else(|| bad("its shape does not tell which axis is which".to_owned()))?;
    if dims.len() != layout.rank() {
        return Err(bad(format!("the layout has {} axes, the input {}", layout.rank(), dims.len())));
    }
    if layout.rank() == 4 && dims[0].is_some_and(|batch| batch != 1) {
        return Err(bad("it takes more than one picture".to_owned()));
    }
    let [channels, height, width] = layout.axes().map(|axis| dims[axis]);
    let picture = decode(bytes).map_err(bad)?;
    let (own_width, own_height) = (picture.width() as usize, picture.height() as usize);
    let (width, height) = (width.unwrap_or(own_width), height.unwrap_or(own_height));
    let picture = resize(picture, width, height).ok_or_else(|| bad("the picture would be too large".to_owned()))?;
    let (channels, pixels) = match channels {
        Some(1) => (1, picture.to_luma8().into_raw()),
        Some(3) => (3, picture.to_rgb8().into_raw()),
        Some(4) => (4, picture.to_rgba8().into_raw()),
        found => {
            let found = found.map_or_else(|| "a dynamic number of".to_owned(), |n| n.to_string());
            return Err(bad(format!("it has {found} channels, pictures have 1, 3 or 4")));
        }
    };
    let per_channel = |values: &[f32], name: &str| match values.len() {
        1 => Ok(vec![values[0]; channels]),
        len if len == channels => Ok(values.to_vec()),
        len => Err(bad(format!("--{name} has {len} numbers, expected 1 or {channels}"))),
    };
    let (mean, scale) = (per_channel(&options.mean, "mean")?, per_channel(&options.scale, "scale")?);
    let elements = arrange(&pixels, channels, [height, width], layout, &mean, &scale);
    let shape: Vec<usize> = match layout {
        Layout::Nchw => vec![1, channels, height, width],
        Layout::Nhwc => vec![1, height, width, channels],
        Layout::Chw => vec![channels, height, width],
        Layout::Hwc => vec![height, width, channels],
    };
    let tensor = Tensor::from_elements(&shape, &elements).map_err(|error| bad(error.to_string()))?;
    if port.dtype == DType::F32 {
        return Ok(tensor);
    }
    let place = path.display().to_string();
    cast(&tensor, port.dtype).ok_or(CliError::WrongElements { place, expected: port.dtype, found: DType::F32 })
}

/// Channels are few: the axis of 1, 3 or 4 tells the layout, the first such axis if there are two.
fn guess_layout(dims: &[Option<usize>]) -> Option<Layout> {
    let layouts: &[Layout] = match dims.len() {
        4 => &[Layout::Nchw, Layout::Nhwc],
        3 => &[Layout::Chw, Layout::Hwc],
        _ => return None,
    };
    layouts.iter().copied().find(|layout| matches!(dims[layout.axes()[0]], Some(1 | 3 | 4)))
}

fn decode(bytes: &[u8]) -> Result<DynamicImage, String> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    reader.decode().map_err(|error| error.to_string())
}

/// The picture at the wanted size; `None` if that is absurd.
fn resize(picture: DynamicImage, width: usize, height: usize) -> Option<DynamicImage> {
    let (width, height) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    if u64::from(width) * u64::from(height) * 4 > MAX_DECODED_BYTES || width == 0 || height == 0 {
        return None;
    }
    if (picture.width(), picture.height()) == (width, height) {
        return Some(picture);
    }
    Some(picture.resize_exact(width, height, FilterType::Triangle))
}

/// Elements in the layout's order, from pixels with interleaved channels.
fn arrange(
    pixels: &[u8],
    channels: usize,
    [height, width]: [usize; 2],
    layout: Layout,
    mean: &[f32],
    scale: &[f32],
) -> Vec<f32> {
    let element =
        |pixel: usize, channel: usize| (f32::from(pixels[pixel * channels + channel]) - mean[channel]) / scale[channel];
    let area = height * width;
    match layout {
        Layout::Nchw | Layout::Chw => (0..channels)
            .flat_map(|channel| (0..area).map(move |pixel| (pixel, channel)))
            .map(|(p, c)| element(p, c))
            .collect(),
        Layout::Nhwc | Layout::Hwc => (0..area)
            .flat_map(|pixel| (0..channels).map(move |channel| (pixel, channel)))
            .map(|(p, c)| element(p, c))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageFormat, RgbImage};
    use infc_artifact::SizeExpr;

    fn port(shape: &[i64]) -> PortSpec {
        let shape = shape.iter().map(|&n| if n < 0 { SizeExpr::symbol(0) } else { SizeExpr::constant(n) });
        PortSpec::new("image", DType::F32, shape.collect())
    }

    /// Two pixels: red, and a grey.
    fn picture() -> Vec<u8> {
        let image = RgbImage::from_raw(2, 1, vec![255, 0, 0, 10, 20, 30]).unwrap();
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    fn options() -> ImageOptions {
        ImageOptions { mean: vec![0.0], scale: vec![1.0], layout: None }
    }

    fn load(shape: &[i64], options: &ImageOptions) -> Result<Tensor, CliError> {
        read(&picture(), Path::new("cat.png"), &port(shape), options)
    }

    #[test]
    fn layouts() {
        let elements = |shape: &[i64]| load(shape, &options()).unwrap().elements::<f32>().unwrap().to_vec();
        assert_eq!(elements(&[-1, 3, 1, 2]), [255.0, 10.0, 0.0, 20.0, 0.0, 30.0]);
        let hwc = ImageOptions { layout: Some(Layout::Hwc), ..options() };
        assert_eq!(load(&[1, 2, 3], &hwc).unwrap().elements::<f32>().unwrap(), [255.0, 0.0, 0.0, 10.0, 20.0, 30.0]);
        assert_eq!(guess_layout(&[Some(1), Some(8), Some(8), Some(3)]), Some(Layout::Nhwc));
    }

    #[test]
    fn mean_and_scale_per_channel() {
        let options =
            ImageOptions { mean: vec![5.0, 0.0, 10.0], scale: vec![5.0, 10.0, 1.0], layout: Some(Layout::Hwc) };
        let tensor = load(&[1, 2, 3], &options).unwrap();
        assert_eq!(tensor.elements::<f32>().unwrap(), [50.0, 0.0, -10.0, 1.0, 2.0, 20.0]);
    }

    #[test]
    fn pictures_are_resized() {
        let tensor = load(&[1, 1, 4, 4], &options()).unwrap();
        assert_eq!(tensor.shape(), [1, 1, 4, 4]);
    }

    #[test]
    fn what_does_not_fit() {
        let code = |shape: &[i64]| load(shape, &options()).unwrap_err().code();
        assert_eq!(code(&[2, 3, 4, 4]), "input::bad-image");
        assert_eq!(code(&[1, 7, 5, 5]), "input::bad-image");
        assert_eq!(code(&[10]), "input::bad-image");
        let damaged = read(&picture()[..20], Path::new("x.png"), &port(&[1, 3, 2, 2]), &options());
        assert_eq!(damaged.unwrap_err().code(), "input::bad-image");
    }
}
