//! Text, by hand-worked cases.

mod support;

use infc_tensor::Tensor;
use support::op;

fn texts(shape: &[usize], elements: &[&str]) -> Tensor {
    Tensor::from_strings(shape, elements.iter().map(|&s| s.to_owned()).collect()).unwrap()
}

#[test]
fn parts_of_texts() {
    let x = texts(&[3], &["a,,b", "", "c"]);
    let parts = op("StringSplit", 20).with("delimiter", ",").outputs(2).try_all(&[Some(&x)]).unwrap();
    assert_eq!(parts[0], texts(&[3, 3], &["a", "", "b", "", "", "", "c", "", ""]));
    assert_eq!(parts[1].elements::<i64>().unwrap(), [3, 1, 1]);
    let x = texts(&[2], &["  a b  c ", " "]);
    let parts = op("StringSplit", 20).with("maxsplit", 1i64).outputs(2).try_all(&[Some(&x)]).unwrap();
    assert_eq!(parts[0], texts(&[2, 2], &["a", "b  c ", "", ""]));
    assert_eq!(parts[1].elements::<i64>().unwrap(), [2, 0]);
}

#[test]
fn texts_joined_and_matched() {
    let (a, b) = (texts(&[2, 1], &["x", "y"]), texts(&[2], &["1", ""]));
    let joined = op("StringConcat", 20).try_all(&[Some(&a), Some(&b)]).unwrap();
    assert_eq!(joined[0], texts(&[2, 2], &["x1", "x", "y1", "y"]));
    let lines = texts(&[3], &["ab", "ab\n", "xab"]);
    let found = op("RegexFullMatch", 20).with("pattern", "a|ab").try_all(&[Some(&lines)]).unwrap();
    assert_eq!(found[0].bytes(), [1, 0, 0]);
    assert!(op("RegexFullMatch", 20).with("pattern", "(").try_all(&[Some(&lines)]).is_err());
}

#[test]
fn words_that_stay() {
    let x = texts(&[1, 3], &["Mon", "TUE", "mon"]);
    let stop = || op("StringNormalizer", 10).with("stopwords", vec!["mon".to_owned()]);
    let kept = stop().with("case_change_action", "LOWER").try_all(&[Some(&x)]).unwrap();
    assert_eq!(kept[0], texts(&[1, 1], &["tue"]));
    let kept = stop().with("is_case_sensitive", 1i64).try_all(&[Some(&x)]).unwrap();
    assert_eq!(kept[0], texts(&[1, 2], &["Mon", "TUE"]));
    let none = stop().try_all(&[Some(&texts(&[1], &["MON"]))]).unwrap();
    assert_eq!(none[0], texts(&[1], &[""]));
}
