//! Kernels of several modules as one module.

use crate::emitter::{self, ENTRY, header};
use crate::{PtxModule, PtxTarget};
use std::borrow::Borrow;

impl PtxModule {
    /// The entry alone: what follows the [`head`] of the module.
    #[must_use]
    pub fn entry_text(&self) -> &str {
        self.text.find(ENTRY).map_or("", |start| &self.text[start..])
    }
}

/// What stands before the entries of one module that has those of all; for `target` or an older generation they were made.
///
/// Shared memory that one of them declares hides that of launches, which is declared around all.
#[must_use]
pub fn head<M: Borrow<PtxModule>>(modules: impl IntoIterator<Item = M>, target: PtxTarget) -> String {
    let dynamic_shared = modules.into_iter().any(|module| module.borrow().dynamic_shared);
    header(target) + &if dynamic_shared { emitter::dynamic_shared(target) } else { String::new() }
}

/// One module with the entries of all, whose names differ, behind their [`head`].
#[must_use]
pub fn link<M: Borrow<PtxModule>>(modules: impl IntoIterator<Item = M> + Clone, target: PtxTarget) -> String {
    let mut text = head(modules.clone(), target);
    for module in modules {
        text.push_str(module.borrow().entry_text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Launch;
    use infc_ir::index::Dim;

    #[test]
    fn one_frame_and_all_entries() {
        let one = || Dim::from(1);
        let module = |entry: &str, declared: &str, dynamic_shared| PtxModule {
            text: format!("{}{declared}{ENTRY}{entry}() {{ ret; }}\n", header(PtxTarget::default())),
            entry: entry.to_owned(),
            params: vec![],
            launch: Launch { grid: [one(), one(), one()], block: [1, 1, 1] },
            scratch_bytes: Dim::from(0),
            shared_bytes: 0,
            dynamic_shared,
            waits: false,
        };
        let declared = emitter::dynamic_shared(PtxTarget::default());
        let modules = [module("a", "", false), module("b", &declared, true), module("c", &declared, true)];
        let expected = ".version 7.0\n.target sm_80\n.address_size 64\n\n\
                        .extern .shared .align 16 .b8 smem[];\n\n\
                        .visible .entry a() { ret; }\n.visible .entry b() { ret; }\n.visible .entry c() { ret; }\n";
        assert_eq!(link(&modules, PtxTarget::default()), expected);
        assert_eq!(link(&modules[..1], PtxTarget::default()), modules[0].text);
    }
}
