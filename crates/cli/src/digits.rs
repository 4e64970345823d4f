//! The network and its held-out images, part of the command; see `demo/README.md` for where they come from.

use crate::npy;
use infc_tensor::Tensor;
use std::ops::Range;

/// The trained network.
pub(crate) const MODEL: &[u8] = include_bytes!("../../../demo/digits.onnx");
/// `uint8[360, 1, 8, 8]`, ink from 0 to 16.
const IMAGES: &[u8] = include_bytes!("../../../demo/test_images.npy");
/// `int64[360]`, the digits shown; as the file is.
pub(crate) const LABELS: &[u8] = include_bytes!("../../../demo/test_labels.npy");

/// Height and width of an image.
pub(crate) const SIDE: usize = 8;
/// The most ink a pixel has; the network was trained on ink divided by it.
pub(crate) const MOST_INK: u8 = 16;

/// The images that the network was not trained on.
pub(crate) struct HeldOut {
    images: Tensor,
    labels: Vec<usize>,
}

impl HeldOut {
    pub(crate) fn read() -> Self {
        let images = npy::read(IMAGES).expect("the images are part of the command");
        let labels = npy::read(LABELS).ok().and_then(|labels| labels.to_i64_vec());
        let labels = labels.expect("the labels are part of the command");
        let labels = labels.into_iter().map(|label| usize::try_from(label).expect("digits are not negative")).collect();
        Self { images, labels }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The digit an image shows.
    pub(crate) fn label(&self, image: usize) -> usize {
        self.labels[image]
    }

    /// The ink of an image, row by row.
    pub(crate) fn ink(&self, image: usize) -> &[u8] {
        &self.images.bytes()[image * SIDE * SIDE..][..SIDE * SIDE]
    }

    /// Some images as the network takes them.
    pub(crate) fn images(&self, range: Range<usize>) -> Tensor {
        let ink = range.clone().flat_map(|image| self.ink(image));
        let pixels: Vec<f32> = ink.map(|&ink| f32::from(ink) / f32::from(MOST_INK)).collect();
        Tensor::from_elements(&[range.len(), 1, SIDE, SIDE], &pixels).expect("as many pixels as the shape says")
    }
}

/// Per row of `f32[N, 10]`, the most probable digit.
pub(crate) fn most_probable(probabilities: &Tensor) -> Vec<usize> {
    let classes = probabilities.shape().last().copied().unwrap_or(1).max(1);
    let rows = probabilities.elements::<f32>().unwrap_or_default().chunks(classes);
    rows.map(|row| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(digit, _)| digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in() {
        let held_out = HeldOut::read();
        assert_eq!(held_out.len(), 360);
        assert!((0..360).all(|image| held_out.label(image) < 10));
        assert!((0..360).all(|image| held_out.ink(image).iter().all(|&ink| ink <= MOST_INK)));
        assert_eq!(held_out.images(3..5).shape(), [2, 1, 8, 8]);
    }

    #[test]
    fn the_most_probable_digit() {
        let probabilities = Tensor::from_elements(&[2, 3], &[0.1f32, 0.7, 0.2, 0.5, 0.2, 0.3]).unwrap();
        assert_eq!(most_probable(&probabilities), [1, 0]);
    }
}
