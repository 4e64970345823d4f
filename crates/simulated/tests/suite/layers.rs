//! `infc compare --layers` on a GPU: what kernels have written is there and nowhere else.

use super::{digits, run};
use serde_json::Value;

#[test]
fn kernels_are_compared_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = &digits();
    for (target, dims) in [("cuda", &["--dim", "N=2"][..]), ("cpu,cuda", &[])] {
        let compile = ["compile", model, "--target", target, "-o", "digits.infa"];
        assert_eq!(run(&[&compile[..], dims].concat(), folder.path()).0, Some(0));
        let (code, report) = run(&["compare", "digits.infa", "--model", model, "--layers"], folder.path());
        assert_eq!((code, &report["agrees"]), (Some(0), &Value::Bool(true)), "{report}");
        assert_eq!(report["variant"], "cuda:sm_80");
        assert!(report["layers"].as_array().is_some_and(|layers| layers.len() > 3), "{report}");
    }
}
