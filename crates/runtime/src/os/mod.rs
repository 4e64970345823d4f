//! All calls into the operating system that the standard library does not offer.
//!
//! Each system has its own file with the same face: `CodePages`, memory that is filled while writable and becomes
//! executable once it is not.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::CodePages;

#[cfg(any(target_os = "macos", target_os = "ios"))]
mod macos;
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(crate) use macos::CodePages;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::CodePages;

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios", windows)))]
mod unsupported;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios", windows)))]
pub(crate) use unsupported::CodePages;
