//! An answer on its way, as a handler sees it.
//!
//! Dropping it ends the answer: a client that has gone drops the handler or the stream that holds it. It also ends when its time is
//! over, and when the server is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rawloop_engine::Finish;
use rawloop_engine::chat::ParsedCall;
use rawloop_engine::sample::LogProbabilities;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Stage;
use crate::error::ApiError;
use crate::work::{Event, Finished};

/// One request's answers. See the module documentation.
pub struct Answering {
    events: UnboundedReceiver<(usize, Event)>,
    cancel: Arc<AtomicBool>,
    /// Answers that have not ended.
    left: usize,
    deadline: Instant,
    stage: watch::Receiver<Stage>,
    /// Events that were looked at and not taken.
    first: VecDeque<(usize, Event)>,
    /// Ends the work at the deadline and when the server ends, also where the client reads so slowly that nobody asks for an event
    /// here.
    clock: AbortHandle,
}

/// A whole answer.
#[derive(Debug, Default)]
pub struct Whole {
    /// How likely its tokens were, with those of thoughts and calls.
    pub tokens: Vec<(u32, Option<LogProbabilities>)>,
    /// How likely the tokens of its text were.
    pub text_tokens: Vec<LogProbabilities>,
    /// How likely the prompt was.
    pub scored: Vec<LogProbabilities>,
    /// Calls in their order.
    pub calls: Vec<ParsedCall>,
    /// The end.
    pub finished: Option<Finished>,
}

impl Answering {
    /// Follows so many answers. Needs a runtime, which watches the time and the stage.
    pub fn new(
        events: UnboundedReceiver<(usize, Event)>,
        cancel: Arc<AtomicBool>,
        left: usize,
        deadline: Instant,
        stage: watch::Receiver<Stage>,
    ) -> Answering {
        let (flag, mut ends) = (Arc::clone(&cancel), stage.clone());
        let watch = tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                _ = ends.wait_for(|stage| *stage == Stage::Ending) => {}
            }
            flag.store(true, Ordering::Relaxed);
        });
        let (first, clock) = (VecDeque::new(), watch.abort_handle());
        Answering { events, cancel, left, deadline, stage, first, clock }
    }

    /// The next event, with the answer that it belongs to; nothing once all answers have ended.
    ///
    /// # Errors
    /// An answer failed, its time is over, or the server's is. Nothing comes after it.
    pub async fn next(&mut self) -> Option<Result<(usize, Event), ApiError>> {
        let event = match self.first.pop_front() {
            Some(event) => Ok(event),
            None if self.left == 0 => return None,
            None => self.wait().await.map(|event| self.join(event)),
        };
        let result = match event {
            Ok((_, Event::Failed(error))) => Err(error.into()),
            // A worker ends an answer early when it is told to, and nobody but this object tells it.
            Ok((_, Event::Done(finished))) if finished.finish == Finish::Cancelled => Err(self.ended()),
            other => other,
        };
        match &result {
            Ok((_, Event::Done(_))) => self.left -= 1,
            Ok(_) => {}
            Err(_) => {
                self.left = 0;
                self.cancel.store(true, Ordering::Relaxed);
            }
        }
        Some(result)
    }

    /// Why an answer was told to end.
    fn ended(&self) -> ApiError {
        if Instant::now() < self.deadline { ApiError::closing() } else { ApiError::late() }
    }

    async fn wait(&mut self) -> Result<(usize, Event), ApiError> {
        tokio::select! {
            biased;
            event = self.events.recv() => event.ok_or_else(|| match Instant::now() < self.deadline {
                true => ApiError::closing(),
                false => ApiError::late(),
            }),
            _ = self.stage.wait_for(|stage| *stage == Stage::Ending) => Err(ApiError::closing()),
            () = tokio::time::sleep_until(self.deadline) => Err(ApiError::late()),
        }
    }

    /// Text and what has come of it meanwhile, as one event: where tokens come faster than a message is made and sent, messages get
    /// longer and not more.
    fn join(&mut self, event: (usize, Event)) -> (usize, Event) {
        let (index, Event::Text(mut text)) = event else { return event };
        while let Ok(next) = self.events.try_recv() {
            match next {
                (other, Event::Text(more)) if other == index => text.push_str(&more),
                next => {
                    self.first.push_back(next);
                    break;
                }
            }
        }
        (index, Event::Text(text))
    }

    /// Waits until the answer has begun, so that what is wrong with a request is still told by the status.
    ///
    /// # Errors
    /// It does not begin.
    pub async fn begin(&mut self) -> Result<(), ApiError> {
        match self.next().await {
            Some(Ok(event)) => {
                // It comes out again.
                self.left += usize::from(matches!(event.1, Event::Done(_)));
                self.first.push_front(event);
                Ok(())
            }
            Some(Err(error)) => Err(error),
            None => Err(ApiError::closing()),
        }
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// One of them failed.
    pub async fn collect(mut self) -> Result<Vec<(Whole, Finished)>, ApiError> {
        let mut all: Vec<Whole> = (0..self.left).map(|_| Whole::default()).collect();
        // Of each answer, the tokens whose text has not come.
        let mut open: Vec<Vec<LogProbabilities>> = all.iter().map(|_| Vec::new()).collect();
        while let Some(next) = self.next().await {
            let (index, event) = next?;
            let Some(whole) = all.get_mut(index) else { continue };
            match event {
                Event::Scored(scored) => whole.scored = scored,
                Event::Token(id, log) => {
                    open[index].extend(log.clone());
                    whole.tokens.push((id, log));
                }
                Event::Text(_) => whole.text_tokens.append(&mut open[index]),
                Event::Reasoning(_) => open[index].clear(),
                Event::Call(call) => {
                    open[index].clear();
                    whole.calls.push(call);
                }
                Event::Done(finished) => whole.finished = Some(*finished),
                Event::Prefill | Event::Failed(_) => {}
            }
        }
        let whole = |mut whole: Whole| {
            let finished = whole.finished.take().ok_or_else(ApiError::closing)?;
            Ok((whole, finished))
        };
        all.into_iter().map(whole).collect()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        self.clock.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc::UnboundedSender;

    use super::*;

    type Parts = (Answering, UnboundedSender<(usize, Event)>, Arc<AtomicBool>, watch::Sender<Stage>);

    fn answering(limit: Duration) -> Parts {
        let (sender, events) = tokio::sync::mpsc::unbounded_channel();
        let (cancel, (stage, stages)) = (Arc::new(AtomicBool::new(false)), watch::channel(Stage::Serving));
        let answering = Answering::new(events, Arc::clone(&cancel), 1, Instant::now() + limit, stages);
        (answering, sender, cancel, stage)
    }

    #[tokio::test]
    async fn the_server_ends_also_where_nobody_reads() {
        let (mut answering, sender, cancel, stage) = answering(Duration::from_secs(3600));
        stage.send_replace(Stage::Closing);
        tokio::task::yield_now().await;
        assert!(!cancel.load(Ordering::Relaxed), "answers go on until the grace time is over");
        stage.send_replace(Stage::Ending);
        while !cancel.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(sender);
        let error = answering.next().await.unwrap().unwrap_err();
        assert_eq!(error.code, Some("shutting_down"));
    }

    #[tokio::test]
    async fn the_time_is_over_also_where_nobody_reads() {
        let (mut answering, sender, cancel, _stage) = answering(Duration::from_millis(1));
        sender.send((0, Event::Text("so far".into()))).unwrap();
        while !cancel.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What was made until then is still told.
        let first = answering.next().await.unwrap().unwrap();
        assert!(matches!(first, (0, Event::Text(text)) if text == "so far"));
        drop(sender);
        let error = answering.next().await.unwrap().unwrap_err();
        assert_eq!(error.code, Some("timeout"));
        assert!(answering.next().await.is_none());
    }

    #[tokio::test]
    async fn text_that_waits_is_one_event_up_to_what_is_no_text() {
        let (mut answering, sender, cancel, _stage) = answering(Duration::from_secs(3600));
        let text = |text: &str| Event::Text(text.into());
        for (index, event) in
            [(0, text("a")), (0, text("b")), (0, Event::Prefill), (0, text("c")), (1, text("d"))]
        {
            sender.send((index, event)).unwrap();
        }
        for (index, expected) in [(0, "Text(\"ab\")"), (0, "Prefill"), (0, "Text(\"c\")"), (1, "Text(\"d\")")]
        {
            let (of, event) = answering.next().await.unwrap().unwrap();
            assert_eq!((of, format!("{event:?}").as_str()), (index, expected));
        }
        drop(answering);
        assert!(cancel.load(Ordering::Relaxed), "whoever drops it wants no more");
    }
}
