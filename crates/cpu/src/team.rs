//! A few threads that share one computation after another: hundreds of joins a token, each well below a microsecond.
//!
//! A general pool costs 7 to 19 us a join (measured, rayon), which at 300 stages a token is 2 to 6 ms. Here the caller opens
//! a run with one store, everybody takes chunks from one counter, and the caller closes the run when the chunks are gone.
//!
//! - **Chunks are taken in stretches**, a share of what is left at a time: neighbouring chunks are neighbours in memory, and a
//!   thread that stays on one stretch keeps the hardware's prefetcher in its stride, where single chunks taken in turns make
//!   it start anew at each. The last stretches are single chunks, so threads still end together.
//! - **The caller takes part and waits only for threads that joined.** A thread that is asleep or descheduled misses the run
//!   and delays nobody; so an overloaded machine is slow but never stuck behind a thread that has not been scheduled.
//! - **Idle threads spin, then park.** Between the stages of a token they spin; when nothing comes for some 0.3 ms they park,
//!   so an idle model costs no CPU.
//! - **A run allocates nothing and takes no lock.** A lock exists for one purpose, to carry a panic to the caller.
//!
//! All state is in one word: the run's number, whether it is open, and how many threads are inside. A thread enters by
//! compare-and-swap from an open word, so it can never enter a run that has been closed, and the word's release and acquire
//! order the job before the work and the work before the caller's return. `tests/team_model.rs` explores the interleavings.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::{Arc, AtomicBool, AtomicPtr, AtomicUsize, Builder, JoinHandle, Mutex, Ordering, Thread};
use crate::sync::{park, spin_loop, yield_now};

/// Polls before an idle thread parks: some 0.3 ms.
const IDLE_POLLS: usize = 20_000;
/// A stretch is the chunks that are left, divided by the threads and by this.
const STRETCHES: usize = 2;
/// Polls before the caller offers its core to a thread that still holds a chunk.
const BUSY_POLLS: usize = 1_000;

/// Threads inside the run: the low bits of the state word.
const INSIDE: usize = 0x7fff;
/// The run takes threads in.
const OPEN: usize = 0x8000;
/// One more run.
const RUN: usize = 0x1_0000;

/// What the threads of a run call: worker number, chunk number.
type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// One run, on the caller's stack.
struct Job<'a> {
    work: &'a Work<'a>,
    chunks: usize,
}

/// Its own cache lines: neighbours would be taken away with every change.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    state: Apart<AtomicUsize>,
    /// The next chunk that nobody has taken.
    next: Apart<AtomicUsize>,
    job: AtomicPtr<Job<'static>>,
    stop: AtomicBool,
    /// Whether thread `i + 1` sleeps, or is about to.
    asleep: Vec<Apart<AtomicBool>>,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Threads that run chunks of work together; see the module's text.
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    handles: Vec<Thread>,
}

impl Team {
    /// A team of `threads`, the caller included; 0 counts as 1, which starts no thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize) -> std::io::Result<Team> {
        Team::with_start(threads, |_| {})
    }

    /// A team whose threads call `start(worker)` first, each its own; the caller, worker 0, does not.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn with_start(
        threads: usize,
        start: impl Fn(usize) + Clone + Send + 'static,
    ) -> std::io::Result<Team> {
        Team::with_idle_polls(threads, IDLE_POLLS, start)
    }

    pub(crate) fn with_idle_polls(
        threads: usize,
        polls: usize,
        start: impl Fn(usize) + Clone + Send + 'static,
    ) -> std::io::Result<Team> {
        let helpers = threads.clamp(1, INSIDE) - 1;
        let shared = Arc::new(Shared {
            state: Apart(AtomicUsize::new(0)),
            next: Apart(AtomicUsize::new(0)),
            job: AtomicPtr::new(std::ptr::null_mut()),
            stop: AtomicBool::new(false),
            asleep: (0..helpers).map(|_| Apart(AtomicBool::new(false))).collect(),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let mut team = Team { shared, threads: Vec::new(), handles: Vec::new() };
        for worker in 1..=helpers {
            let (shared, start) = (team.shared.clone(), start.clone());
            // On an error `team` is dropped here, which ends the threads that did start.
            let thread = Builder::new().name(format!("rawloop-cpu-{worker}")).spawn(move || {
                start(worker);
                shared.serve(worker, polls)
            })?;
            team.handles.push(thread.thread().clone());
            team.threads.push(thread);
        }
        Ok(team)
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work(worker, chunk)` once for every chunk in `0..chunks` and returns when all calls have. Worker numbers are
    /// below [`Team::threads`], and no two calls with the same worker run at once; 0 is the caller. A worker's chunks ascend.
    ///
    /// # Panics
    /// With the panic of a chunk, if one panics; chunks that have not started by then may not run. The team stays usable.
    pub fn run(&mut self, chunks: usize, work: &Work<'_>) {
        if self.threads.is_empty() || chunks <= 1 {
            (0..chunks).for_each(|chunk| work(0, chunk));
            return;
        }
        let shared = &*self.shared;
        let job = Job { work, chunks };
        shared.job.store((&raw const job).cast::<Job<'static>>().cast_mut(), Ordering::Relaxed);
        shared.next.0.store(0, Ordering::Relaxed);
        // Nobody is inside and the run is closed, so this is the only writer.
        let state = shared.state.0.load(Ordering::Relaxed);
        shared.state.0.store(state.wrapping_add(RUN) | OPEN, Ordering::SeqCst);
        // Sequential consistency: either a thread that goes to sleep sees the run, or it is seen asleep here.
        for (asleep, handle) in shared.asleep.iter().zip(&self.handles) {
            if asleep.0.load(Ordering::SeqCst) {
                asleep.0.store(false, Ordering::Relaxed);
                handle.unpark();
            }
        }
        // From here on threads may hold the job: whatever happens, wait for them.
        let closing = Closing(shared);
        shared.take_chunks(&job, 0);
        drop(closing);
        if shared.panicked.load(Ordering::Relaxed) {
            shared.panicked.store(false, Ordering::Relaxed);
            if let Some(panic) = shared.take_panic() {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.handles.iter().for_each(Thread::unpark);
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its chunks, so it has none of its own.
            let _ = thread.join();
        }
    }
}

/// Closes the run and waits for the threads inside, also when the caller's own chunk panics.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.skip_chunks();
            // The caller's own panic is the one that gets reported.
            self.0.panicked.store(false, Ordering::Relaxed);
        }
        let mut state = self.0.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut polls = 0;
        while state & INSIDE != 0 {
            polls += 1;
            if polls < BUSY_POLLS {
                spin_loop()
            } else {
                yield_now()
            }
            state = self.0.state.0.load(Ordering::Acquire);
        }
    }
}

impl Shared {
    /// A thread's life.
    fn serve(&self, worker: usize, polls: usize) {
        let mut last = 0;
        while let Some(state) = self.wait(worker, last, polls) {
            let entered =
                self.state.0.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed);
            if entered.is_err() {
                continue; // Closed, or another thread entered in between: look again.
            }
            last = state / RUN;
            // SAFETY: this thread is inside, so the caller waits in `run`, where the job lives, until it has left.
            let job = unsafe { &*self.job.load(Ordering::Relaxed) };
            let result = catch_unwind(AssertUnwindSafe(|| self.take_chunks(job, worker)));
            if let Err(panic) = result {
                self.skip_chunks();
                self.keep_panic(panic);
            }
            self.state.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an open run that is not run number `last`; `None` when the team ends.
    fn wait(&self, worker: usize, last: usize, polls: usize) -> Option<usize> {
        let asleep = &self.asleep[worker - 1].0;
        let mut polled = 0;
        loop {
            // The loads of a sleeper must not come before its store to `asleep`.
            let state = self.state.0.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if state & OPEN != 0 && state / RUN != last {
                return Some(state);
            }
            polled += 1;
            if polled < polls {
                spin_loop();
            } else if polled == polls {
                asleep.store(true, Ordering::SeqCst);
            } else {
                park();
                // Awake for a run, for the end, or for no reason: spin again, which announces the next sleep again.
                polled = 0;
            }
        }
    }

    fn take_chunks(&self, job: &Job<'_>, worker: usize) {
        let parts = STRETCHES * (self.asleep.len() + 1);
        let mut start = self.next.0.load(Ordering::Relaxed);
        while start < job.chunks {
            let end = start + ((job.chunks - start) / parts).max(1);
            match self.next.0.compare_exchange_weak(start, end, Ordering::Relaxed, Ordering::Relaxed) {
                Err(taken) => start = taken,
                Ok(_) => {
                    (start..end).for_each(|chunk| (job.work)(worker, chunk));
                    start = self.next.0.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// After a panic: nobody needs to start another chunk. Far above every number of chunks, and far from overflowing.
    fn skip_chunks(&self) {
        self.next.0.store(usize::MAX / 2, Ordering::Relaxed);
    }

    fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        if let Ok(mut slot) = self.panic.lock() {
            *slot = Some(panic);
        }
        self.panicked.store(true, Ordering::Relaxed);
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().ok().and_then(|mut slot| slot.take())
    }
}
