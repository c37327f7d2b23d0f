//! One turn at a time, and one backend for several conversations.
//!
//! A second turn of the same conversation is refused: it would answer a history that is about to change. It waits only behind
//! a turn that has been cancelled and is on its way out, so that whoever drops a stream can ask the next question at once.
//! Turns of other conversations on the same backend wait for each other, and stop waiting when they are cancelled.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use crate::EngineError;

/// How often somebody who waits looks whether the backend is free, or the wait was cancelled.
const PATIENCE: Duration = Duration::from_millis(2);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole at every step; a panic of a caller's callback does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets one turn at a time through.
#[derive(Debug, Default)]
pub(super) struct Gate {
    running: Mutex<Option<Running>>,
    left: Condvar,
}

/// The turn that is running.
#[derive(Debug)]
struct Running {
    /// Where it runs, once that is known.
    thread: Option<ThreadId>,
    /// Says that it was cancelled, where it can be told.
    cancelled: Option<Arc<AtomicBool>>,
}

/// A turn that was let through. Dropping it lets the next one through.
#[derive(Debug)]
pub(super) struct Entered(Arc<Gate>);

impl Gate {
    /// Begins a turn, behind one that has been cancelled.
    ///
    /// # Errors
    /// Another turn is running.
    pub fn enter(self: &Arc<Gate>, cancelled: Option<Arc<AtomicBool>>) -> Result<Entered, EngineError> {
        let me = std::thread::current().id();
        let mut running = lock(&self.running);
        while let Some(other) = &*running {
            let leaves = other.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
            if !leaves || other.thread == Some(me) {
                return Err(EngineError::Busy);
            }
            running = self.left.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        // A turn that can be told to leave runs on another thread, which says so when it begins.
        let thread = cancelled.is_none().then_some(me);
        *running = Some(Running { thread, cancelled });
        Ok(Entered(Arc::clone(self)))
    }
}

impl Entered {
    /// Notes that the turn goes on in this thread.
    pub fn moved(&self) {
        if let Some(running) = &mut *lock(&self.0.running) {
            running.thread = Some(std::thread::current().id());
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        *lock(&self.0.running) = None;
        self.0.left.notify_all();
    }
}

/// A thing that one thread uses at a time.
#[derive(Debug)]
pub(super) struct Shared<T> {
    value: Mutex<T>,
    holder: Mutex<Option<ThreadId>>,
}

/// The thing, in use.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    value: MutexGuard<'a, T>,
    holder: &'a Mutex<Option<ThreadId>>,
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        Shared { value: Mutex::new(value), holder: Mutex::new(None) }
    }

    /// Takes it as soon as it is free; nothing where `cancel` came first.
    ///
    /// # Errors
    /// This thread holds it already, and would wait for itself.
    pub fn take(&self, cancel: &AtomicBool) -> Result<Option<Taken<'_, T>>, EngineError> {
        loop {
            match self.try_take() {
                Ok(taken) => return Ok(Some(taken)),
                Err(_) if *lock(&self.holder) == Some(std::thread::current().id()) => {
                    return Err(EngineError::Busy);
                }
                Err(_) if cancel.load(Ordering::Relaxed) => return Ok(None),
                Err(_) => std::thread::sleep(PATIENCE),
            }
        }
    }

    /// Takes it if it is free.
    ///
    /// # Errors
    /// It is in use.
    pub fn try_take(&self) -> Result<Taken<'_, T>, EngineError> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(EngineError::Busy),
        };
        *lock(&self.holder) = Some(std::thread::current().id());
        Ok(Taken { value, holder: &self.holder })
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        *lock(self.holder) = None;
    }
}
