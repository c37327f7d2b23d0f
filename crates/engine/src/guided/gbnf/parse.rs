//! Reads GBNF.
//!
//! Rules are `name ::= alternatives`. Alternatives hold texts, classes, names, groups and repetitions; a rule goes on in the
//! next line inside a group, behind `::=` and `|`, and before a `|`. `#` begins a comment.

use super::{GuidedError, Names, Node, Rule, Rules, each_rule, error};

/// Groups inside of groups. The library's own limit is 30.
const DEPTH: usize = 24;
/// Most repetitions that are counted.
const REPEATS: u32 = 100_000;

pub(super) fn parse(source: &str) -> Result<Rules, GuidedError> {
    let mut parser = Parser { rest: source, line: 1, names: Names::default() };
    let mut rules: Vec<Option<Rule>> = Vec::new();
    loop {
        parser.space(true);
        if parser.rest.is_empty() {
            break;
        }
        let line = parser.line;
        let name = parser.name().ok_or_else(|| error(line, "a rule or the end of the line expected"))?;
        let number = parser.names.number(&name);
        parser.space(false);
        if !parser.take("::=") {
            return Err(error(line, "`::=` expected"));
        }
        parser.space(true);
        let body = parser.alternatives(0)?;
        parser.space(false);
        if !(parser.rest.is_empty() || parser.rest.starts_with(['\n', '\r'])) {
            return Err(error(parser.line, "a rule or the end of the line expected"));
        }
        if rules.len() <= number {
            rules.resize(number + 1, None);
        }
        if rules[number].replace(Rule { name: name.clone(), body }).is_some() {
            return Err(error(line, format!("`{name}` is defined twice")));
        }
    }
    let mut known: Vec<(String, usize)> = parser.names.numbers.into_iter().collect();
    known.sort_by_key(|(_, number)| *number);
    rules.resize(known.len(), None);
    let missing = known.iter().find(|(_, number)| rules[*number].is_none());
    if let Some((name, number)) = missing {
        let mut user = None;
        for rule in rules.iter().flatten() {
            each_rule(&rule.body, &mut |used| {
                if used == *number {
                    user = Some(&rule.name);
                }
            });
        }
        let place = user.map_or(String::new(), |user| format!("rule `{user}`: "));
        return Err(super::syntax("gbnf", format!("{place}`{name}` is not defined")));
    }
    let root = known.iter().find(|(name, _)| name == "root");
    let Some(&(_, root)) = root else { return Err(super::syntax("gbnf", "there is no rule `root`")) };
    Ok(Rules { rules: rules.into_iter().flatten().collect(), root })
}

struct Parser<'s> {
    rest: &'s str,
    line: usize,
    names: Names,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            self.rest = &self.rest[text.len()..];
        }
        found
    }

    /// Skips white space and comments, over the ends of lines where that is possible.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\n' | '\r' if lines => {}
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn name(&mut self) -> Option<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn alternatives(&mut self, depth: usize) -> Result<Node, GuidedError> {
        if depth > DEPTH {
            return Err(error(self.line, "groups are nested too deeply"));
        }
        let mut variants = vec![self.sequence(depth)?];
        loop {
            // A line may begin with the bar; a rule cannot.
            let (rest, line) = (self.rest, self.line);
            self.space(true);
            if !self.take("|") {
                (self.rest, self.line) = (rest, line);
                break;
            }
            self.space(true);
            variants.push(self.sequence(depth)?);
        }
        Ok(if variants.len() == 1 { variants.remove(0) } else { Node::Either(variants) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, GuidedError> {
        let mut parts: Vec<Node> = Vec::new();
        loop {
            self.space(depth > 0);
            let line = self.line;
            let part = match self.peek() {
                Some('"') => Node::Text(self.text()?),
                Some('[') => self.class()?,
                Some('.') => {
                    self.next();
                    Node::Any
                }
                Some('(') => {
                    self.next();
                    let group = self.alternatives(depth + 1)?;
                    self.space(true);
                    if !self.take(")") {
                        return Err(error(line, "`)` expected"));
                    }
                    group
                }
                Some('*' | '+' | '?' | '{') => {
                    let Some(part) = parts.pop() else { return Err(error(line, "nothing to repeat")) };
                    let (least, most) = self.repetition()?;
                    Node::Repeat(Box::new(part), least, most)
                }
                Some('<' | '!') => return Err(error(line, "tokens cannot be part of an answer")),
                Some(c) if c.is_ascii_alphanumeric() || c == '_' || c == '-' => {
                    let name = self.name().unwrap_or_default();
                    Node::Rule(self.names.number(&name))
                }
                _ => break,
            };
            parts.push(part);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Sequence(parts) })
    }

    fn text(&mut self) -> Result<String, GuidedError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(error(self.line, "the text does not end in its line")),
                Some('"') => break,
                Some(_) => text.push(self.character()?),
            }
        }
        self.next();
        Ok(text)
    }

    fn class(&mut self) -> Result<Node, GuidedError> {
        self.next();
        let negated = self.take("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(error(self.line, "the class does not end in its line")),
                Some(']') => break,
                Some(_) => {
                    let first = self.character()?;
                    let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
                    let last = if is_range {
                        self.next();
                        self.character()?
                    } else {
                        first
                    };
                    if last < first {
                        return Err(error(self.line, "the range ends before it begins"));
                    }
                    ranges.push((first, last));
                }
            }
        }
        self.next();
        Ok(Node::Class { negated, ranges })
    }

    /// A character of a text or a class.
    fn character(&mut self) -> Result<char, GuidedError> {
        let line = self.line;
        let c = match self.next() {
            Some('\\') => self.next(),
            Some(c) => return Ok(c),
            None => None,
        };
        let digits = match c {
            Some(c @ ('"' | '\\' | '[' | ']' | '^' | '-')) => return Ok(c),
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(error(line, "unknown escape")),
        };
        let code = self.rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        let character = code.and_then(char::from_u32);
        let expected = || error(line, format!("a code point of {digits} hexadecimal digits expected"));
        let character = character.ok_or_else(expected)?;
        self.rest = &self.rest[digits..];
        Ok(character)
    }

    /// The least and the largest number of times.
    fn repetition(&mut self) -> Result<(u32, Option<u32>), GuidedError> {
        match self.next() {
            Some('*') => return Ok((0, None)),
            Some('+') => return Ok((1, None)),
            Some('?') => return Ok((0, Some(1))),
            _ => {}
        }
        let wrong = |line| {
            error(line, format!("the repetition has to be {{n}}, {{n,}} or {{n,m}} with n <= m <= {REPEATS}"))
        };
        let end = self.rest.find('}').ok_or_else(|| wrong(self.line))?;
        let (inside, rest) = self.rest.split_at(end);
        let number = |text: &str| text.trim().parse().ok().filter(|&number| number <= REPEATS);
        let (least, most) = match inside.split_once(',') {
            None => (number(inside), Some(number(inside))),
            Some((least, most)) if most.trim().is_empty() => (number(least), None),
            Some((least, most)) => (number(least), Some(number(most))),
        };
        self.rest = &rest[1..];
        match (least, most) {
            (Some(least), None) => Ok((least, None)),
            (Some(least), Some(Some(most))) if least <= most => Ok((least, Some(most))),
            _ => Err(wrong(self.line)),
        }
    }
}
