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
//! as it will be run and needs a yes, unless the file says `"ask": false` or the user `--allow NAME`.

mod command;
mod text;

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
        Ok(Tools { commands: commands.into_iter().map(Arc::new).collect(), settings, allowed })
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
        if self.allowed.contains(&call.name) {
            return Approval::Run;
        }
        let line = text::as_typed(&command);
        note(format_args!("{} wants to run: {}", shown(&call.name), shown(&line)));
        match input.consent("run it? [y]es, [n]o, [a]lways this tool: ") {
            Consent::Yes => Approval::Run,
            Consent::Always => {
                self.allowed.insert(call.name.clone());
                Approval::Run
            }
            Consent::Stop => {
                interrupt::request();
                Approval::Refuse("the user stopped the answer".into())
            }
            Consent::No => Approval::Refuse("the user did not allow the call".into()),
        }
    }
}
