//! All calls into the operating system that the standard library does not offer.
//!
//! Every system offers the same: `CodePages`, memory that is filled while writable and becomes executable once it is
//! not, memory between inaccessible pages (`map_guarded`), and zeroed memory in large pages (`map_zeroed`). Linux and
//! macOS share how ([`pages`]) and differ in numbers. Linux alone is asked for tile registers ([`tiles`]).

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
mod guarded;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
mod pages;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "os/linux.rs"]
mod system;
#[cfg(any(target_os = "macos", target_os = "ios"))]
#[path = "os/macos.rs"]
mod system;
mod tiles;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
mod zeroed;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
pub(crate) use guarded::{map_guarded, unmap_guarded};
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
pub(crate) use pages::CodePages;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
pub(crate) use zeroed::{map_zeroed, unmap_zeroed};

pub(crate) use tiles::may_use_tiles;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::{CodePages, map_guarded, map_zeroed, unmap_guarded, unmap_zeroed};

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios", windows)))]
mod unsupported;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios", windows)))]
pub(crate) use unsupported::{CodePages, map_guarded, map_zeroed, unmap_guarded, unmap_zeroed};
