//! `rawloop pull`: a model by name.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rawloop_hub::{Catalog, Event, HubError, Outcome, Plan, Pull, Settings, Store, free, gigabytes};
use serde_json::{Value, json};

use crate::args::PullArgs;
use crate::exit::{Code, Failure};
use crate::screen::note;
use crate::{interrupt, progress};

use super::{convert, print};

/// Steps of progress that are told at most, of downloads and of the conversion each.
const STEPS: u64 = 200;

/// Time between two lines of progress where there is no terminal.
const LINE: Duration = Duration::from_secs(10);

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let code = match &error {
            HubError::Cancelled => Code::Interrupted,
            HubError::UnknownModel { .. } | HubError::Setting { .. } | HubError::Catalog { .. } => {
                Code::Usage
            }
            HubError::NotPulled { .. } | HubError::Assistant { .. } | HubError::Convert(_) => Code::Input,
            _ => Code::Other,
        };
        Failure::new(code, error)
    }
}

/// Pulls.
pub fn run(args: PullArgs) -> Result<(), Failure> {
    let catalog = Catalog::open(args.catalog.catalog.as_deref())?;
    catalog.find(&args.id)?;
    let mut settings = Settings::from_env()?;
    if let Some(mirror) = &args.mirror {
        settings.set_mirror(mirror)?;
    }
    if let Some(file) = &args.token_file {
        settings.set_token_file(file)?;
    }
    settings.offline |= args.offline;
    let store = Store::user()?;
    let pull = Pull {
        catalog: &catalog,
        store: &store,
        settings: &settings,
        assistant: !args.no_assistant,
        revision: args.revision.as_deref(),
        drop_checkpoint: args.drop_checkpoint,
        free_space: free,
    };
    let cancel = interrupt::install();
    let started = Instant::now();
    let mut teller = Teller::new(&args);
    if args.dry_run {
        let plan = pull.plan(&args.id, cancel, &mut |event| teller.tell(event));
        teller.end();
        return show_plan(&plan?, &store, &settings, args.json);
    }
    let outcome = pull.run(&args.id, cancel, &mut |event| teller.tell(event));
    teller.end();
    show(&outcome?, &args, started.elapsed().as_secs_f64())
}

fn show_plan(plan: &Plan, store: &Store, settings: &Settings, json: bool) -> Result<(), Failure> {
    let packs = free(store.folder()).ok();
    let cache = free(&settings.cache).ok();
    if json {
        let parts: Vec<Value> = plan
            .parts
            .iter()
            .map(|part| {
                let files: Vec<Value> = part
                    .files
                    .iter()
                    .map(|file| {
                        let checksum = file.remote.checksum.as_ref().map(|checksum| checksum.as_str());
                        json!({"name": file.remote.name, "bytes": file.remote.bytes, "here": file.here, "checksum": checksum})
                    })
                    .collect();
                json!({"id": part.entry.id, "repository": part.entry.repository, "revision": part.revision,
                    "commit": part.commit, "folder": part.folder, "files": files})
            })
            .collect();
        return print(
            &json!({"event": "plan", "id": plan.id, "current": plan.current, "pack": plan.pack, "bytes": plan.bytes,
                "missing": plan.missing, "pack_bytes": plan.pack_bytes, "free_for_packs": packs, "free_for_downloads": cache,
                "parts": parts})
            .to_string(),
        );
    }
    for part in &plan.parts {
        print(&format!("{} at {}", part.entry.repository, part.commit))?;
        for file in &part.files {
            let here = match file.here {
                0 => "to fetch".into(),
                here if here == file.remote.bytes => "here".to_owned(),
                here => format!("{} here", gigabytes(here)),
            };
            print(&format!("  {:32} {:>9}  {here}", file.remote.name, gigabytes(file.remote.bytes)))?;
        }
    }
    let state = if plan.current {
        "the pack is current".into()
    } else {
        format!("pack of about {}", gigabytes(plan.pack_bytes))
    };
    let space = packs.map_or(String::new(), |bytes| format!("; {} are free for packs", gigabytes(bytes)));
    print(&format!("{} to fetch of {}; {state}{space}", gigabytes(plan.missing), gigabytes(plan.bytes)))
}

fn show(outcome: &Outcome, args: &PullArgs, seconds: f64) -> Result<(), Failure> {
    let Outcome { id, pack, checkpoint, fetched, report, dropped } = outcome;
    if args.json {
        return print(
            &json!({"event": "done", "id": id, "pack": pack, "checkpoint": checkpoint, "fetched": fetched,
                "converted": report.is_some(), "dropped": dropped, "seconds": seconds})
            .to_string(),
        );
    }
    let text = match (pack, report, checkpoint) {
        (Some(pack), Some(report), _) => convert::summary(&pack.display().to_string(), report, seconds),
        (Some(pack), None, Some(_)) => format!("{}: up to date", pack.display()),
        (Some(pack), None, None) => format!("{}: here", pack.display()),
        (None, _, folder) => folder.as_ref().map_or(String::new(), |folder| folder.display().to_string()),
    };
    print(&text)?;
    if *dropped > 0 {
        note(format_args!("{} of downloads removed", gigabytes(*dropped)));
    }
    if pack.is_some() && !args.quiet {
        note(format_args!("rawloop chat --model {id}"));
    }
    Ok(())
}

/// Events as a bar, as lines, or as JSON.
struct Teller {
    quiet: bool,
    json: bool,
    terminal: bool,
    bar: ProgressBar,
    /// Phase of the bar, its bytes, those that are done and those at the start.
    phase: &'static str,
    total: u64,
    done: u64,
    first: u64,
    /// Step that was told last.
    step: u64,
    since: Instant,
    told: Instant,
}

impl Teller {
    fn new(args: &PullArgs) -> Teller {
        let now = Instant::now();
        Teller {
            quiet: args.quiet,
            json: args.json,
            terminal: std::io::stderr().is_terminal(),
            bar: ProgressBar::hidden(),
            phase: "",
            total: 0,
            done: 0,
            first: 0,
            step: u64::MAX,
            since: now,
            told: now,
        }
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Waiting { what } => self.say(
                format!("somebody else is fetching {what}: waiting"),
                || json!({"event": "waiting", "for": what}),
            ),
            Event::Listed { files, bytes, missing } => {
                self.begin("download", bytes, bytes - missing);
                self.say(format!("{files} files, {}; {} to fetch", gigabytes(bytes), gigabytes(missing)), || {
                    json!({"event": "listed", "files": files, "bytes": bytes, "missing": missing})
                });
            }
            Event::FromCache { reason } => {
                self.say(format!("note: {reason}"), || json!({"event": "from_cache", "reason": reason}));
            }
            Event::Checking { file } => {
                self.say(format!("checking {file}"), || json!({"event": "checking", "file": file}));
            }
            Event::Fetching { file, bytes, from } => {
                let more = if from > 0 { format!(", {} are here", gigabytes(from)) } else { String::new() };
                self.say(format!("fetching {file}, {}{more}", gigabytes(bytes)), || {
                    json!({"event": "fetching", "file": file, "bytes": bytes, "from": from})
                });
            }
            Event::Progress { done, .. } => self.progress(done),
            Event::Restart { file, reason } => self.say(format!("fetching {file} again: {reason}"), || {
                json!({"event": "restart", "file": file, "reason": reason})
            }),
            Event::Retry { host, reason, wait, attempt, attempts } => self.say(
                format!("{host}: {reason}; attempt {attempt} of {attempts} in {:.1} s", wait.as_secs_f64()),
                || {
                    json!({"event": "retry", "host": host, "reason": reason, "wait_seconds": wait.as_secs_f64(),
                        "attempt": attempt, "attempts": attempts})
                },
            ),
            Event::Converting { phase, bytes } => {
                self.begin(phase.name(), bytes, 0);
                self.say(format!("converting: {}", phase.name()), || {
                    json!({"event": "converting", "phase": phase.name(), "bytes": bytes})
                });
            }
            Event::Converted { bytes } => self.progress(self.done + bytes),
        }
    }

    /// A line for a person or for a program; a person at a bar sees only what is out of the ordinary.
    fn say(&self, text: String, value: impl FnOnce() -> Value) {
        if self.json {
            // A reader that has gone does not end a download.
            let _ = print(&value().to_string());
        } else if !self.quiet {
            self.bar.suspend(|| note(text));
        }
    }

    fn begin(&mut self, phase: &'static str, total: u64, done: u64) {
        self.bar.finish_and_clear();
        self.bar = progress::bytes(total, phase, self.quiet || self.json || total == 0);
        self.bar.set_position(done);
        self.bar.reset_eta();
        let now = Instant::now();
        (self.phase, self.total, self.done, self.first, self.step) = (phase, total, done, done, u64::MAX);
        (self.since, self.told) = (now, now);
    }

    fn progress(&mut self, done: u64) {
        self.done = done;
        self.bar.set_position(done);
        let step = (done * STEPS).checked_div(self.total).unwrap_or(0);
        if self.json && step != self.step {
            self.step = step;
            let value = json!({"event": "progress", "phase": self.phase, "done": done, "total": self.total});
            let _ = print(&value.to_string());
        }
        if !self.json && !self.quiet && !self.terminal && self.told.elapsed() >= LINE {
            self.told = Instant::now();
            let speed = done.saturating_sub(self.first) as f64 / self.since.elapsed().as_secs_f64();
            let left = self.total.saturating_sub(done) as f64 / speed.max(1.0);
            note(format_args!(
                "{}: {} of {}, {}/s, {left:.0} s left",
                self.phase,
                gigabytes(done),
                gigabytes(self.total),
                gigabytes(speed as u64)
            ));
        }
    }
}
