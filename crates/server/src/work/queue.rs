//! A bounded line in which clients take turns.
//!
//! Each client has a lane; lanes are served in turns, so that somebody who sends a hundred requests at once delays the first
//! request of everybody else by one and not by a hundred. Within a lane the first comes first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks that wait. See the module documentation.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// Who takes tasks out.
    workers: usize,
    /// Tasks that may wait while every worker is busy.
    most: usize,
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
    /// An empty line for so many workers, in which `most` tasks may wait.
    pub fn new(workers: usize, most: usize) -> Queue<T> {
        let state = State {
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            running: 0,
            closed: false,
            average: Duration::from_secs(1),
        };
        Queue { state: Mutex::new(state), arrived: Condvar::new(), workers, most }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code of others runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets tasks of a client wait: all of them or none. They and what follows from them need so many `places`; `gone` tells which of
    /// those that wait need not be run any more.
    ///
    /// # Errors
    /// There is no room.
    pub fn push(
        &self,
        client: u64,
        tasks: Vec<T>,
        places: usize,
        gone: impl Fn(&T) -> bool,
    ) -> Result<(), Full> {
        let mut state = self.lock();
        if state.closed {
            return Err(Full::Closed);
        }
        let most = self.most + self.workers;
        if state.waiting + state.running + places > most {
            state.drop_gone(gone);
        }
        if state.waiting + state.running + places > most {
            let rounds = state.waiting.div_ceil(self.workers.max(1)) as u32 + 1;
            return Err(Full::Busy((state.average * rounds).as_secs().clamp(1, 60)));
        }
        state.push(client, tasks);
        drop(state);
        self.arrived.notify_all();
        Ok(())
    }

    /// Lets tasks wait that follow from one that was let in.
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

    fn drop_gone(&mut self, gone: impl Fn(&T) -> bool) {
        for lane in self.lanes.values_mut() {
            lane.retain(|task| !gone(task));
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.turns.retain(|client| self.lanes.contains_key(client));
        self.waiting = self.lanes.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &Queue<u32>, client: u64, tasks: &[u32]) -> Result<(), Full> {
        queue.push(client, tasks.to_vec(), tasks.len(), |task| *task == 99)
    }

    #[test]
    fn clients_take_turns() {
        let queue = Queue::new(1, 100);
        push(&queue, 1, &[10, 11, 12, 13]).unwrap();
        push(&queue, 2, &[20]).unwrap();
        push(&queue, 3, &[30, 31]).unwrap();
        queue.close();
        let order: Vec<u32> = std::iter::from_fn(|| queue.next().map(|(_, task)| task)).collect();
        assert_eq!(order, [10, 20, 30, 11, 31, 12, 13]);
        assert_eq!(push(&queue, 1, &[1]), Err(Full::Closed));
    }

    #[test]
    fn the_line_is_bounded_and_who_has_gone_makes_room() {
        let queue = Queue::new(2, 3);
        push(&queue, 1, &[1, 2, 3]).unwrap();
        assert!(matches!(push(&queue, 1, &[4, 5, 6]), Err(Full::Busy(1..=60))), "all or none");
        push(&queue, 1, &[99, 5]).unwrap();
        assert_eq!(queue.counts(), (5, 0));
        push(&queue, 2, &[6]).unwrap();
        assert_eq!(queue.counts(), (5, 0), "99 has gone");
        let (client, task) = queue.next().unwrap();
        assert_eq!((client, task, queue.counts()), (1, 1, (4, 1)));
        assert!(push(&queue, 2, &[7]).is_err(), "who runs has a place too");
        queue.push_followers(client, vec![8]);
        queue.done(Duration::from_secs(1));
        assert_eq!(queue.counts(), (5, 0));
    }
}
