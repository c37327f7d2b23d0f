//! The primitives that [`team`](crate::team) is built on, in one place so that its model test can put loom's there instead.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::thread::{Builder, JoinHandle, Thread, park, yield_now};
