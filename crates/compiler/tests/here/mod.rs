//! Artifacts on the levels that this machine has.

#![allow(dead_code, reason = "every test uses a part of it")]

use infc_runtime::{LoadOptions, Model, Pool, Session, SessionOptions};

/// The artifact's variant for a target; `None` where this machine does not run such code.
pub(crate) fn load(bytes: &[u8], target: &str, threads: usize) -> Option<Model> {
    let pool = Some(Pool::builder().threads(threads).build());
    let options = LoadOptions { target: Some(target.to_owned()), pool, ..LoadOptions::default() };
    Model::from_vec_with(bytes.to_vec(), &options).ok()
}

/// A session on one thread per target that this machine runs, of which there is one.
#[track_caller]
pub(crate) fn on_each<T: AsRef<str>>(bytes: &[u8], targets: &[T], mut f: impl FnMut(&str, &mut Session)) {
    let mut ran = 0;
    for target in targets.iter().map(AsRef::as_ref) {
        let Some(model) = load(bytes, target, 1) else { continue };
        f(target, &mut model.session(&SessionOptions::default()).expect("a session"));
        ran += 1;
    }
    assert!(ran > 0, "this machine runs none of the targets");
}
