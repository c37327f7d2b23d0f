//! Values of any schema, as rules of Lark.
//!
//! Each schema that is not a word becomes a rule; a reference becomes the rule of its target, once, so that recursive schemas
//! are recursive rules. Values without a schema nest at most [`ANY_DEPTH`] deep, and every number has a bounded number of
//! digits: what is written can be read.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::chat::{ControlTokens, Function};
use crate::guided::{GuidedError, literal, reference_target, rewrite_schema};

/// Schemas inside of schemas, references not counted.
const DEPTH: usize = 32;
/// Rules of all tools together.
const RULES: usize = 6000;
/// Lists and objects in a value that no schema describes.
const ANY_DEPTH: usize = 4;
/// A number beyond this has neighbours that it cannot be told from; it closes a range that is open at one end.
const EXACT: i64 = 9_000_000_000_000_000;

const INTEGER: &str = "/0|-?[1-9][0-9]{0,18}/";
const NUMBER: &str = r"/-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?/";

/// Writes the rules of several tools.
pub(super) struct Writer {
    rules: String,
    count: usize,
    /// The token around strings.
    pub delimiter: String,
    /// Rules of references, by the tool's number and pointer.
    references: HashMap<(usize, String), String>,
    /// Whether the rules for values without a schema have been written.
    any: bool,
    /// Terminals that are written once.
    terminals: HashSet<String>,
    /// Of the tool at hand.
    tool: usize,
    name: String,
    strict: bool,
    root: Value,
    left_out: Vec<String>,
}

impl Writer {
    pub fn new(control: &ControlTokens) -> Writer {
        Writer {
            rules: String::new(),
            count: 0,
            delimiter: format!("<[{}]>", control.delimiter),
            references: HashMap::new(),
            any: false,
            terminals: HashSet::new(),
            tool: 0,
            name: String::new(),
            strict: false,
            root: Value::Null,
            left_out: Vec::new(),
        }
    }

    pub fn finish(self) -> (String, Vec<String>) {
        (self.rules, self.left_out)
    }

    /// The arguments of a tool, brackets included.
    pub fn arguments(&mut self, function: &Function) -> Result<String, GuidedError> {
        self.tool += 1;
        self.name.clone_from(&function.name);
        self.strict = function.strict == Some(true);
        self.root = function.parameters.clone().unwrap_or(Value::Null);
        let root = self.root.clone();
        let fields = match &root {
            Value::Object(fields) if !fields.is_empty() => fields,
            Value::Null | Value::Object(_) | Value::Bool(_) => return Ok("\"{}\"".into()),
            _ => return Err(self.problem("its parameters are no JSON schema")),
        };
        let variants =
            fields.contains_key("$ref") || fields.contains_key("anyOf") || fields.contains_key("oneOf");
        if variants {
            return self.value(&root, "#", 0);
        }
        // Whatever the type says, arguments are an object; one that names nothing takes nothing.
        let named =
            fields.get("properties").and_then(Value::as_object).is_some_and(|names| !names.is_empty());
        if named || fields.get("additionalProperties").is_some_and(|other| other != &Value::Bool(false)) {
            self.object(fields, "#", 0)
        } else {
            Ok("\"{}\"".into())
        }
    }

    /// Adds a rule, or a terminal where the body is one, and gives its name.
    pub fn rule(&mut self, prefix: &str, body: &str) -> Result<String, GuidedError> {
        let name = self.reserve(prefix)?;
        self.define(&name, body);
        Ok(name)
    }

    pub fn reserve(&mut self, prefix: &str) -> Result<String, GuidedError> {
        self.count += 1;
        if self.count > RULES {
            return Err(GuidedError::Limit { what: "rules of all tools", found: self.count, limit: RULES });
        }
        Ok(format!("{prefix}{}", self.count))
    }

    pub fn define(&mut self, name: &str, body: &str) {
        self.rules.push_str(&format!("{name}: {body}\n"));
    }

    pub fn is_strict(&self) -> bool {
        self.strict
    }

    pub fn problem(&self, problem: impl Into<String>) -> GuidedError {
        GuidedError::Tool { tool: self.name.clone(), problem: problem.into() }
    }

    /// A keyword that has no grammar: an error for a strict tool, a note for others.
    pub fn leave_out(&mut self, keyword: &str, path: &str) -> Result<(), GuidedError> {
        let problem = format!("the schema keyword `{keyword}` at {path} cannot be kept by a grammar");
        if self.strict {
            return Err(self.problem(format!("{problem}; leave it out, or do without `strict`")));
        }
        self.left_out.push(format!("tool `{}`: {problem}", self.name));
        Ok(())
    }

    /// A value under a schema: one part of a rule.
    pub fn value(&mut self, schema: &Value, path: &str, depth: usize) -> Result<String, GuidedError> {
        if depth > DEPTH {
            return Err(GuidedError::Limit { what: "nested schemas of a tool", found: depth, limit: DEPTH });
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(true) => return self.any(),
            _ => return Err(self.problem(format!("the schema at {path} allows nothing, or is none"))),
        };
        if let Some(reference) = fields.get("$ref") {
            return self.reference(reference, path, depth);
        }
        for keyword in [
            "allOf",
            "not",
            "if",
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
            "propertyNames",
        ] {
            if fields.contains_key(keyword) {
                self.leave_out(keyword, path)?;
            }
        }
        let mut variants = Vec::new();
        if let Some(Value::Array(schemas)) = fields.get("anyOf").or(fields.get("oneOf")) {
            for (place, schema) in schemas.iter().enumerate() {
                variants.push(self.value(schema, &format!("{path}/anyOf/{place}"), depth + 1)?);
            }
        } else if let Some(value) = fields.get("const") {
            variants.push(self.literal(value, path, depth)?);
        } else if let Some(Value::Array(values)) = fields.get("enum") {
            variants.extend(self.listed(values, path, depth)?);
        } else {
            for kind in kinds(fields) {
                variants.push(self.kind(kind, fields, path, depth)?);
            }
        }
        if fields.get("nullable") == Some(&Value::Bool(true))
            && !variants.iter().any(|variant| variant == "\"null\"")
        {
            variants.push("\"null\"".into());
        }
        match variants.len() {
            0 => Err(self.problem(format!("no value fits the schema at {path}"))),
            1 => Ok(variants.remove(0)),
            _ => self.rule("v", &variants.join(" | ")),
        }
    }

    fn kind(
        &mut self,
        kind: &str,
        fields: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<String, GuidedError> {
        match kind {
            "null" => Ok("\"null\"".into()),
            "boolean" => Ok("(\"true\" | \"false\")".into()),
            "integer" | "number" => self.number(kind, fields, path),
            "string" => self.text(fields, path),
            "array" => self.list(fields, path, depth),
            "object" => self.object(fields, path, depth),
            "any" => self.any(),
            other => Err(self.problem(format!("the type {other:?} at {path} is none of JSON's"))),
        }
    }

    fn reference(&mut self, reference: &Value, path: &str, depth: usize) -> Result<String, GuidedError> {
        let pointer = reference.as_str().unwrap_or_default();
        let key = (self.tool, pointer.to_owned());
        if let Some(rule) = self.references.get(&key) {
            return Ok(rule.clone());
        }
        let Some(target) = reference_target(&self.root, pointer).ok().cloned() else {
            // From elsewhere, by anchor, or to nowhere.
            self.leave_out("$ref", path)?;
            return self.any();
        };
        let rule = self.reserve("v")?;
        self.references.insert(key, rule.clone());
        let body = self.value(&target, pointer, depth.min(DEPTH / 2))?;
        self.define(&rule, &body);
        Ok(rule)
    }

    /// The values of an `enum`; texts together, so that they share their beginnings.
    fn listed(&mut self, values: &[Value], path: &str, depth: usize) -> Result<Vec<String>, GuidedError> {
        let texts: Vec<String> = values.iter().filter_map(Value::as_str).map(literal).collect();
        let mut variants = Vec::new();
        if !texts.is_empty() {
            let terminal = self.rule("T", &texts.join(" | "))?;
            variants.push(format!("({0} {terminal} {0})", self.delimiter));
        }
        for value in values.iter().filter(|value| !value.is_string()) {
            variants.push(self.literal(value, path, depth)?);
        }
        Ok(variants)
    }

    /// A value as it is written.
    pub fn literal(&mut self, value: &Value, path: &str, depth: usize) -> Result<String, GuidedError> {
        if depth > DEPTH {
            return Err(GuidedError::Limit { what: "nested schemas of a tool", found: depth, limit: DEPTH });
        }
        Ok(match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => literal(&value.to_string()),
            Value::String(text) => format!("({0} {1} {0})", self.delimiter, literal(text)),
            Value::Array(values) => {
                let parts = values.iter().map(|value| self.literal(value, path, depth + 1));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                format!("(\"[\" {} \"]\")", parts.join(" \",\" "))
            }
            Value::Object(fields) => {
                let mut parts = Vec::new();
                for (place, (key, value)) in super::object::sorted(fields).into_iter().enumerate() {
                    let key = self.key(key, place > 0, path)?;
                    parts.push(format!("{key} {}", self.literal(value, path, depth + 1)?));
                }
                format!("(\"{{\" {} \"}}\")", parts.join(" "))
            }
        })
    }

    fn number(&mut self, kind: &str, fields: &Map<String, Value>, path: &str) -> Result<String, GuidedError> {
        let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
        let mut schema: Map<String, Value> =
            bounds.iter().filter_map(|&key| Some((key.to_owned(), fields.get(key)?.clone()))).collect();
        if schema.is_empty() {
            let (name, body) = if kind == "integer" { ("INTEGER", INTEGER) } else { ("NUMBER", NUMBER) };
            return Ok(self.shared(name, body));
        }
        schema.insert("type".into(), kind.into());
        // With both ends closed no number has an exponent or more digits than can be read.
        for (key, open, edge) in
            [("minimum", "exclusiveMinimum", -EXACT), ("maximum", "exclusiveMaximum", EXACT)]
        {
            if !schema.contains_key(key) && !schema.get(open).is_some_and(Value::is_number) {
                schema.insert(key.into(), json!(edge));
            }
        }
        match rewrite_schema(&Value::Object(schema), None) {
            Ok(schema) => self.rule("n", &format!("%json {schema}")),
            Err(error) if self.strict => Err(self.problem(format!("at {path}: {error}"))),
            Err(_) => {
                self.leave_out("minimum", path)?;
                self.number(kind, &Map::new(), path)
            }
        }
    }

    fn list(&mut self, fields: &Map<String, Value>, path: &str, depth: usize) -> Result<String, GuidedError> {
        for keyword in ["contains", "uniqueItems"] {
            if fields.get(keyword).is_some_and(|value| value != &Value::Bool(false)) {
                self.leave_out(keyword, path)?;
            }
        }
        let count =
            |key: &str| fields.get(key).and_then(Value::as_f64).map(|count| count.clamp(0.0, 1e6) as usize);
        let least = count("minItems").unwrap_or(0);
        let most = count("maxItems");
        // A list of schemas is the older form of `prefixItems`.
        let (first, items) = match (fields.get("prefixItems"), fields.get("items")) {
            (Some(Value::Array(first)), items) => (first.as_slice(), items),
            (_, Some(Value::Array(first))) => (first.as_slice(), fields.get("additionalItems")),
            (_, items) => (&[][..], items),
        };
        let closed = items == Some(&Value::Bool(false));
        let most = if closed { Some(most.map_or(first.len(), |most| most.min(first.len()))) } else { most };
        if most.is_some_and(|most| most < least) {
            return Err(
                self.problem(format!("no list fits the schema at {path}: minItems is above maxItems"))
            );
        }
        let mut parts = Vec::new();
        for (place, schema) in first.iter().enumerate().take(most.unwrap_or(usize::MAX)) {
            parts.push(self.value(schema, &format!("{path}/prefixItems/{place}"), depth + 1)?);
        }
        // What follows the first ones, and then, from the last to the first, each with what follows it.
        let placed = parts.len();
        let mut rest = String::new();
        if most.is_none_or(|most| most > placed) {
            let item = match items {
                Some(schema) => self.value(schema, &format!("{path}/items"), depth + 1)?,
                None => self.any()?,
            };
            let more = |from: usize| {
                let least = least.saturating_sub(from);
                times(&format!("(\",\" {item})"), least, most.map(|most| most - from))
            };
            rest = if placed > 0 {
                more(placed)
            } else if least == 0 {
                format!("({item} {})?", more(1))
            } else {
                format!("{item} {}", more(1))
            };
        }
        for (place, part) in parts.iter().enumerate().rev() {
            let comma = if place > 0 { "\",\" " } else { "" };
            rest = if place < least {
                format!("{comma}{part} {rest}")
            } else {
                format!("({comma}{part} {rest})?")
            };
            // Nested groups have a limit; rules do not.
            rest = self.rule("l", &rest)?;
        }
        self.rule("l", &format!("\"[\" {rest} \"]\""))
    }

    /// A value that no schema describes.
    pub fn any(&mut self) -> Result<String, GuidedError> {
        if !std::mem::replace(&mut self.any, true) {
            let number = self.shared("NUMBER", NUMBER);
            let text = self.free_text();
            let key = self.free_key();
            self.define("any0", &format!("\"null\" | \"true\" | \"false\" | {number} | {text}"));
            for depth in 1..=ANY_DEPTH {
                let inner = format!("any{}", depth - 1);
                let list = format!("\"[\" ({inner} (\",\" {inner})*)? \"]\"");
                let pair = format!("{key} \":\" {inner}");
                let object = format!("\"{{\" ({pair} (\",\" {pair})*)? \"}}\"");
                self.define(&format!("any{depth}"), &format!("any0 | {list} | {object}"));
            }
        }
        Ok(format!("any{ANY_DEPTH}"))
    }

    /// A terminal that is written once.
    pub fn shared(&mut self, name: &str, body: &str) -> String {
        if self.terminals.insert(name.to_owned()) {
            self.define(name, body);
        }
        name.to_owned()
    }
}

/// A part so many times.
fn times(part: &str, least: usize, most: Option<usize>) -> String {
    match most {
        Some(0) => String::new(),
        Some(most) => format!("{part}{{{least},{most}}}"),
        None if least == 0 => format!("{part}*"),
        None => format!("{part}{{{least}}} {part}*"),
    }
}

/// The types that a schema allows; without any, the one that its other keywords speak of.
fn kinds(fields: &Map<String, Value>) -> Vec<&str> {
    let has = |keys: &[&str]| keys.iter().any(|&key| fields.contains_key(key));
    match fields.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if has(&["properties", "additionalProperties", "required", "patternProperties"]) => vec!["object"],
        _ if has(&["items", "prefixItems", "minItems", "maxItems"]) => vec!["array"],
        _ if has(&["pattern", "minLength", "maxLength", "format"]) => vec!["string"],
        _ if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) => {
            vec!["number"]
        }
        _ => vec!["any"],
    }
}
