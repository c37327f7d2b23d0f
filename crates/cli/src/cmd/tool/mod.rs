//! `--tools FILE`: commands of this machine as tools.
//!
//! The file is a list of declarations in OpenAI's form, each with the command that a call runs, argument by argument:
//!
//! ```json
//! [{ "type": "function",
//!    "function": { "name": "word_count", "description": "Counts the words of a file.",
//!      "parameters": { "type": "object", "properties": { "file": { "type": "string" } }, "required": ["file"] } },
//!    "command": ["wc", "-w", "--", "{file}"] }]
//! ```
//!
//! `{file}` stands for the argument of that name. No shell reads the command: whatever a model writes is one argument and never
//! a second command. It can still look like an option, so a template puts `--` before what must not be one. Each call is shown
//! as it will be run and needs a yes, unless the file says `"ask": false` or the user `--allow NAME` or `--yes`. Without a
//! terminal there is nobody to ask, and the answer is no. Calls of tools that say `"parallel": true` run at the same time.

mod command;
pub mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rawloop_engine::conversation::{Approval, ToolSettings};
use rawloop_engine::tools::{PendingCall, PlanOptions, ToolChoice, Toolbox};

use crate::args::ChatArgs;
use crate::exit::Failure;
use crate::input::{Consent, Input};
use crate::interrupt;
use crate::screen::{note, shown};
use command::CommandTool;

/// A larger file is no list of tools.
const LARGEST: u64 = 4 << 20;

/// The tools of a conversation.
pub struct Tools {
    commands: Vec<Arc<CommandTool>>,
    settings: ToolSettings,
    /// Names of tools that run without being asked for.
    allowed: BTreeSet<String>,
    /// All of them do.
    all: bool,
}

impl Tools {
    /// Reads a file.
    pub fn read(path: &Path, args: &ChatArgs) -> Result<Tools, Failure> {
        let failed = |problem: String| Failure::input(format!("{}: {problem}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if size > LARGEST {
            return Err(failed(format!("{size} bytes are no list of tools")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let commands = command::parse(&text).map_err(failed)?;
        let named = |name: &str| commands.iter().any(|tool| tool.name() == name);
        let choice = match args.tool_choice.as_deref() {
            None | Some("auto") => ToolChoice::Auto,
            Some("none") => ToolChoice::None,
            Some("required") => ToolChoice::Required,
            Some(name) if named(name) => ToolChoice::Named(name.into()),
            Some(name) => {
                return Err(Failure::usage(format!(
                    "--tool-choice {name}: there is no such tool in the file"
                )));
            }
        };
        if let Some(name) = args.allow.iter().find(|name| !named(name)) {
            return Err(Failure::usage(format!("--allow {name}: there is no such tool in the file")));
        }
        let free = commands.iter().filter(|tool| !tool.asks()).map(|tool| tool.name().to_owned());
        let allowed = free.chain(args.allow.iter().cloned()).collect();
        let settings = ToolSettings { choice, rounds: args.tool_rounds, plan: PlanOptions::default() };
        Ok(Tools { commands: commands.into_iter().map(Arc::new).collect(), settings, allowed, all: args.yes })
    }

    /// How calls are run.
    pub fn settings(&self) -> ToolSettings {
        self.settings.clone()
    }

    /// The tools, for the engine.
    pub fn toolbox(&self) -> Toolbox {
        self.commands.iter().fold(Toolbox::new(), |toolbox, tool| toolbox.with(Arc::clone(tool)))
    }

    /// Shows a call and asks whether it may run.
    pub fn approve(&mut self, call: &PendingCall, input: &mut Input) -> Approval {
        let Some(tool) = self.commands.iter().find(|tool| tool.name() == call.name) else {
            // The toolbox says that there is none.
            return Approval::Run;
        };
        let Ok(command) = tool.command(&call.arguments) else {
            // It will not run; the model is told why.
            return Approval::Run;
        };
        if self.all || self.allowed.contains(&call.name) {
            return Approval::Run;
        }
        let (name, whole) = (shown(&call.name), text::as_typed(&command));
        let short = text::shortened(&command);
        note(format_args!("{name} wants to run: {}", short.as_ref().unwrap_or(&whole)));
        if !input.can_ask() {
            note(format_args!("(not run: there is no terminal to ask at; --allow {name} or --yes lets it)"));
            return Approval::Refuse("the user did not allow the call".into());
        }
        let question = match short {
            Some(_) => "run it? [y]es, [n]o, [a]lways this tool, [s]how all of it: ",
            None => "run it? [y]es, [n]o, [a]lways this tool: ",
        };
        loop {
            match input.consent(question) {
                Consent::Show => note(format_args!("{name} wants to run: {whole}")),
                Consent::Yes => return Approval::Run,
                Consent::Always => {
                    self.allowed.insert(call.name.clone());
                    return Approval::Run;
                }
                Consent::Stop => {
                    interrupt::request();
                    return Approval::Refuse("the user stopped the answer".into());
                }
                Consent::No => return Approval::Refuse("the user did not allow the call".into()),
            }
        }
    }
}
