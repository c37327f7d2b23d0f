//! A command as a tool: its template, its arguments, its run.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rawloop_engine::chat::Tool;
use rawloop_engine::tools::{ToolError, ToolFunction};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::interrupt;

/// Bytes of an output that the model is given: at most as many tokens, so half of the embedded model's context.
const OUTPUT: usize = 4 << 10;
/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long the rest of an output may take once the command has ended.
const REST: Duration = Duration::from_millis(500);

/// An entry of the file.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(flatten)]
    tool: Tool,
    command: Vec<String>,
    #[serde(default = "yes")]
    ask: bool,
    #[serde(default = "patience")]
    seconds: u64,
    #[serde(default)]
    parallel: bool,
}

fn yes() -> bool {
    true
}

fn patience() -> u64 {
    30
}

/// A tool that runs a command.
#[derive(Debug)]
pub struct CommandTool {
    tool: Tool,
    template: Vec<Word>,
    ask: bool,
    limit: Duration,
    parallel: bool,
}

/// A word of a command: text and places for arguments in turn.
#[derive(Debug, PartialEq, Eq)]
struct Word(Vec<Piece>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// The tools of a file.
///
/// # Errors
/// What is wrong with which.
pub fn parse(text: &str) -> Result<Vec<CommandTool>, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut tools: Vec<CommandTool> = Vec::new();
    for entry in entries {
        let name = entry.tool.function.name.clone();
        if tools.iter().any(|tool| tool.name() == name) {
            return Err(format!("the tool {name} is there twice"));
        }
        tools.push(CommandTool::new(entry).map_err(|problem| format!("the tool {name}: {problem}"))?);
    }
    if tools.is_empty() {
        return Err("it lists no tool".into());
    }
    Ok(tools)
}

impl CommandTool {
    fn new(entry: Entry) -> Result<CommandTool, String> {
        let Entry { tool, command, ask, seconds, parallel } = entry;
        let none = Map::new();
        let parameters = tool.function.parameters.as_ref();
        let properties = parameters.and_then(|schema| schema.get("properties")?.as_object()).unwrap_or(&none);
        let template: Vec<Word> = command.iter().map(|word| Word::parse(word, properties)).collect();
        match template.first() {
            None => return Err("`command` is empty: the program and its arguments are expected".into()),
            Some(program) if program.argument().is_some() => {
                return Err("the program to run cannot be an argument of the call".into());
            }
            Some(_) => {}
        }
        let used = |name: &&String| template.iter().any(|word| word.uses(name));
        if let Some(unused) = properties.keys().find(|name| !used(name)) {
            return Err(format!(
                "its command has no place for the parameter {unused}: write {{{unused}}} there"
            ));
        }
        Ok(CommandTool { tool, template, ask, limit: Duration::from_secs(seconds), parallel })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.tool.function.name
    }

    /// Whether a person is asked before each call.
    pub fn asks(&self) -> bool {
        self.ask
    }

    /// The words that a call runs. A word with an argument that was not given is left out.
    ///
    /// # Errors
    /// Arguments that do not fit the declaration.
    pub fn command(&self, arguments: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let parameters = self.tool.function.parameters.as_ref();
        let of = |key: &str| parameters.and_then(|schema| schema.get(key));
        let required = of("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !arguments.contains_key(name) {
                return Err(ToolError::Arguments(format!("{name} is missing")));
            }
        }
        for (name, value) in arguments {
            let schema = of("properties").and_then(|properties| properties.get(name));
            let schema =
                schema.ok_or_else(|| ToolError::Arguments(format!("there is no parameter {name}")))?;
            check(name, value, schema)?;
        }
        Ok(self.template.iter().filter_map(|word| word.fill(arguments)).collect())
    }
}

impl ToolFunction for CommandTool {
    fn declaration(&self) -> Tool {
        self.tool.clone()
    }

    fn is_concurrent(&self) -> bool {
        self.parallel
    }

    fn call(&self, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        let words = self.command(&arguments)?;
        let failed = |error: std::io::Error| ToolError::Failed(format!("{}: {error}", words[0]));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What the command starts belongs to its group and ends with it. Ctrl-C does not reach the group; `wait` passes it on.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().map(read);
        let errors = child.stderr.take().map(read);
        let status = wait(&mut child, self.limit);
        let text = |stream: Option<Receiver<Vec<u8>>>| stream.map(collect).unwrap_or_default();
        let (output, errors) = (text(output), text(errors));
        match status.map_err(failed)? {
            Ok(status) if status.success() => Ok(Value::String(output)),
            Ok(status) => {
                let said = if errors.is_empty() { output } else { errors };
                Err(ToolError::Failed(format!("{status}: {said}")))
            }
            Err(why) => Err(ToolError::Failed(why)),
        }
    }
}

/// Waits for the end of a command; ends it where it takes too long or the user has had enough.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Result<ExitStatus, String>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status));
        }
        let late = started.elapsed() > limit;
        if late || interrupt::requested() {
            end(child)?;
            child.wait()?;
            let seconds = limit.as_secs();
            let why =
                if late { format!("ended after {seconds} seconds") } else { "stopped by the user".into() };
            return Ok(Err(why));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a command and, where the system knows groups, whatever it has started.
fn end(child: &mut Child) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Ok(group) = i32::try_from(child.id()) {
        use nix::sys::signal::{Signal, killpg};
        return Ok(killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL)?);
    }
    child.kill()
}

/// Reads a stream on a thread of its own, so that neither a full pipe nor a grandchild that keeps it open holds the call up.
fn read(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut left = OUTPUT;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let kept = count.min(left);
            left -= kept;
            // Read to the end in any case: a full pipe would hold the command up.
            if kept > 0 && sender.send(buffer[..kept].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What a stream held, at most [`OUTPUT`] bytes of it.
fn collect(stream: Receiver<Vec<u8>>) -> String {
    let mut bytes = Vec::new();
    let until = Instant::now() + REST;
    while let Ok(part) = stream.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(part);
    }
    let cut = bytes.len() >= OUTPUT;
    let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
    if cut { format!("{text}\n[cut off after {OUTPUT} bytes]") } else { text }
}

/// Checks an argument against the keywords that decide what a command is given.
fn check(name: &str, value: &Value, schema: &Value) -> Result<(), ToolError> {
    let fits = match schema.get("type").and_then(Value::as_str).map(str::to_ascii_lowercase).as_deref() {
        Some("string") => value.is_string(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !fits {
        return Err(ToolError::Arguments(format!("{name} is {value}, which is no {}", schema["type"])));
    }
    match schema.get("enum").and_then(Value::as_array) {
        Some(values) if !values.contains(value) => {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            Err(ToolError::Arguments(format!("{name} is {value}: one of {} is expected", values.join(", "))))
        }
        _ => Ok(()),
    }
}

impl Word {
    /// Splits a word at its places. Braces around anything but a parameter's name are text.
    fn parse(word: &str, properties: &Map<String, Value>) -> Word {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = word;
        while let Some(open) = rest.find('{') {
            text.push_str(&rest[..open]);
            let name = rest[open + 1..].split_once('}').map(|(name, _)| name);
            match name.filter(|name| properties.contains_key(*name)) {
                Some(name) => {
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    }
                    pieces.push(Piece::Argument(name.to_owned()));
                    rest = &rest[open + name.len() + 2..];
                }
                None => {
                    text.push('{');
                    rest = &rest[open + 1..];
                }
            }
        }
        text.push_str(rest);
        if !text.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Word(pieces)
    }

    fn argument(&self) -> Option<&str> {
        self.0.iter().find_map(|piece| match piece {
            Piece::Argument(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    fn uses(&self, name: &str) -> bool {
        self.0.iter().any(|piece| *piece == Piece::Argument(name.to_owned()))
    }

    /// The word of a call, or nothing where an argument of it was not given.
    fn fill(&self, arguments: &Map<String, Value>) -> Option<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Argument(name) => match arguments.get(name)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                value => Some(value.to_string()),
            },
        };
        self.0.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(command: Value, properties: Value, required: Value) -> Result<CommandTool, String> {
        let parameters = json!({ "type": "object", "properties": properties, "required": required });
        let entry = json!([{ "function": { "name": "t", "parameters": parameters }, "command": command }]);
        parse(&entry.to_string()).map(|mut tools| tools.remove(0))
    }

    fn words(tool: &CommandTool, arguments: Value) -> Result<Vec<String>, String> {
        tool.command(arguments.as_object().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_argument_is_one_word_whatever_is_in_it() {
        let kinds =
            json!({ "a": { "type": "string" }, "n": { "type": "number" }, "o": { "type": "string" } });
        let tool =
            tool(json!(["p", "{a}", "x={n}{a}", "--o={o}", "{ b }{"]), kinds, json!(["a", "n"])).unwrap();
        let evil = "$(touch x); `y` && \"z\" {n}\n";
        assert_eq!(
            words(&tool, json!({ "a": evil, "n": 1.5, "o": "q" })).unwrap(),
            ["p", evil, &format!("x=1.5{evil}"), "--o=q", "{ b }{"]
        );
        assert_eq!(words(&tool, json!({ "a": "", "n": -2 })).unwrap(), ["p", "", "x=-2", "{ b }{"]);
        for (arguments, problem) in [
            (json!({ "a": "x" }), "n is missing"),
            (json!({ "a": 3, "n": 1 }), "a is 3, which is no \"string\""),
            (json!({ "a": "x", "n": 1, "z": 1 }), "there is no parameter z"),
        ] {
            assert!(words(&tool, arguments).unwrap_err().contains(problem));
        }
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused() {
        let text = json!({ "a": { "type": "string" } });
        for (command, problem) in [
            (json!([]), "`command` is empty"),
            (json!(["{a}"]), "cannot be an argument"),
            (json!(["ls"]), "no place for the parameter a"),
        ] {
            let error = tool(command, text.clone(), json!([])).unwrap_err();
            assert!(error.contains(problem) && error.contains("the tool t"), "{error}");
        }
        assert!(parse("[]").unwrap_err().contains("no tool"));
        let twice = json!([{ "function": { "name": "t" }, "command": ["a"] }, { "function": { "name": "t" }, "command": ["b"] }]);
        assert!(parse(&twice.to_string()).unwrap_err().contains("twice"));
        assert!(parse("{").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn commands_run_fail_are_cut_off_and_end_in_time() {
        let run = |command: Value| {
            let tool = tool(command, json!({}), json!([])).unwrap();
            tool.call(Map::new()).map_err(|error| error.to_string())
        };
        assert_eq!(run(json!(["printf", "%s", "a b"])).unwrap(), "a b");
        assert!(run(json!(["ls", "--", "/no such folder"])).unwrap_err().contains("no such folder"));
        assert!(run(json!(["no-such-program-here"])).unwrap_err().contains("no-such-program-here"));
        let long = run(json!(["awk", "BEGIN { while (i++ < 100000) print i }"])).unwrap();
        let long = long.as_str().unwrap();
        assert!(long.len() < OUTPUT + 100 && long.ends_with("[cut off after 4096 bytes]"));
        let mut slow = tool(json!(["sleep", "60"]), json!({}), json!([])).unwrap();
        slow.limit = Duration::from_millis(50);
        assert!(slow.call(Map::new()).unwrap_err().to_string().contains("ended after"));
        // What the command has started ends with it: it would hold this end of the pipe open.
        let (mut theirs, ours) = std::io::pipe().unwrap();
        let started = std::thread::spawn(move || {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 60 & wait"]).stdout(ours);
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            wait(&mut command.spawn().unwrap(), Duration::from_millis(50)).unwrap().unwrap_err()
        });
        assert!(started.join().unwrap().contains("ended after"));
        assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "nobody holds the pipe any more");
    }
}
