//! Counts allocations, for tests of paths that must make none.
//!
//! A test that wants it is a program of its own and says `#[global_allocator] static ALLOCATOR: Counting = Counting;`. Allocations are counted twice: by
//! thread, where what other threads do must not count, and all together, where a team of threads does the work. Giving memory back is not counted.

#![allow(unsafe_code)] // an allocator is a trait of unsafe functions

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
pub struct Counting;

static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Allocations of this thread so far.
pub fn here() -> usize {
    HERE.get()
}

/// Allocations of all threads so far.
pub fn everywhere() -> u64 {
    EVERYWHERE.load(Ordering::Relaxed)
}

fn count() {
    EVERYWHERE.fetch_add(1, Ordering::Relaxed);
    // The allocator outlives a thread's locals.
    let _ = HERE.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is the system allocator's, with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
