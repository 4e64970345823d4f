//! Artifacts as part of a program.

/// Bytes at an address that is a multiple of 64; what [`include_artifact!`](crate::include_artifact) makes.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<B: ?Sized>(pub B);

/// The bytes of an artifact file as `&'static [u8]`, aligned as [`Model::from_static`](crate::Model::from_static) needs
/// them. The path is relative to the source file, as with `include_bytes!`.
///
/// ```ignore
/// let model = infc_runtime::Model::from_static(infc_runtime::include_artifact!("digits.infa"))?;
/// ```
#[macro_export]
macro_rules! include_artifact {
    ($path:expr $(,)?) => {{
        static ARTIFACT: &$crate::Aligned<[u8]> = &$crate::Aligned(*::core::include_bytes!($path));
        let bytes: &'static [u8] = &ARTIFACT.0;
        bytes
    }};
}
