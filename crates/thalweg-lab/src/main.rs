//! The `thalweg` command. The implementation is in the library of this crate. What is here is the behaviour of a process that has
//! no memory left: a message and the exit code of an error, where the default is to abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Allocator of the system that reports a failure.
struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

/// Reports that there is no memory and ends the process.
#[cold]
fn out_of_memory(bytes: usize) -> *mut u8 {
    static ENDING: AtomicBool = AtomicBool::new(false);
    // A second failure, while the process ends, is left to the caller.
    if ENDING.swap(true, Ordering::Relaxed) {
        return std::ptr::null_mut();
    }
    // The number is written without memory for it.
    let mut digits = [b'0'; 20];
    let (mut rest, mut at) = (bytes, digits.len());
    while let Some(next) = at.checked_sub(1).filter(|_| rest > 0) {
        digits[next] += (rest % 10) as u8;
        (rest, at) = (rest / 10, next);
    }
    let mut error = std::io::stderr();
    let parts: [&[u8]; 3] = [b"thalweg: there is not enough memory; ", &digits[at..], b" bytes were needed\n"];
    // A closed standard error cannot be reported.
    parts.iter().for_each(|part| drop(error.write_all(part)));
    std::process::exit(thalweg_lab::verdict::REFUSED.into())
}

// SAFETY: every call is forwarded to the allocator of the system, whose results are returned as they are; a null pointer, which
// the contract allows, is returned only where the process is ending already.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() { out_of_memory(layout.size()) } else { block }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        if block.is_null() { out_of_memory(layout.size()) } else { block }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.realloc(block, layout, size) };
        if block.is_null() { out_of_memory(size) } else { block }
    }
}

fn main() -> ExitCode {
    thalweg_lab::cli::run(std::env::args_os())
}
