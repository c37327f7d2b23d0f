//! A checkpoint's own chat template, `chat_template.jinja`, as an alternative to the built-in renderer.
//!
//! The template sees the prepared conversation (`prepare.rs`) under the names that Transformers gives: messages, tools,
//! enable_thinking, preserve_thinking, add_generation_prompt, bos_token. It returns one text, in which the special tokens that
//! the template wrote have to be told from the same spellings in what a user wrote.
//!
//! How: every special token begins with one of a few characters (`<`). Behind each of those in a string that a message or a
//! tool brings in, a mark is put: a private-use character that occurs nowhere in the conversation. With the mark inside, no
//! spelling of a special token can come out of users' text, not even across two parts that the template joins. After
//! rendering, the special tokens that still stand there are the template's; then the marks are taken out. Trimming, upper-casing,
//! joining and sorting work as without the mark. A template that searches users' text for a special token does not find one;
//! the one search that the format needs, removing old thoughts, is done before.
//!
//! A template is untrusted: it gets a fuel limit, reads no files and includes nothing.

use std::fmt::Write;

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use rawloop_tokenizer::Tokenizer;

use super::prepare::{Prepared, prepare};
use super::rendered::{Origin, Rendered};
use super::value::python_float;
use super::{ChatError, Message, RenderOptions};

/// Steps that a template may take, and what each pair of messages adds: templates look at other messages for each message.
/// Measured on Gemma's: 57 thousand for 80 messages, 2.5 million for 800, 58 million for 4,000.
const FUEL: u64 = 20_000_000;
const FUEL_PER_PAIR: u64 = 20;

/// A parsed template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Special tokens by spelling, longest first.
    specials: Vec<String>,
}

const NAME: &str = "chat_template.jinja";

impl ChatTemplate {
    /// Parses a template for a tokenizer, whose special tokens are what is looked for in the result.
    ///
    /// # Errors
    /// The template's syntax error.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        let ids = tokenizer.special_ids();
        let mut specials: Vec<String> =
            ids.filter_map(|id| Some(tokenizer.spelling(id).ok()?.to_owned())).collect();
        specials.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));

        let mut environment = Environment::new();
        let syntax = minijinja::syntax::SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(report)?);
        environment.set_formatter(python_formatter);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, source.to_owned()).map_err(report)?;
        Ok(ChatTemplate { environment, specials })
    }

    /// Renders a conversation, as [`render`](super::render()) does.
    ///
    /// # Errors
    /// What cannot be rendered, or the template's own error.
    pub fn render(&self, options: &RenderOptions, messages: &[Message]) -> Result<Rendered, ChatError> {
        let Prepared { messages, tools } = prepare(options, messages)?;
        let count = messages.len();
        let mut messages =
            serde_json::to_value(messages).map_err(|error| ChatError::Template(error.to_string()))?;
        let mut tools =
            serde_json::to_value(tools).map_err(|error| ChatError::Template(error.to_string()))?;

        let first: Vec<char> = self.specials.iter().filter_map(|spelling| spelling.chars().next()).collect();
        let mark = unused_character(&[&messages, &tools]);
        let protect = |text: &str| -> String {
            let protected = |c: char| std::iter::once(c).chain(first.contains(&c).then_some(mark));
            text.chars().flat_map(protected).collect()
        };
        change_strings(&mut messages, &protect);
        change_strings(&mut tools, &protect);

        let mut environment = self.environment.clone();
        let pairs = (count as u64).saturating_pow(2);
        environment.set_fuel(Some(FUEL.saturating_add(pairs.saturating_mul(FUEL_PER_PAIR))));
        let template = environment.get_template(NAME).map_err(report)?;
        let text = template
            .render(context! {
                messages => Value::from(Serde(messages)),
                tools => if options.tools.is_empty() { Value::from(()) } else { Value::from(Serde(tools)) },
                enable_thinking => options.enable_thinking,
                preserve_thinking => options.preserve_thinking,
                add_generation_prompt => options.add_generation_prompt,
                bos_token => "<bos>",
            })
            .map_err(report)?;
        let mut rendered = self.locate(&text, mark);
        if options.add_generation_prompt {
            rendered = open_a_turn(rendered);
        }
        Ok(rendered)
    }

    /// Splits the template's output at its special tokens and takes out the marks.
    fn locate(&self, text: &str, mark: char) -> Rendered {
        let mut out = Rendered::default();
        let mut rest = text;
        let mut start = 0;
        while let Some(at) =
            rest[start..].find(|c| self.specials.iter().any(|special| special.starts_with(c)))
        {
            let at = start + at;
            match self.specials.iter().find(|special| rest[at..].starts_with(special.as_str())) {
                Some(special) => {
                    out.push(&rest[..at].replace(mark, ""), Origin::User);
                    out.push(special, Origin::Control);
                    rest = &rest[at + special.len()..];
                    start = 0;
                }
                None => start = at + rest[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        out.push(&rest.replace(mark, ""), Origin::User);
        out
    }
}

/// Asks inside a turn: where a template has closed the last turn and opened none, a model turn is opened.
///
/// Gemma 4's own template does so after a message with text, calls and results. Only what is seen to be there is changed:
/// the end of the text has to be the turn's end mark, or that and an opened thought.
fn open_a_turn(rendered: Rendered) -> Rendered {
    const CLOSED: &str = "<turn|>\n";
    const THOUGHT: &str = "<|channel>thought\n";
    let text = rendered.as_str();
    let body = text.strip_suffix(THOUGHT).unwrap_or(text);
    let last_special = rendered.segments().filter(|&(_, origin)| origin == Origin::Control).last();
    let by_template =
        last_special.is_some_and(|(special, _)| special == "<turn|>" || special == "<|channel>");
    if !by_template || !body.ends_with(CLOSED) {
        return rendered;
    }
    let keep = body.len();
    let thought = text[keep..].to_owned();
    let mut out = Rendered::default();
    let mut position = 0;
    for (segment, origin) in rendered.segments() {
        let taken = segment.len().min(keep - position);
        out.push(&segment[..taken], origin);
        position += taken;
    }
    out.control("<|turn>");
    out.user("model\n");
    if let Some(header) = thought.strip_prefix("<|channel>") {
        out.control("<|channel>");
        out.user(header);
    }
    out
}

/// A private-use character that stands nowhere in the values.
fn unused_character(values: &[&serde_json::Value]) -> char {
    let mut used = std::collections::HashSet::new();
    for value in values {
        // Not escaped in JSON text, so that this sees each of them.
        used.extend(value.to_string().chars().filter(|c| ('\u{e000}'..='\u{f8ff}').contains(c)));
    }
    let mut candidates = ('\u{e000}'..='\u{f8ff}').chain('\u{f0000}'..='\u{ffffd}');
    candidates.find(|candidate| !used.contains(candidate)).unwrap_or('\u{f8ff}')
}

/// Changes every string in a value, keys of arguments and of schemas included; field names have no special character.
fn change_strings(value: &mut serde_json::Value, change: &impl Fn(&str) -> String) {
    match value {
        serde_json::Value::String(text) => *text = change(text),
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| change_strings(value, change)),
        serde_json::Value::Object(fields) => {
            for (key, mut value) in std::mem::take(fields) {
                change_strings(&mut value, change);
                fields.insert(change(&key), value);
            }
        }
        _ => {}
    }
}

/// Prints values as Python does where the two differ.
fn python_formatter(
    out: &mut minijinja::Output,
    state: &mut minijinja::State,
    value: &Value,
) -> Result<(), Error> {
    use minijinja::value::ValueKind;
    let text = match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => python_float(number),
            Err(_) => value.to_string(),
        },
        _ => return minijinja::escape_formatter(out, state, value),
    };
    out.write_str(&text).map_err(|error| Error::new(ErrorKind::BadEscape, error.to_string()))
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The local time in a `strftime` format.
fn strftime_now(format: String) -> Result<String, Error> {
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(&format)).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: bad format `{format}`"))
    })?;
    Ok(text)
}

fn report(error: Error) -> ChatError {
    let place = error.line().map_or(String::new(), |line| format!(" (line {line})"));
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    ChatError::Template(format!("{detail}{place}"))
}
