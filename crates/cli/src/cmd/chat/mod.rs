//! `rawloop chat`: a conversation in the terminal or over a pipe.
//!
//! `commands.rs` has what begins with a slash, `talks.rs` the conversations and their files, `turn.rs` what happens between a
//! question and the end of its answer, `status.rs` the line below it.

mod commands;
mod status;
mod talks;
mod turn;

use std::time::Instant;

use rawloop_engine::ChatSession;
use rawloop_engine::backend::BackendInfo;

use crate::args::ChatArgs;
use crate::exit::Failure;
use crate::input::{Entry, Input};
use crate::screen::note;
use crate::{answer, interrupt};
use talks::Talks;
use turn::Talk;

/// Talks until the input ends.
pub fn run(args: ChatArgs) -> Result<(), Failure> {
    let cancel = interrupt::install_for_conversation();
    let started = Instant::now();
    // What is wrong with the tools is said before a model is loaded.
    let tools = args.tools.as_deref().map(|path| super::tool::Tools::read(path, &args)).transpose()?;
    let engine = answer::engine(args.choice.model.as_deref(), &args.run, cancel)?;
    let options = answer::options(engine.model(), &args.answer, &args.sampling, &args.run)?;
    let info = engine.backend().info();
    let name = engine.model().pack().manifest().model.name.clone();
    let chat = ChatSession::new(engine.session()?, options);
    if tools.is_some() {
        chat.prepare_constraints();
    }
    let talks = Talks::begin(chat, args.session.as_deref(), &|options, model| {
        answer::apply(options, model, &args.answer, &args.sampling)
    })?;
    let input = Input::open(!args.no_history, commands::names())?;
    let interactive = input.is_interactive();
    if interactive {
        note(format_args!(
            "{name} on {}, ready in {:.0} ms. /help lists the commands, Ctrl-D leaves.",
            where_it_runs(&info),
            millis(started)
        ));
        if let turns @ 1.. = talks.turns() {
            note(format_args!("(goes on after {turns} turns)"));
        }
    }
    let (json, plain) = (args.json, args.plain);
    let mut talk = Talk { talks, info, tools, last: None, interactive, json, plain, cancel, input };
    loop {
        let entry = talk.input.read()?;
        // What came while nobody was answering was meant for nobody.
        interrupt::reset();
        let flow = match entry {
            Entry::End => return Ok(()),
            Entry::Interrupted => {
                note("(Ctrl-D leaves)");
                continue;
            }
            Entry::Text(text) if text.trim().is_empty() => continue,
            Entry::Text(text) => match text.strip_prefix('/') {
                Some(command) => talk.command(command)?,
                None => talk.answer(text.trim())?,
            },
        };
        if flow.is_break() {
            return Ok(());
        }
    }
}

fn where_it_runs(info: &BackendInfo) -> String {
    let BackendInfo { name, kernels, threads, kv, context, .. } = info;
    format!("{name} ({kernels}, {threads} threads, kv {kv}, context {context})")
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
