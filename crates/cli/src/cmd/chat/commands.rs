//! What begins with a slash.

use std::ops::ControlFlow;
use std::path::Path;

use rawloop_engine::chat::{Content, Message, Role};
use rawloop_engine::conversation::turns;

use super::talks::load;
use super::turn::{Instead, Talk};
use super::where_it_runs;
use crate::answer;
use crate::exit::Failure;
use crate::screen::{note, shown};

const HELP: &str = "\
/help            this list
/reset           forget the conversation, keep the system prompt
/system          show the system prompt
/system TEXT     set it; it counts from the next answer on
/turns           list the questions with their numbers
/undo            take the last question and its answer back
/edit TEXT       ask this in place of the last question
/edit N TEXT     ask this in place of question N; what came later is forgotten
/retry           answer the last question again, with other random numbers
/fork NAME       go on in a copy of the conversation
/switch NAME     go on in another one; without a name, list them
/save FILE       write the conversation to a file
/load FILE       go on with the conversation in a file
/tokens          how many tokens the conversation takes
/tokens TEXT     how many this would add
/history         list earlier inputs, the newest last
/history WORDS   list those that contain all of the words
/stats           speed of the last answer, size of the conversation, settings
/exit            leave; Ctrl-D does too
A line that ends in a backslash goes on in the next one; \"\"\" opens a block that \"\"\" closes.
Ctrl-R searches the earlier inputs while you type; Tab completes a command; the right arrow takes the dimmed rest of a line.
Ctrl-C stops an answer. To send a line that begins with a slash, put a space before it.";

/// Names of the commands, for the editor.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = HELP
        .lines()
        .filter(|line| line.starts_with('/'))
        .filter_map(|line| line.split(' ').next())
        .map(Into::into)
        .collect();
    names.dedup();
    names
}

/// Earlier inputs that are listed.
const LISTED: usize = 20;

/// How much of a question is shown.
const WIDTH: usize = 70;

impl Talk {
    /// Does what a line says. A mistake is said to a person and is a failure of a script's.
    pub fn command(&mut self, line: &str) -> Result<ControlFlow<()>, Failure> {
        match self.try_command(line) {
            Err(failure) if self.interactive => {
                note(failure);
                Ok(ControlFlow::Continue(()))
            }
            other => other,
        }
    }

    fn try_command(&mut self, line: &str) -> Result<ControlFlow<()>, Failure> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (name, rest.trim()) {
            ("help" | "?", _) => note(format_args!("{HELP}")),
            ("exit" | "quit" | "bye", _) => return Ok(ControlFlow::Break(())),
            ("reset", _) => {
                self.talks.chat().set_messages(Vec::new())?;
                self.changed("(the conversation is forgotten)")?;
            }
            ("system", "") => match self.talks.chat().options().system {
                Some(text) => note(format_args!("{text}")),
                None => note("(there is no system prompt)"),
            },
            ("system", text) => {
                self.talks.chat().change_options(|options| options.system = Some(text.to_owned()))?;
                self.changed("(system prompt set)")?;
            }
            ("turns", _) => self.list_turns(),
            ("undo", _) => match self.take_back(None)? {
                Some(question) => self.changed(&format!("(taken back: {})", brief(&question)))?,
                None => note("(there is nothing to take back)"),
            },
            ("edit", "") => note("(what should be asked? /edit TEXT)"),
            ("edit", text) => {
                let (turn, text) = self.which_turn(text);
                let before = self.talks.chat().messages();
                return match self.take_back(turn)? {
                    Some(_) => self.answer_instead(text, Instead { before, whole: false }),
                    None => {
                        note("(there is no such question: /turns lists them)");
                        Ok(ControlFlow::Continue(()))
                    }
                };
            }
            ("retry", _) => {
                let before = self.talks.chat().messages();
                let Some(question) = self.take_back(None)? else {
                    note("(there is nothing to answer again)");
                    return Ok(ControlFlow::Continue(()));
                };
                // With the same numbers the answer would be the same.
                self.talks.chat().change_options(|options| {
                    let seed = &mut options.generate.sampling.seed;
                    *seed = seed.wrapping_add(1);
                })?;
                return self.answer_instead(&question, Instead { before, whole: true });
            }
            ("fork", "") => note("(what should the copy be called? /fork NAME)"),
            ("fork", name) => match self.talks.fork(name) {
                Ok(()) => self.changed(&format!("(in {name})"))?,
                Err(problem) => note(format_args!("({problem})")),
            },
            ("switch", "") => note(self.talks.names()),
            ("switch", name) => {
                self.talks.switch(name)?;
                note(format_args!("(in {name}, {} turns)", self.talks.turns()));
            }
            ("save", "") => note("(where to? /save FILE)"),
            ("save", file) => {
                self.talks.save(Path::new(file))?;
                note(format_args!("(saved to {file})"));
            }
            ("load", "") => note("(which one? /load FILE)"),
            ("load", file) => {
                load(self.talks.chat(), Path::new(file))?;
                self.changed(&format!("(goes on after {} turns)", self.talks.turns()))?;
            }
            ("tokens", "") => {
                let counts = self.talks.chat().token_counts()?;
                note(format_args!(
                    "{} tokens of history, {} of them instructions; {} of {} positions are free",
                    counts.history,
                    counts.system,
                    counts.free(),
                    counts.context
                ));
            }
            ("tokens", text) => note(format_args!("{} tokens as a question", self.talks.chat().cost(text)?)),
            ("history", words) => self.list_earlier(words),
            ("stats", _) => self.stats(),
            (other, _) => note(format_args!("there is no command /{other}: /help lists them")),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Says what was done and stores it.
    fn changed(&mut self, what: &str) -> Result<(), Failure> {
        note(what);
        self.talks.store()
    }

    /// The turn that `/edit` names by a number, counted from 1 as people do, and the text behind it.
    fn which_turn<'t>(&self, text: &'t str) -> (Option<usize>, &'t str) {
        match text.split_once(char::is_whitespace) {
            Some((number, rest)) => match number.parse::<usize>() {
                Ok(number) if (1..=self.talks.turns()).contains(&number) => (Some(number - 1), rest.trim()),
                _ => (None, text),
            },
            None => (None, text),
        }
    }

    /// Takes a turn, or the last one, and all behind it out of the history. Its question, where there was one.
    fn take_back(&mut self, turn: Option<usize>) -> Result<Option<String>, Failure> {
        let Some(last) = self.talks.turns().checked_sub(1) else { return Ok(None) };
        let taken = self.talks.chat().rewind(turn.unwrap_or(last))?;
        let question = taken.iter().find(|message| message.role == Role::User);
        Ok(Some(question.map(text_of).unwrap_or_default()))
    }

    fn list_turns(&self) {
        let messages = self.talks.chat().messages();
        for (number, turn) in turns(&messages).into_iter().enumerate() {
            let question = messages[turn].iter().find(|message| message.role == Role::User);
            note(format_args!("{:3}  {}", number + 1, brief(&question.map(text_of).unwrap_or_default())));
        }
    }

    fn list_earlier(&self, words: &str) {
        let Some(found) = self.input.earlier(words) else {
            return note("(earlier inputs are kept at a terminal only)");
        };
        // The line that asks is the newest of them.
        let found: Vec<_> =
            found.into_iter().filter(|entry| !entry.starts_with("/history")).take(LISTED).collect();
        if found.is_empty() {
            note("(there are none)");
        }
        for entry in found.iter().rev() {
            note(brief(entry));
        }
    }

    fn stats(&self) {
        if let Some(timings) = &self.last {
            note(format_args!("last answer    {}", answer::timings_text(timings)));
        }
        let chat = self.talks.chat();
        let pool = chat.with_session(|session| (session.sequence().ids().len(), session.pool()));
        if let Ok((held, pool)) = pool {
            let caches = pool.sequences + 1;
            note(format_args!(
                "conversation   {} turns, {held} of {} positions held",
                self.talks.turns(),
                self.info.context
            ));
            let totals = chat.totals();
            note(format_args!(
                "prompts        {} tokens prefilled, {} reused; {caches} caches, {} given up",
                totals.prefilled_tokens(),
                totals.reused_tokens,
                pool.counters.evicted
            ));
        }
        let sampling = chat.options().generate.sampling;
        note(format_args!(
            "sampling       temperature {}, top-k {}, top-p {}, seed {}",
            sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed
        ));
        note(format_args!("running on     {}", where_it_runs(&self.info)));
    }
}

fn text_of(message: &Message) -> String {
    match &message.content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(parts)) => parts.iter().filter_map(|part| part.text.as_deref()).collect(),
        None => String::new(),
    }
}

/// The beginning of a text on one line.
fn brief(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = shown(&line).chars().take(WIDTH).collect();
    if cut.chars().count() < line.chars().count() { format!("{cut} ...") } else { cut }
}
