//! A bounded line in which clients take turns.
//!
//! Each client has a lane; lanes are served in turns, so that somebody who sends a hundred requests at once delays the first
//! request of everybody else by one and not by a hundred. Within a lane the first comes first.
//!
//! The bound is one of **places**. A request reserves one for each of its answers before anything of it is made, and each task holds
//! its own until it is dropped: after its answer, where its client has gone, or where a panic takes it along.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks that wait. See the module documentation.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// Who takes tasks out.
    workers: usize,
    /// Places there are, and those that are held.
    places: usize,
    taken: Arc<AtomicUsize>,
}

/// Room for one answer, given back when it is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct State<T> {
    lanes: HashMap<u64, VecDeque<T>>,
    /// Lanes with tasks, in the order of their turns.
    turns: VecDeque<u64>,
    waiting: usize,
    running: usize,
    closed: bool,
    /// What a task took on average, for advice on when to come back.
    average: Duration,
}

/// The line is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Room is likely after so many seconds.
    Busy(u64),
    /// There will be none.
    Closed,
}

impl<T> Queue<T> {
    /// An empty line for so many workers, in which `most` tasks may wait while every worker is busy.
    pub fn new(workers: usize, most: usize) -> Queue<T> {
        let state = State {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            running: 0,
            closed: false,
            average: Duration::from_secs(1),
        };
        let (arrived, taken) = (Condvar::new(), Arc::default());
        Queue { state: Mutex::new(state), arrived, workers, places: workers.saturating_add(most), taken }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code of others runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves so many places: all of them or none. `gone` tells which of the tasks that wait need not be run any more.
    ///
    /// # Errors
    /// There is no room.
    pub fn reserve(&self, places: usize, gone: impl Fn(&T) -> bool) -> Result<Vec<Place>, Full> {
        if self.lock().closed {
            return Err(Full::Closed);
        }
        if !self.take_places(places) {
            let removed = self.lock().remove_gone(gone);
            // Outside of the lock: what they hold is not the queue's affair.
            drop(removed);
            if !self.take_places(places) {
                return Err(Full::Busy(self.lock().advice(self.workers)));
            }
        }
        Ok((0..places).map(|_| Place(Arc::clone(&self.taken))).collect())
    }

    fn take_places(&self, places: usize) -> bool {
        let more = |taken: usize| taken.checked_add(places).filter(|taken| *taken <= self.places);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Places there are.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Places that are held: by tasks that wait or run, and by those that will follow from them.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lets tasks of a client wait, for which there are places.
    ///
    /// # Errors
    /// The line is closed.
    pub fn push(&self, client: u64, tasks: Vec<T>) -> Result<(), Full> {
        let mut state = self.lock();
        if state.closed {
            return Err(Full::Closed);
        }
        state.push(client, tasks);
        drop(state);
        self.arrived.notify_all();
        Ok(())
    }

    /// Lets tasks wait that follow from one that was let in, also where the line has been closed since.
    pub fn push_followers(&self, client: u64, tasks: Vec<T>) {
        self.lock().push(client, tasks);
        self.arrived.notify_all();
    }

    /// The next task, with its client; nothing once the line is closed and empty.
    pub fn next(&self) -> Option<(u64, T)> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.pop() {
                state.running += 1;
                return Some(next);
            }
            if state.closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A task that [`Queue::next`] handed out is over.
    pub fn done(&self, took: Duration) {
        let mut state = self.lock();
        state.running -= 1;
        state.average = (state.average * 7 + took) / 8;
    }

    /// Tasks that wait, and tasks that run.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.waiting, state.running)
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }
}

impl<T> State<T> {
    fn push(&mut self, client: u64, tasks: Vec<T>) {
        self.waiting += tasks.len();
        let lane = self.lanes.entry(client).or_default();
        if lane.is_empty() && !tasks.is_empty() {
            self.turns.push_back(client);
        }
        lane.extend(tasks);
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let client = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&client)?;
        let task = lane.pop_front()?;
        if lane.is_empty() {
            self.lanes.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.waiting -= 1;
        Some((client, task))
    }

    fn remove_gone(&mut self, gone: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for lane in self.lanes.values_mut() {
            for task in std::mem::take(lane) {
                if gone(&task) { removed.push(task) } else { lane.push_back(task) }
            }
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.turns.retain(|client| self.lanes.contains_key(client));
        self.waiting = self.lanes.values().map(VecDeque::len).sum();
        removed
    }

    /// Seconds after which room is likely.
    fn advice(&self, workers: usize) -> u64 {
        let rounds = u32::try_from(self.waiting.div_ceil(workers.max(1))).unwrap_or(u32::MAX);
        self.average.saturating_mul(rounds.saturating_add(1)).as_secs().clamp(1, 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number with the places that it holds.
    struct Job(u32, #[allow(dead_code)] Vec<Place>);

    fn push(queue: &Queue<Job>, client: u64, numbers: &[u32], places: usize) -> Result<(), Full> {
        let mut held = queue.reserve(numbers.len() * places, |job| job.0 == 99)?;
        let job = |&number: &u32| Job(number, held.drain(..places).collect());
        let jobs = numbers.iter().map(job).collect();
        queue.push(client, jobs)
    }

    #[test]
    fn clients_take_turns() {
        let queue = Queue::new(1, 100);
        push(&queue, 1, &[10, 11, 12, 13], 1).unwrap();
        push(&queue, 2, &[20], 1).unwrap();
        push(&queue, 3, &[30, 31], 1).unwrap();
        queue.close();
        let order: Vec<u32> = std::iter::from_fn(|| queue.next().map(|(_, job)| job.0)).collect();
        assert_eq!(order, [10, 20, 30, 11, 31, 12, 13]);
        assert_eq!(push(&queue, 1, &[1], 1), Err(Full::Closed));
        assert_eq!(queue.taken(), 0);
    }

    #[test]
    fn the_line_is_bounded_and_who_has_gone_makes_room() {
        let queue = Queue::new(2, 3);
        push(&queue, 1, &[1, 2, 3], 1).unwrap();
        assert!(matches!(push(&queue, 1, &[4, 5, 6], 1), Err(Full::Busy(1..=60))), "all or none");
        push(&queue, 1, &[99, 5], 1).unwrap();
        assert_eq!((queue.counts(), queue.taken()), ((5, 0), 5));
        push(&queue, 2, &[6], 1).unwrap();
        assert_eq!((queue.counts(), queue.taken()), ((5, 0), 5), "99 has gone");
        let (client, job) = queue.next().unwrap();
        assert_eq!((client, job.0, queue.counts()), (1, 1, (4, 1)));
        assert!(push(&queue, 2, &[7], 1).is_err(), "who runs has a place too");
        queue.push_followers(client, vec![job]);
        queue.done(Duration::from_secs(1));
        assert_eq!((queue.counts(), queue.taken()), ((5, 0), 5), "who follows brings a place along");
    }

    #[test]
    fn an_answer_takes_a_place_and_not_a_request() {
        let queue = Queue::new(1, 9);
        push(&queue, 1, &[1, 2], 4).unwrap();
        assert_eq!((queue.taken(), queue.places()), (8, 10));
        assert!(matches!(push(&queue, 2, &[3], 3), Err(Full::Busy(_))));
        assert!(matches!(queue.reserve(usize::MAX, |_| false), Err(Full::Busy(_))));
        push(&queue, 2, &[4], 2).unwrap();
        drop(queue.next());
        assert_eq!(queue.taken(), 6, "a task that is dropped gives its places back");
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _job = queue.next();
            panic!("a task goes with the thread that runs it");
        }));
        assert!(held.is_err());
        assert_eq!(queue.taken(), 4);
    }
}
