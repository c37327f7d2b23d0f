//! `rawloop chat`: a conversation in the terminal or over a pipe.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rawloop_engine::backend::BackendInfo;
use rawloop_engine::{Chat, ChatEvent, EngineError, Finish, Timings};

use crate::args::ChatArgs;
use crate::exit::Failure;
use crate::input::{Entry, Input};
use crate::screen::{Screen, note};
use crate::{answer, interrupt};

const HELP: &str = "\
/help            this list
/reset           forget the conversation, keep the system prompt
/system          show the system prompt
/system TEXT     set it; it counts from the next answer on
/stats           speed of the last answer, size of the conversation, settings
/exit            leave; Ctrl-D does too
A line that ends in a backslash goes on in the next one; \"\"\" opens a block that \"\"\" closes.
Ctrl-C stops an answer. To send a line that begins with a slash, put a space before it.";

/// Talks until the input ends.
pub fn run(args: ChatArgs) -> Result<(), Failure> {
    let cancel = interrupt::install_for_conversation();
    let started = Instant::now();
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let options = answer::options(engine.model(), &args.answer, &args.sampling, &args.run)?;
    let info = engine.backend().info();
    let name = engine.model().pack().manifest().model.name.clone();
    let chat = Chat::new(engine.session()?, options);
    let mut input = Input::open(!args.no_history)?;
    let mut talk = Talk { chat, info, last: None, turns: 0, interactive: input.is_interactive() };
    if talk.interactive {
        note(format_args!(
            "{name} on {}, ready in {:.0} ms. /help lists the commands, Ctrl-D leaves.",
            talk.where_it_runs(),
            millis(started)
        ));
    }
    loop {
        let entry = input.read()?;
        // What came while nobody was answering was meant for nobody.
        interrupt::reset();
        match entry {
            Entry::End => return Ok(()),
            Entry::Interrupted => note("(Ctrl-D leaves)"),
            Entry::Text(text) if text.trim().is_empty() => {}
            Entry::Text(text) => match text.strip_prefix('/') {
                Some(command) => {
                    if talk.command(command)?.is_break() {
                        return Ok(());
                    }
                }
                None => {
                    if talk.answer(text.trim(), cancel)?.is_break() {
                        return Ok(());
                    }
                }
            },
        }
    }
}

/// The conversation and what is known about it.
struct Talk {
    chat: Chat,
    info: BackendInfo,
    last: Option<Timings>,
    turns: usize,
    interactive: bool,
}

impl Talk {
    fn answer(&mut self, text: &str, cancel: &AtomicBool) -> Result<ControlFlow<()>, Failure> {
        let mut screen = Screen::new(true);
        let turn = self.chat.respond(text, cancel, &mut |event| match event {
            ChatEvent::Reasoning(text) => screen.thought(text),
            ChatEvent::Text(text) => screen.text(text),
            ChatEvent::Call(call) => screen.call(call),
            _ => ControlFlow::Continue(()),
        });
        screen.end();
        if screen.gone() {
            return Ok(ControlFlow::Break(()));
        }
        match turn {
            Ok(turn) => {
                self.turns += 1;
                self.last = Some(turn.timings);
                match turn.finish {
                    Finish::Stop => {}
                    Finish::Length => {
                        note(format_args!("(ended after {} tokens: --max-tokens)", turn.timings.tokens))
                    }
                    Finish::Context => {
                        note(format_args!("(the context of {} positions is full: /reset)", self.info.context))
                    }
                    Finish::Cancelled => {
                        interrupt::reset();
                        note("(stopped)");
                    }
                }
            }
            // The turn has been taken back; the conversation goes on for a person, and fails for a script.
            Err(error @ EngineError::Context { .. }) if self.interactive => {
                note(format_args!("{error}: /reset starts anew"))
            }
            Err(error @ EngineError::Chat(_)) if self.interactive => note(format_args!("{error}")),
            Err(error) => return Err(error.into()),
        }
        if self.interactive {
            note("");
        }
        Ok(ControlFlow::Continue(()))
    }

    fn command(&mut self, line: &str) -> Result<ControlFlow<()>, Failure> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (name, rest.trim()) {
            ("help" | "?", _) => note(format_args!("{HELP}")),
            ("exit" | "quit" | "bye", _) => return Ok(ControlFlow::Break(())),
            ("reset", _) => {
                self.chat.set_messages(Vec::new());
                self.turns = 0;
                note("(the conversation is forgotten)");
            }
            ("system", "") => match &self.chat.options().system {
                Some(text) => note(format_args!("{text}")),
                None => note("(there is no system prompt)"),
            },
            ("system", text) => {
                self.chat.options_mut().system = Some(text.to_owned());
                note("(system prompt set)");
            }
            ("stats", _) => self.stats(),
            (other, _) => note(format_args!("there is no command /{other}: /help lists them")),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn stats(&self) {
        if let Some(timings) = &self.last {
            note(format_args!("last answer    {}", answer::timings_text(timings)));
        }
        let held = self.chat.session().sequence().ids().len();
        note(format_args!(
            "conversation   {} turns, {held} of {} positions held",
            self.turns, self.info.context
        ));
        let sampling = &self.chat.options().generate.sampling;
        note(format_args!(
            "sampling       temperature {}, top-k {}, top-p {}, seed {}",
            sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed
        ));
        note(format_args!("running on     {}", self.where_it_runs()));
    }

    fn where_it_runs(&self) -> String {
        let BackendInfo { name, kernels, threads, kv, context, .. } = &self.info;
        format!("{name} ({kernels}, {threads} threads, kv {kv}, context {context})")
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
