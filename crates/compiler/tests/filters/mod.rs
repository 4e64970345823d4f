//! Convolutions whose weights have extents that only the run tells.

use super::counting;
use super::net::{self, Attr, Net};
use infc::CompileOptions;
use infc_runtime::{Session, Tensor};
use infc_tensor::DType;

/// The operator over `x[N, C, H, W]` and weights whose extents are all symbols, as kernels alone.
fn session(op: &str, weights: &[&str; 4], attributes: &[(&str, Attr)]) -> Session {
    let net = Net::new(19)
        .input("x", DType::F32, &["N", "C", "H", "W"])
        .input("w", DType::F32, weights)
        .node(op, &["x", "w"], &["y"], attributes)
        .output("y");
    let options = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
    net::session(&net.compile(&options).unwrap_or_else(|e| panic!("{e}")))
}

/// The number at a place of a tensor of four axes; none outside of it.
fn at(x: &Tensor, place: [i64; 4]) -> f32 {
    let shape = x.shape();
    if place.iter().zip(shape).any(|(&p, &extent)| p < 0 || p >= extent as i64) {
        return 0.0;
    }
    let offset = place.iter().zip(shape).fold(0, |offset, (&p, &extent)| offset * extent + p as usize);
    x.elements::<f32>().expect("floats")[offset]
}

/// All `[n, c, h, w]` of a shape, in order.
fn places(shape: &[usize]) -> impl Iterator<Item = [i64; 4]> + use<> {
    let shape = [shape[0], shape[1], shape[2], shape[3]].map(|extent| extent as i64);
    (0..shape.iter().product()).map(move |n: i64| {
        let (w, rest) = (n % shape[3], n / shape[3]);
        let (h, rest) = (rest % shape[2], rest / shape[2]);
        [rest / shape[1], rest % shape[1], h, w]
    })
}

#[test]
fn filters_are_of_any_size() {
    let strides = ("strides", Attr::Ints(&[2, 1]));
    let pads = ("pads", Attr::Ints(&[1, 0, 0, 1]));
    let mut session = session("Conv", &["M", "C", "R", "S"], &[strides, pads]);
    for (x, w) in [
        ([1, 3, 8, 9], [4, 3, 3, 3]),
        ([2, 2, 5, 5], [1, 2, 1, 2]),
        ([2, 1, 5, 5], [3, 1, 5, 5]),
        ([1, 17, 4, 3], [33, 17, 2, 1]),
    ] {
        let (x, w) = (counting(&x), counting(&w));
        let found = session.run_owned(&[&x, &w]).unwrap_or_else(|e| panic!("{:?}: {e}", w.shape()));
        let [c, r, s] = [1, 2, 3].map(|axis| w.shape()[axis] as i64);
        let expected: Vec<f32> = places(found[0].shape())
            .map(|[n, m, p, q]| {
                let taps = places(&[1, c as usize, r as usize, s as usize]);
                taps.map(|[_, c, i, j]| at(&x, [n, c, 2 * p - 1 + i, q + j]) * at(&w, [m, c, i, j])).sum()
            })
            .collect();
        assert_eq!(found[0].shape()[2..], [(x.shape()[2] + 1 - r as usize) / 2 + 1, x.shape()[3] + 2 - s as usize]);
        close(&found[0], &expected);
    }
}

#[test]
fn transposed_filters_are_of_any_size() {
    let strides = ("strides", Attr::Ints(&[3, 2]));
    let pads = ("pads", Attr::Ints(&[1, 0, 0, 0]));
    let mut session = session("ConvTranspose", &["C", "M", "R", "S"], &[strides, pads]);
    for (x, w) in [([1, 3, 4, 5], [3, 2, 3, 3]), ([2, 2, 1, 3], [2, 1, 4, 2]), ([1, 2, 3, 2], [2, 3, 7, 5])] {
        let (x, w) = (counting(&x), counting(&w));
        let found = session.run_owned(&[&x, &w]).unwrap_or_else(|e| panic!("{:?}: {e}", w.shape()));
        let [channels, r, s] = [0, 2, 3].map(|axis| w.shape()[axis] as i64);
        let expected: Vec<f32> = places(found[0].shape())
            .map(|[n, m, p, q]| {
                let taps = places(&[1, channels as usize, r as usize, s as usize]);
                let meets = |[_, c, i, j]: [i64; 4]| {
                    let (down, right) = (p + 1 - i, q - j);
                    let is_met = down.rem_euclid(3) == 0 && right.rem_euclid(2) == 0;
                    is_met.then(|| at(&x, [n, c, down.div_euclid(3), right.div_euclid(2)]) * at(&w, [c, m, i, j]))
                };
                taps.filter_map(meets).sum()
            })
            .collect();
        close(&found[0], &expected);
    }
}

fn close(found: &Tensor, expected: &[f32]) {
    let found = found.elements::<f32>().expect("floats");
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{n}: {found}, not {expected}");
    }
}

/// A window that the attribute names, though the weights' extents are symbols, and one that does not fit it.
#[test]
fn an_attribute_tells_the_window() {
    let mut session = session("Conv", &["M", "C", "R", "S"], &[("kernel_shape", Attr::Ints(&[2, 3]))]);
    let x = counting(&[1, 2, 4, 4]);
    assert_eq!(session.run_owned(&[&x, &counting(&[5, 2, 2, 3])]).expect("as it says")[0].shape(), [1, 5, 3, 2]);
    assert!(session.run_owned(&[&x, &counting(&[5, 2, 3, 3])]).is_err());
}

/// An image of three axes, of which the run tells all.
#[test]
fn transposed_volumes_are_of_any_size() {
    let net = Net::new(19)
        .input("x", DType::F32, &["N", "1", "D", "H", "W"])
        .input("w", DType::F32, &["1", "2", "Q", "R", "S"])
        .node("ConvTranspose", &["x", "w"], &["y"], &[("strides", Attr::Ints(&[2, 2, 2]))])
        .output("y");
    let ones = |shape: &[usize]| Tensor::from_elements(shape, &vec![1.0f32; shape.iter().product()]).expect("as many");
    let found =
        net.session().run_owned(&[&ones(&[1, 1, 2, 3, 2]), &ones(&[1, 2, 3, 2, 1])]).expect("any size").remove(0);
    assert_eq!(found.shape(), [1, 2, 5, 6, 3]);
    // Each element of the image meets each of the filter once.
    assert_eq!(found.elements::<f32>().expect("floats").iter().sum::<f32>(), (12 * 6 * 2) as f32);
}
