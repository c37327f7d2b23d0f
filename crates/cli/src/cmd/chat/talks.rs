//! The conversations of one program: the one that is going on, its forks, and the files they are kept in.
//!
//! `--session FILE` keeps the first one in FILE and a fork called NAME in FILE with `-NAME` before its extension. Every file is
//! written anew after each answer and each change, beside the old one and then renamed; a killed program loses what was being
//! said and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawloop_engine::conversation::{SavedChat, turns};
use rawloop_engine::{ChatSession, EngineError};

use crate::exit::Failure;
use crate::screen::note;

/// Name of the conversation that the program began with.
const FIRST: &str = "main";

/// All conversations. See the module documentation.
pub struct Talks {
    chats: BTreeMap<String, ChatSession>,
    current: String,
    file: Option<PathBuf>,
}

impl Talks {
    /// The first conversation, gone on with where its file is there.
    pub fn begin(chat: ChatSession, file: Option<PathBuf>) -> Result<Talks, Failure> {
        let talks = Talks { chats: BTreeMap::from([(FIRST.to_owned(), chat)]), current: FIRST.into(), file };
        match &talks.file {
            // Written again after the first answer, not before: one that was opened by mistake stays as it is.
            Some(file) if file.exists() => load(talks.chat(), file)?,
            // A file that cannot be written is better known before the first answer.
            _ => talks.store()?,
        }
        Ok(talks)
    }

    /// The conversation that is going on.
    pub fn chat(&self) -> &ChatSession {
        // There is one under the current name at any time.
        &self.chats[&self.current]
    }

    /// Turns of the conversation that is going on.
    pub fn turns(&self) -> usize {
        turns(&self.chat().messages()).len()
    }

    /// Names of all conversations, the current one marked.
    pub fn names(&self) -> String {
        let name = |name: &String| if *name == self.current { format!("*{name}") } else { name.clone() };
        self.chats.keys().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Writes the conversation that is going on to its file, if it has one.
    pub fn store(&self) -> Result<(), Failure> {
        match &self.file {
            Some(file) => Ok(self.chat().save(&named(file, &self.current))?),
            None => Ok(()),
        }
    }

    /// Goes on in a copy of the conversation.
    pub fn fork(&mut self, name: &str) -> Result<(), String> {
        if !name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)) {
            return Err("a name has letters, digits, - and _ only".into());
        }
        if self.chats.contains_key(name) || self.stored(name).is_some() {
            return Err(format!("there is a conversation {name} already: /switch {name}"));
        }
        self.chats.insert(name.into(), self.chat().fork());
        self.current = name.into();
        Ok(())
    }

    /// Goes on in another conversation, in memory or stored beside the first one.
    pub fn switch(&mut self, name: &str) -> Result<(), Failure> {
        if !self.chats.contains_key(name) {
            let Some(file) = self.stored(name) else {
                let names = self.names();
                return Err(Failure::usage(format!("there is no conversation {name}; there are: {names}")));
            };
            let chat = self.chat().fork();
            load(&chat, &file)?;
            self.chats.insert(name.into(), chat);
        }
        self.current = name.into();
        Ok(())
    }

    /// The file of a conversation, where it is there.
    fn stored(&self, name: &str) -> Option<PathBuf> {
        let file = named(self.file.as_ref()?, name);
        (!name.contains(['/', '\\', '.']) && file.exists()).then_some(file)
    }
}

/// Goes on with a stored conversation. One of another model is taken over, which is said.
pub fn load(chat: &ChatSession, file: &Path) -> Result<(), Failure> {
    let mut saved = SavedChat::read(file).map_err(EngineError::from)?;
    let here = chat.saved().model;
    if saved.model != here {
        note(format_args!("note: the conversation was held with {}; {here} goes on with it", saved.model));
        saved.adopt(chat.model());
    }
    Ok(chat.restore(saved)?)
}

/// Writes a conversation to a file that is new or holds one already.
pub fn save(chat: &ChatSession, file: &Path) -> Result<(), Failure> {
    if file.exists() && !SavedChat::is_one(file)? {
        let path = file.display();
        return Err(Failure::input(format!(
            "{path} is no conversation: it is not written over; name a new file"
        )));
    }
    Ok(chat.save(file)?)
}

/// The file of a fork.
fn named(file: &Path, name: &str) -> PathBuf {
    if name == FIRST {
        return file.to_path_buf();
    }
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match part(file.extension()) {
        extension if extension.is_empty() => extension,
        extension => format!(".{extension}"),
    };
    file.with_file_name(format!("{}-{name}{extension}", part(file.file_stem())))
}
