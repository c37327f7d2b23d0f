//! Every keyword of JSON schema, and what becomes of it.

use serde_json::Value;

/// What a keyword holds.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// Says nothing about valid values.
    Dropped,
    /// Has no grammar, unless its value makes it say nothing.
    Refused {
        reason: &'static str,
        harmless: fn(&Value) -> bool,
    },
    Type,
    Values,
    Constant,
    Number {
        round: Round,
    },
    Multiple,
    Count,
    Names,
    Pattern,
    Format,
    Schema,
    SchemaOrSchemas,
    Schemas,
    OneOf,
    NamedSchemas,
    PatternSchemas,
    Reference,
}

/// Which bound a number is.
#[derive(Clone, Copy)]
pub(super) enum Round {
    Lower,
    Upper,
}

/// Formats that are followed. The others of the standard are annotations.
pub(super) const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

const COUNT_UP: &str = "a grammar cannot compare elements with each other";
const CONDITION: &str =
    "a grammar cannot look at two places of a value; use `anyOf` with one schema for each case";
const NEGATION: &str = "what is excluded has no grammar; list what is allowed with `enum` or `anyOf`";
const ANCHOR: &str = "only references by JSON pointer are followed (`#/$defs/name`)";

fn never(_: &Value) -> bool {
    false
}

fn is_false(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn is_open(value: &Value) -> bool {
    value == &Value::Bool(true) || is_empty(value)
}

/// What becomes of a keyword. One that the standard does not have says nothing.
pub(super) fn use_of(keyword: &str) -> Use {
    let refused = |reason| Use::Refused { reason, harmless: never };
    match keyword {
        "type" => Use::Type,
        "enum" => Use::Values,
        "const" => Use::Constant,
        "minimum" | "exclusiveMinimum" => Use::Number { round: Round::Lower },
        "maximum" | "exclusiveMaximum" => Use::Number { round: Round::Upper },
        "multipleOf" => Use::Multiple,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => Use::Count,
        "required" => Use::Names,
        "pattern" => Use::Pattern,
        "format" => Use::Format,
        "additionalProperties" | "additionalItems" => Use::Schema,
        "items" => Use::SchemaOrSchemas,
        "prefixItems" | "anyOf" | "allOf" => Use::Schemas,
        "oneOf" => Use::OneOf,
        "properties" => Use::NamedSchemas,
        "patternProperties" => Use::PatternSchemas,
        "$ref" => Use::Reference,

        "uniqueItems" => Use::Refused { reason: COUNT_UP, harmless: is_false },
        "contains" | "minContains" | "maxContains" => refused(COUNT_UP),
        "not" => refused(NEGATION),
        "if" | "then" | "else" => refused(CONDITION),
        "dependentRequired" | "dependentSchemas" | "dependencies" => {
            Use::Refused { reason: CONDITION, harmless: is_empty }
        }
        "propertyNames" => Use::Refused {
            reason: "use `patternProperties` with `additionalProperties: false`",
            harmless: is_open,
        },
        "unevaluatedProperties" => Use::Refused {
            reason: "use `additionalProperties`, in each variant of a union",
            harmless: is_open,
        },
        "unevaluatedItems" => Use::Refused { reason: "use `items`", harmless: is_open },
        "$dynamicRef" | "$recursiveRef" => refused(ANCHOR),
        _ => Use::Dropped,
    }
}
