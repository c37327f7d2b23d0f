//! The conversations of one program: the one that is going on, its forks, and the files they are kept in.
//!
//! `--session FILE` keeps the first one in FILE and a fork called NAME in FILE with `-NAME` before its extension. Every file is
//! written anew after each answer and each change, beside the old one and then renamed; a killed program loses what was being
//! said and nothing else. While a conversation goes on its file is locked: a second program is told, and writes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawloop_engine::conversation::{SavedChat, SessionFile, turns};
use rawloop_engine::{ChatOptions, ChatSession, EngineError, Model};

use crate::exit::Failure;
use crate::screen::note;

/// Name of the conversation that the program began with.
const FIRST: &str = "main";

/// A conversation and the file that it is kept in.
struct Kept {
    chat: ChatSession,
    file: Option<SessionFile>,
}

/// All conversations. See the module documentation.
pub struct Talks {
    kept: BTreeMap<String, Kept>,
    current: String,
    /// The file of the first one, as it was named.
    named: Option<PathBuf>,
}

impl Talks {
    /// The first conversation, gone on with where its file is there: in its own settings, changed by `adjust` as the command
    /// line says.
    pub fn begin(
        chat: ChatSession,
        path: Option<&Path>,
        adjust: &dyn Fn(&mut ChatOptions, &Model) -> Result<(), Failure>,
    ) -> Result<Talks, Failure> {
        let file = path.map(open).transpose()?;
        let stored = file.as_ref().map(SessionFile::read).transpose().map_err(EngineError::from)?.flatten();
        let is_new = stored.is_none();
        if let Some(saved) = stored {
            restore(&chat, saved)?;
            let mut options = chat.options();
            adjust(&mut options, chat.model())?;
            chat.change_options(|all| *all = options)?;
        }
        let kept = BTreeMap::from([(FIRST.to_owned(), Kept { chat, file })]);
        let talks = Talks { kept, current: FIRST.into(), named: path.map(Path::to_path_buf) };
        // A file that cannot be written is better known before the first answer. One that is there is written again after the
        // first answer, not before: one that was opened by mistake stays as it is.
        if is_new {
            talks.store()?;
        }
        Ok(talks)
    }

    fn kept(&self) -> &Kept {
        // There is one under the current name at any time.
        &self.kept[&self.current]
    }

    /// The conversation that is going on.
    pub fn chat(&self) -> &ChatSession {
        &self.kept().chat
    }

    /// Turns of the conversation that is going on.
    pub fn turns(&self) -> usize {
        turns(&self.chat().messages()).len()
    }

    /// Names of all conversations, the current one marked.
    pub fn names(&self) -> String {
        let name = |name: &String| if *name == self.current { format!("*{name}") } else { name.clone() };
        self.kept.keys().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Writes the conversation that is going on to its file, if it has one.
    pub fn store(&self) -> Result<(), Failure> {
        match self.kept() {
            Kept { chat, file: Some(file) } => Ok(file.write(&chat.saved()).map_err(EngineError::from)?),
            Kept { file: None, .. } => Ok(()),
        }
    }

    /// Writes the conversation that is going on to a file that is new or holds one already.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        if path.exists() && !SavedChat::is_one(path).map_err(EngineError::from)? {
            let path = path.display();
            return Err(Failure::input(format!(
                "{path} is no conversation: it is not written over; name a new file"
            )));
        }
        // A file of this program's is its own to write.
        let own = self.kept.values().filter_map(|kept| kept.file.as_ref()).find(|file| file.is_at(path));
        let saved = self.chat().saved();
        let written = own.map_or_else(|| saved.write(path), |file| file.write(&saved));
        Ok(written.map_err(EngineError::from)?)
    }

    /// Goes on in a copy of the conversation.
    pub fn fork(&mut self, name: &str) -> Result<(), String> {
        if !name.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)) {
            return Err("a name has letters, digits, - and _ only".into());
        }
        if self.kept.contains_key(name) || self.stored(name).is_some_and(|path| path.exists()) {
            return Err(format!("there is a conversation {name} already: /switch {name}"));
        }
        let file =
            self.stored(name).as_deref().map(open).transpose().map_err(|failure| failure.to_string())?;
        self.kept.insert(name.into(), Kept { chat: self.chat().fork(), file });
        self.current = name.into();
        Ok(())
    }

    /// Goes on in another conversation, in memory or stored beside the first one.
    pub fn switch(&mut self, name: &str) -> Result<(), Failure> {
        if !self.kept.contains_key(name) {
            let stored = self.stored(name).filter(|path| path.exists());
            let Some(path) = stored else {
                let names = self.names();
                return Err(Failure::usage(format!("there is no conversation {name}; there are: {names}")));
            };
            let (chat, file) = (self.chat().fork(), open(&path)?);
            if let Some(saved) = file.read().map_err(EngineError::from)? {
                restore(&chat, saved)?;
            }
            self.kept.insert(name.into(), Kept { chat, file: Some(file) });
        }
        self.current = name.into();
        Ok(())
    }

    /// Where a conversation of this name is kept.
    fn stored(&self, name: &str) -> Option<PathBuf> {
        let path = named(self.named.as_ref()?, name);
        (!name.contains(['/', '\\', '.'])).then_some(path)
    }
}

fn open(path: &Path) -> Result<SessionFile, Failure> {
    Ok(SessionFile::open(path).map_err(EngineError::from)?)
}

/// Goes on with the conversation in a file.
pub fn load(chat: &ChatSession, path: &Path) -> Result<(), Failure> {
    restore(chat, SavedChat::read(path).map_err(EngineError::from)?)
}

/// Goes on with a stored conversation. One of another model is taken over, which is said.
fn restore(chat: &ChatSession, mut saved: SavedChat) -> Result<(), Failure> {
    let here = chat.saved().model;
    if saved.model != here {
        note(format_args!("note: the conversation was held with {}; {here} goes on with it", saved.model));
        saved.adopt(chat.model());
    }
    Ok(chat.restore(saved)?)
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
