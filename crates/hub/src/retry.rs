//! When to try again, and when no more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use ureq::http::HeaderMap;

use crate::client::Failure;
use crate::error::HubError;
use crate::event::Event;
use crate::settings::Retry;

/// Counts failures in a row and waits between them.
pub struct Patience<'a> {
    retry: &'a Retry,
    failures: u32,
    cancel: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    pub fn new(retry: &'a Retry, cancel: &'a AtomicBool) -> Self {
        Patience { retry, failures: 0, cancel }
    }

    /// There was progress: the next failure is the first again.
    pub fn progress(&mut self) {
        self.failures = 0;
    }

    /// Waits after a failure that may pass.
    ///
    /// # Errors
    /// Cancelled, not of the passing kind, once too often, or asked to wait longer than anybody would. `file` says what broke off.
    pub fn after(
        &mut self,
        failure: Failure,
        file: Option<&str>,
        report: &mut dyn FnMut(Event),
    ) -> Result<(), Refused> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Refused::Error(HubError::Cancelled));
        }
        let (host, reason, wait, busy) = match failure {
            Failure::Transient { host, reason, wait, busy } => (host, reason, wait, busy),
            Failure::Status { url, status, code, message } => {
                return Err(Refused::Status { url, status, code, message });
            }
            Failure::Fatal(error) => return Err(Refused::Error(error)),
        };
        self.failures += 1;
        let own = self.retry.first.saturating_mul(1 << (self.failures - 1).min(16)).min(self.retry.longest);
        let wait = wait.map_or(own, |asked| asked.max(own));
        let last = self.failures >= self.retry.attempts;
        if wait > self.retry.longest_asked || (last && busy) {
            return Err(Refused::Error(HubError::Busy { host, wait }));
        }
        if last {
            let (file, attempts) = (file.map(String::from), self.failures);
            return Err(Refused::Error(match file {
                Some(file) => HubError::BrokeOff { file, attempts, reason: format!("{host}: {reason}") },
                None => HubError::Network { host, reason },
            }));
        }
        report(Event::Retry {
            host,
            reason,
            wait,
            attempt: self.failures + 1,
            attempts: self.retry.attempts,
        });
        sleep(wait, self.cancel).map_err(Refused::Error)
    }
}

/// Why there is no further attempt.
pub enum Refused {
    /// For good, and said.
    Error(HubError),
    /// A status whose meaning depends on what was asked for.
    Status { url: String, status: u16, code: Option<String>, message: Option<String> },
}

/// Sleeps in slices, so that a cancellation counts at once.
pub fn sleep(wait: Duration, cancel: &AtomicBool) -> Result<(), HubError> {
    let end = Instant::now() + wait;
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(HubError::Cancelled);
        }
        match end.checked_duration_since(Instant::now()) {
            None | Some(Duration::ZERO) => return Ok(()),
            Some(left) => std::thread::sleep(left.min(Duration::from_millis(50))),
        }
    }
}

/// The wait that a server asks for: `Retry-After` in seconds or as a date.
pub fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_asks_in_seconds_or_by_date() {
        let asked = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", value.parse().unwrap());
            asked_wait(&headers)
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        let soon = asked(&httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(90))).unwrap();
        assert!((80..=90).contains(&soon.as_secs()), "{soon:?}");
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(asked("soon"), None);
    }

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let retry = Retry {
            attempts: 4,
            first: Duration::from_millis(1),
            longest: Duration::from_millis(2),
            ..Retry::default()
        };
        let never = AtomicBool::new(false);
        let mut patience = Patience::new(&retry, &never);
        let failure = || Failure::Transient { host: "h".into(), reason: "r".into(), wait: None, busy: false };
        let mut waits = Vec::new();
        let mut report = |event| {
            if let Event::Retry { wait, .. } = event {
                waits.push(wait.as_millis());
            }
        };
        for _ in 0..3 {
            assert!(patience.after(failure(), None, &mut report).is_ok());
        }
        let error = patience.after(failure(), Some("f"), &mut report);
        assert!(matches!(error, Err(Refused::Error(HubError::BrokeOff { attempts: 4, .. }))));
        assert_eq!(waits, [1, 2, 2]);

        let asks = Failure::Transient {
            host: "h".into(),
            reason: "r".into(),
            wait: Some(Duration::from_secs(3600)),
            busy: true,
        };
        let error = Patience::new(&retry, &never).after(asks, None, &mut |_| ());
        assert!(matches!(error, Err(Refused::Error(HubError::Busy { wait, .. })) if wait.as_secs() == 3600));
    }
}
