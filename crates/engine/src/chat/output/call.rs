//! Reads a tool call: `call:NAME{key:value,...}` in Gemma's notation, and the near misses that models write.
//!
//! Exact calls parse exactly. The repairs, each of which has been seen from a model of this family:
//!
//! - a delimiter inside a string (it ends the string only where something can follow), a missing opening or closing one;
//! - JSON or Python strings, `key=` for `key:`, quoted keys, `name(key=value)`, Python's `True` and `None`;
//! - a namespace before the name that was never declared;
//! - a missing closing brace, if the call's end marker is there.
//!
//! Where a bare or broken string ends is decided by what follows: a comma with a key behind it, or closing brackets that fit the
//! ones that are open. The declared schema says which keys there are. What stays unreadable is an error; the caller shows
//! the text. Parsing takes a bounded number of steps.
//!
//! Larger than other files because it is one grammar: the functions call each other.

use serde_json::{Map, Value};

use super::shape::Shape;
use crate::chat::{Function, Tool};

/// One character, or the token `<|"|>`, which no character of an argument can be mistaken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    Char(char),
    Delimiter,
}

use Symbol::{Char, Delimiter};

/// A call that the model made.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// The function, by its declared name where one fits.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// Why a call cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It does not begin with `call:`, a name and a bracket.
    #[error("tool call: `call:` and a name with `{{` expected")]
    Name,
    /// A key with `:` or `=` was expected.
    #[error("tool call: a key and `:` expected at character {at}")]
    Key {
        /// Place in the call's text.
        at: usize,
    },
    /// Text follows the arguments.
    #[error("tool call: text behind the arguments at character {at}")]
    Trailing {
        /// Place in the call's text.
        at: usize,
    },
    /// The output ended inside the call.
    #[error("tool call: the output ended inside the call")]
    Incomplete,
    /// More nesting, or more searching, than a call can need.
    #[error("tool call: nested too deeply or too long")]
    TooComplex,
}

const DEPTH: usize = 64;
/// Longest key that is looked for behind a comma.
const LONGEST_KEY: usize = 128;
/// Longest bare text that is tried as a number or a word like `true`.
const LONGEST_NUMBER: usize = 40;
/// Steps for each symbol of the call; a call without repairs takes a handful.
const STEPS: usize = 400;

/// Reads a call from text in which the delimiter is spelled `<|"|>`. The tools' names and schemas decide doubtful cases.
///
/// # Errors
/// What is wrong and where.
pub fn parse_call(text: &str, tools: &[Tool]) -> Result<ParsedCall, CallError> {
    let mut symbols = Vec::new();
    for (place, part) in text.split("<|\"|>").enumerate() {
        if place > 0 {
            symbols.push(Delimiter);
        }
        symbols.extend(part.chars().map(Char));
    }
    parse_symbols(&symbols, tools, false)
}

/// The symbols as text to show.
pub(super) fn shown(symbols: &[Symbol]) -> String {
    symbols.iter().map(|symbol| if let Char(c) = symbol { *c } else { '"' }).collect()
}

/// Reads a call. With `must_close` its own brackets have to end it.
pub(super) fn parse_symbols(
    symbols: &[Symbol],
    tools: &[Tool],
    must_close: bool,
) -> Result<ParsedCall, CallError> {
    let mut parser =
        Parser { symbols, at: 0, open: Vec::new(), steps: STEPS * (symbols.len() + 16), complete: true };
    parser.skip_space();
    for expected in "call:".chars() {
        if parser.peek() != Some(Char(expected)) {
            return Err(CallError::Name);
        }
        parser.at += 1;
    }
    let start = parser.at;
    while !matches!(parser.peek(), None | Some(Char('{' | '('))) {
        parser.at += 1;
    }
    let name = shown(&symbols[start..parser.at]).trim().to_owned();
    let closer = match parser.peek() {
        Some(Char('{')) => '}',
        Some(Char('(')) => ')',
        _ => return Err(CallError::Name),
    };
    if name.is_empty() {
        return Err(CallError::Name);
    }
    let function = declared(&name, tools);
    let shape = Shape::arguments(function.and_then(|function| function.parameters.as_ref()));
    parser.at += 1;
    let arguments = parser.object(closer, &shape)?;
    while matches!(parser.peek(), Some(Char(c)) if c.is_whitespace() || is_closer(c)) {
        parser.at += 1;
    }
    if parser.at < symbols.len() {
        return Err(CallError::Trailing { at: parser.at });
    }
    if must_close && !parser.complete {
        return Err(CallError::Incomplete);
    }
    Ok(ParsedCall { name: function.map_or(name, |function| function.name.clone()), arguments })
}

/// The declared function that a name means: its own, or the only one that is the name without some namespaces.
fn declared<'t>(name: &str, tools: &'t [Tool]) -> Option<&'t Function> {
    let functions = || tools.iter().map(|tool| &tool.function);
    if let Some(function) = functions().find(|function| function.name == name) {
        return Some(function);
    }
    let is_suffix = |function: &&Function| {
        name.strip_suffix(&function.name).is_some_and(|rest| rest.ends_with(':') && !function.name.is_empty())
    };
    let mut fitting = functions().filter(is_suffix);
    let first = fitting.next()?;
    fitting.all(|other| other.name == first.name).then_some(first)
}

fn is_closer(c: char) -> bool {
    matches!(c, '}' | ']' | ')')
}

struct Parser<'s> {
    symbols: &'s [Symbol],
    at: usize,
    /// Closing brackets that are expected, innermost last.
    open: Vec<char>,
    /// Steps left.
    steps: usize,
    /// Every bracket so far was closed.
    complete: bool,
}

/// Where a value stands: in an object of this shape, or in an array.
#[derive(Clone, Copy)]
enum Within<'t> {
    Object(&'t Shape<'t>),
    Array,
}

impl Parser<'_> {
    fn symbol(&self, at: usize) -> Option<Symbol> {
        self.symbols.get(at).copied()
    }

    fn peek(&self) -> Option<Symbol> {
        self.symbol(self.at)
    }

    fn spend(&mut self, steps: usize) -> Result<(), CallError> {
        self.steps = self.steps.checked_sub(steps).ok_or(CallError::TooComplex)?;
        Ok(())
    }

    fn space_end(&self, mut at: usize) -> usize {
        while matches!(self.symbol(at), Some(Char(c)) if c.is_whitespace()) {
            at += 1;
        }
        at
    }

    fn skip_space(&mut self) {
        self.at = self.space_end(self.at);
    }

    fn enter(&mut self, closer: char) -> Result<(), CallError> {
        if self.open.len() == DEPTH {
            return Err(CallError::TooComplex);
        }
        self.open.push(closer);
        Ok(())
    }

    /// At the end of a container: takes its closing bracket if that is what stands there. Another bracket, or the end, closes
    /// the container too and is left for the one around it.
    fn leave(&mut self) {
        let closer = self.open.pop();
        if let Some(Char(c)) = self.peek()
            && Some(c) == closer
        {
            self.at += 1;
        } else {
            self.complete = false;
        }
    }

    /// Skips white space and commas; true at a closing bracket or the end.
    fn at_end(&mut self) -> bool {
        while matches!(self.peek(), Some(Char(c)) if c.is_whitespace() || c == ',') {
            self.at += 1;
        }
        matches!(self.peek(), None | Some(Char('}' | ']' | ')')))
    }

    /// The fields of an object whose opening bracket has been taken.
    fn object(&mut self, closer: char, shape: &Shape<'_>) -> Result<Map<String, Value>, CallError> {
        self.enter(closer)?;
        let mut fields = Map::new();
        while !self.at_end() {
            self.spend(1)?;
            let key = self.key()?;
            let value = self.value(Within::Object(shape), &shape.property(&key))?;
            fields.insert(key, value);
        }
        self.leave();
        Ok(fields)
    }

    fn array(&mut self, shape: &Shape<'_>) -> Result<Value, CallError> {
        self.enter(']')?;
        let mut values = Vec::new();
        while !self.at_end() {
            self.spend(1)?;
            let element = shape.element(values.len());
            values.push(self.value(Within::Array, &element)?);
        }
        self.leave();
        Ok(Value::Array(values))
    }

    /// A key and its separator.
    fn key(&mut self) -> Result<String, CallError> {
        let (key, end) = self.key_at(self.at).ok_or(CallError::Key { at: self.at })?;
        self.spend(end - self.at)?;
        self.at = end;
        Ok(key)
    }

    /// The key at a place and where the value behind its separator begins.
    fn key_at(&self, at: usize) -> Option<(String, usize)> {
        let start = self.space_end(at);
        let (start, quote) = match self.symbol(start)? {
            symbol @ (Delimiter | Char('"' | '\'')) => (start + 1, Some(symbol)),
            _ => (start, None),
        };
        let mut end = start;
        loop {
            let symbol = self.symbol(end)?;
            let ends = match quote {
                Some(quote) => symbol == quote,
                None => {
                    matches!(symbol, Delimiter | Char(':' | '=' | ',' | '{' | '}' | '[' | ']' | '"' | '\n'))
                }
            };
            if ends {
                break;
            }
            end += 1;
            if end - start > LONGEST_KEY {
                return None;
            }
        }
        let key = shown(&self.symbols[start..end]);
        let key = if quote.is_some() { key } else { key.trim().to_owned() };
        let separator = self.space_end(if quote.is_some() { end + 1 } else { end });
        match self.symbol(separator)? {
            Char(':' | '=') if !key.is_empty() => Some((key, separator + 1)),
            _ => None,
        }
    }

    fn value(&mut self, within: Within<'_>, shape: &Shape<'_>) -> Result<Value, CallError> {
        self.skip_space();
        match self.peek() {
            None => Err(CallError::Incomplete),
            Some(Delimiter) => self.delimited(within).map(Value::String),
            Some(Char('{')) => {
                self.at += 1;
                self.object('}', shape).map(Value::Object)
            }
            Some(Char('[')) => {
                self.at += 1;
                self.array(shape)
            }
            Some(Char(quote @ ('"' | '\''))) => match self.quoted(quote, within)? {
                Some(text) => Ok(Value::String(text)),
                None => self.bare(within, shape),
            },
            Some(Char(_)) => self.bare(within, shape),
        }
    }

    /// A string that begins with the delimiter token.
    fn delimited(&mut self, within: Within<'_>) -> Result<String, CallError> {
        let start = self.at + 1;
        let mut at = start;
        while let Some(symbol) = self.symbol(at) {
            self.spend(1)?;
            if symbol == Delimiter {
                if self.ends_value(at + 1, within)? {
                    self.at = at + 1;
                    return Ok(shown(&self.symbols[start..at]));
                }
                // The opening delimiter of the next value: this string was not closed.
                if let Some(comma) = self.comma_before_key(start, at, within) {
                    self.at = comma;
                    return Ok(shown(&self.symbols[start..comma]));
                }
            }
            at += 1;
        }
        Ok(self.rest(start))
    }

    /// A string in ordinary quotes, or nothing if no quote ends it.
    fn quoted(&mut self, quote: char, within: Within<'_>) -> Result<Option<String>, CallError> {
        let mut text = String::new();
        let mut at = self.at + 1;
        while let Some(symbol) = self.symbol(at) {
            self.spend(1)?;
            at += 1;
            match symbol {
                Char('\\') => at = self.escape(at, &mut text),
                Char(c) if c == quote && self.ends_value(at, within)? => {
                    self.at = at;
                    return Ok(Some(text));
                }
                Char(c) => text.push(c),
                Delimiter => text.push('"'),
            }
        }
        Ok(None)
    }

    /// The character that a backslash stands for; an unknown one stays as it is.
    fn escape(&self, at: usize, text: &mut String) -> usize {
        let Some(Char(c)) = self.symbol(at) else {
            text.push('\\');
            return at;
        };
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            '"' | '\'' | '\\' | '/' => text.push(c),
            'u' => {
                let unit = |at: usize| {
                    let digits = self.symbols.get(at..at + 4)?;
                    u16::from_str_radix(&shown(digits), 16).ok()
                };
                let Some(first) = unit(at + 1) else {
                    text.push_str("\\u");
                    return at + 1;
                };
                let second = match (self.symbol(at + 5), self.symbol(at + 6)) {
                    (Some(Char('\\')), Some(Char('u'))) => unit(at + 7),
                    _ => None,
                };
                if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, second) {
                    text.extend(char::decode_utf16([first, second]).map(|c| c.unwrap_or('\u{fffd}')));
                    return at + 11;
                }
                text.push(char::from_u32(first.into()).unwrap_or('\u{fffd}'));
                return at + 5;
            }
            other => {
                text.push('\\');
                text.push(other);
            }
        }
        at + 1
    }

    /// A value without quotes: a number, a word, or a string whose opening delimiter is missing.
    fn bare(&mut self, within: Within<'_>, shape: &Shape<'_>) -> Result<Value, CallError> {
        let start = self.at;
        let mut at = start;
        // Brackets that were opened inside the text itself.
        let mut inner = 0usize;
        while let Some(symbol) = self.symbol(at) {
            self.spend(1)?;
            match symbol {
                Delimiter if self.ends_value(at + 1, within)? => {
                    self.at = at + 1;
                    return Ok(Value::String(shown(&self.symbols[start..at]).trim().to_owned()));
                }
                Delimiter => {
                    if let Some(comma) = self.comma_before_key(start, at, within) {
                        self.at = comma;
                        return Ok(literal(&shown(&self.symbols[start..comma]), shape.is_string()));
                    }
                }
                Char(',') if self.ends_bare(at, within)? => break,
                // Behind a number or a word like `true` a key counts that nobody declared.
                Char(',') if self.is_word(start, at, shape) && self.bare_key_follows(at + 1) => break,
                Char('(' | '[' | '{') => inner += 1,
                Char(c) if is_closer(c) => {
                    // A number needs no second thought; text may have brackets of its own.
                    let is_word = self.open.last() == Some(&c) && self.is_word(start, at, &Shape::default());
                    if inner == 0 && (is_word || self.ends_value(at, within)?) {
                        break;
                    }
                    inner = inner.saturating_sub(1);
                }
                Char(_) => {}
            }
            at += 1;
        }
        if at == self.symbols.len() {
            return Ok(literal(&self.rest(start), shape.is_string()));
        }
        self.at = at;
        Ok(literal(&shown(&self.symbols[start..at]), shape.is_string()))
    }

    /// Whether the text between two places is a number or a word like `true`, where it need not be a string.
    fn is_word(&self, start: usize, end: usize, shape: &Shape<'_>) -> bool {
        let word = &self.symbols[start..end];
        word.len() <= LONGEST_NUMBER
            && !shape.is_string()
            && !matches!(literal(&shown(word), false), Value::String(_))
    }

    /// Whether a key follows as Gemma writes it: a name, no space around it.
    fn bare_key_follows(&self, at: usize) -> bool {
        let Some((key, end)) = self.key_at(at) else { return false };
        is_name(&key) && end == at + key.chars().count() + 1
    }

    /// Text up to the end of the call, without the brackets at its end that close what is open.
    fn rest(&mut self, start: usize) -> String {
        let mut end = self.symbols.len();
        for &closer in &self.open {
            let mut last = end;
            while last > start && matches!(self.symbols[last - 1], Char(c) if c.is_whitespace()) {
                last -= 1;
            }
            if last == start || self.symbols[last - 1] != Char(closer) {
                break;
            }
            end = last - 1;
        }
        self.at = end;
        shown(&self.symbols[start..end])
    }

    /// Whether a value can end before `at`: a comma with something behind it, or closing brackets that fit, or the end.
    fn ends_value(&mut self, at: usize, within: Within<'_>) -> Result<bool, CallError> {
        let at = self.space_end(at);
        match self.symbol(at) {
            None => Ok(true),
            Some(Char(',')) => match within {
                Within::Object(shape) => Ok(self.key_follows(at + 1, shape, false)? || self.closes(at + 1)?),
                Within::Array => Ok(self.value_follows(at + 1) || self.closes(at + 1)?),
            },
            Some(Char(c)) if is_closer(c) => self.closes(at),
            _ => Ok(false),
        }
    }

    /// Whether a comma ends a bare value.
    fn ends_bare(&mut self, comma: usize, within: Within<'_>) -> Result<bool, CallError> {
        match within {
            Within::Object(shape) => Ok(self.key_follows(comma + 1, shape, true)? || self.closes(comma + 1)?),
            Within::Array => Ok(true),
        }
    }

    /// Whether closing brackets follow that fit the open ones, and behind them a comma, or the end.
    fn closes(&mut self, at: usize) -> Result<bool, CallError> {
        let mut at = self.space_end(at);
        let mut open = self.open.len();
        let mut any = false;
        while let Some(Char(c)) = self.symbol(at)
            && open > 0
            && self.open[open - 1] == c
        {
            self.spend(1)?;
            any = true;
            open -= 1;
            at = self.space_end(at + 1);
        }
        Ok(match self.symbol(at) {
            None => true,
            Some(Char(',')) => any && open > 0,
            // More brackets than were opened, at the very end.
            Some(Char(c)) if is_closer(c) => {
                any && self.symbols[at..]
                    .iter()
                    .all(|s| matches!(s, Char(c) if c.is_whitespace() || is_closer(*c)))
            }
            _ => false,
        })
    }

    /// Whether a key with its separator follows. In running text (`strict`) it has to be a declared key if keys are known.
    fn key_follows(&mut self, at: usize, shape: &Shape<'_>, strict: bool) -> Result<bool, CallError> {
        let Some((key, end)) = self.key_at(at) else {
            return self.spend(LONGEST_KEY).map(|()| false);
        };
        self.spend(end - at)?;
        if shape.names(&key) {
            return Ok(true);
        }
        // Gemma writes no space behind a comma, prose does: there a key counts only if its value looks like one.
        let spaced = self.space_end(at) > at;
        if shape.names_keys() && strict {
            return Ok(shape.is_open() && !spaced && is_name(&key) && self.value_follows(end));
        }
        Ok(!spaced || (is_name(&key) && self.value_follows(end)))
    }

    /// Whether something follows that begins like a value.
    fn value_follows(&self, at: usize) -> bool {
        let at = self.space_end(at);
        match self.symbol(at) {
            Some(Delimiter | Char('"' | '\'' | '{' | '[' | '-' | '0'..='9')) => true,
            Some(Char(_)) => {
                let word: String = (at..at + 6).map_while(|at| self.symbol(at)).map_while(letter).collect();
                matches!(word.as_str(), "true" | "false" | "null" | "True" | "False" | "None")
            }
            None => false,
        }
    }

    /// The comma before a key that stands right before the delimiter at `at`.
    fn comma_before_key(&self, start: usize, at: usize, within: Within<'_>) -> Option<usize> {
        let Within::Object(shape) = within else { return None };
        let separator = at.checked_sub(1).filter(|&place| place > start)?;
        if !matches!(self.symbols[separator], Char(':' | '=')) {
            return None;
        }
        let is_name = |symbol: &Symbol| matches!(symbol, Char(c) if c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let name =
            self.symbols[start..separator].iter().rev().take(LONGEST_KEY).take_while(|s| is_name(s)).count();
        let first = separator - name;
        let key = shown(&self.symbols[first..separator]);
        let comma =
            first.checked_sub(1).filter(|&place| place >= start && self.symbols[place] == Char(','))?;
        let known = !shape.names_keys() || shape.names(&key);
        (name > 0 && known).then_some(comma)
    }
}

fn is_name(key: &str) -> bool {
    key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn letter(symbol: Symbol) -> Option<char> {
    match symbol {
        Char(c) if c.is_alphabetic() => Some(c),
        _ => None,
    }
}

/// What a word without quotes means. A declared string stays a string, whatever it looks like.
fn literal(text: &str, declared_string: bool) -> Value {
    let text = text.trim();
    match text {
        "" | "null" | "None" => Value::Null,
        "true" | "True" if !declared_string => Value::Bool(true),
        "false" | "False" if !declared_string => Value::Bool(false),
        _ if declared_string => Value::String(text.to_owned()),
        _ => match serde_json::from_str(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => Value::String(text.to_owned()),
        },
    }
}
