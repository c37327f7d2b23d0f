//! Rust functions as tools.
//!
//! [`function()`] makes a tool of a closure: the schema of its arguments is derived from their type, what comes in is parsed
//! into it, what goes out is serialised. A call that fails is a result that says so, since the model can mend its call and a
//! person can read it; it is never an error of the conversation.

use std::fmt::Display;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::chat::{Function, Tool};
use crate::guided::schema_of;

/// Why a call gave no result. The text goes to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// There is no such tool.
    #[error("there is no tool `{name}`; the tools are: {known}")]
    Unknown {
        /// The name that was called.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The arguments are not what the tool takes.
    #[error("the arguments do not fit: {0}")]
    Arguments(String),
    /// The tool itself failed.
    #[error("{0}")]
    Failed(String),
}

/// Something a model can call.
pub trait ToolFunction: Send + Sync {
    /// Name, description and schema.
    fn declaration(&self) -> Tool;

    /// Runs a call.
    ///
    /// # Errors
    /// Arguments that do not fit, or whatever failed.
    fn call(&self, arguments: Map<String, Value>) -> Result<Value, ToolError>;

    /// Whether calls may run while other calls of the same answer do: those that change nothing, mostly.
    fn is_concurrent(&self) -> bool {
        false
    }
}

impl<T: ToolFunction + ?Sized> ToolFunction for std::sync::Arc<T> {
    fn declaration(&self) -> Tool {
        (**self).declaration()
    }

    fn call(&self, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        (**self).call(arguments)
    }

    fn is_concurrent(&self) -> bool {
        (**self).is_concurrent()
    }
}

/// The same tool, whose calls may run while other calls of the same answer do.
pub fn concurrent(tool: impl ToolFunction) -> impl ToolFunction {
    Concurrent(tool)
}

struct Concurrent<T>(T);

impl<T: ToolFunction> ToolFunction for Concurrent<T> {
    fn declaration(&self) -> Tool {
        self.0.declaration()
    }

    fn call(&self, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        self.0.call(arguments)
    }

    fn is_concurrent(&self) -> bool {
        true
    }
}

/// A tool that runs a closure. The arguments are a struct; its doc comments describe the parameters.
///
/// ```
/// # use rawloop_engine::tools::{ToolFunction, function};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Weather {
///     /// A city's name.
///     city: String,
/// }
///
/// let weather = function("get_weather", "The weather in a city.", |arguments: Weather| {
///     Ok::<_, std::io::Error>(format!("rain in {}", arguments.city))
/// });
/// let arguments = serde_json::json!({ "city": "Oslo" }).as_object().unwrap().clone();
/// assert_eq!(weather.call(arguments).unwrap(), "rain in Oslo");
/// ```
pub fn function<A, R, E, F>(name: &str, description: &str, run: F) -> impl ToolFunction + use<A, R, E, F>
where
    A: JsonSchema + DeserializeOwned + 'static,
    R: Serialize + 'static,
    E: Display + 'static,
    F: Fn(A) -> Result<R, E> + Send + Sync + 'static,
{
    let declaration = Tool {
        kind: "function".into(),
        function: Function {
            name: name.into(),
            description: Some(description.into()),
            parameters: Some(parameters::<A>()),
            response: None,
            strict: Some(true),
        },
    };
    Closure { declaration, run, types: PhantomData }
}

/// The schema of the arguments, without what says nothing to a model.
fn parameters<A: JsonSchema>() -> Value {
    let mut schema = schema_of::<A>();
    if let Value::Object(fields) = &mut schema {
        fields.retain(|key, _| key != "$schema" && key != "title" && key != "description");
        if fields.get("type").is_some_and(|kind| kind == "null") {
            // `()` takes nothing.
            return json!({ "type": "object", "properties": {} });
        }
    }
    schema
}

struct Closure<A, R, E, F> {
    declaration: Tool,
    run: F,
    types: PhantomData<fn(A) -> Result<R, E>>,
}

impl<A, R, E, F> ToolFunction for Closure<A, R, E, F>
where
    A: DeserializeOwned,
    R: Serialize,
    E: Display,
    F: Fn(A) -> Result<R, E> + Send + Sync,
{
    fn declaration(&self) -> Tool {
        self.declaration.clone()
    }

    fn call(&self, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        let takes_nothing = arguments.is_empty()
            && self
                .declaration
                .function
                .parameters
                .as_ref()
                .is_some_and(|schema| schema["properties"] == json!({}));
        let parsed = match serde_json::from_value(Value::Object(arguments)) {
            Ok(parsed) => parsed,
            Err(_) if takes_nothing && serde_json::from_value::<A>(Value::Null).is_ok() => {
                serde_json::from_value(Value::Null)
                    .map_err(|error| ToolError::Arguments(error.to_string()))?
            }
            Err(error) => return Err(ToolError::Arguments(error.to_string())),
        };
        let result = (self.run)(parsed).map_err(|error| ToolError::Failed(error.to_string()))?;
        serde_json::to_value(result).map_err(|error| ToolError::Failed(error.to_string()))
    }
}

/// Tools by name.
#[derive(Default)]
pub struct Toolbox {
    tools: Vec<(Tool, Box<dyn ToolFunction>)>,
}

impl Toolbox {
    /// No tools.
    pub fn new() -> Toolbox {
        Toolbox::default()
    }

    /// Adds a tool; one of the same name is replaced.
    pub fn with(mut self, tool: impl ToolFunction + 'static) -> Toolbox {
        let declaration = tool.declaration();
        self.tools.retain(|(known, _)| known.function.name != declaration.function.name);
        self.tools.push((declaration, Box::new(tool)));
        self
    }

    /// What to declare.
    pub fn declarations(&self) -> Vec<Tool> {
        self.tools.iter().map(|(declaration, _)| declaration.clone()).collect()
    }

    /// Whether calls of a tool may run while others do. An unknown name runs nothing.
    pub fn is_concurrent(&self, name: &str) -> bool {
        self.find(name).is_none_or(ToolFunction::is_concurrent)
    }

    fn find(&self, name: &str) -> Option<&dyn ToolFunction> {
        let tool = self.tools.iter().find(|(declaration, _)| declaration.function.name == name);
        tool.map(|(_, tool)| tool.as_ref())
    }

    /// Runs a call.
    ///
    /// # Errors
    /// An unknown name, arguments that do not fit, or the tool's own failure.
    pub fn call(&self, name: &str, arguments: Map<String, Value>) -> Result<Value, ToolError> {
        match self.find(name) {
            Some(tool) => tool.call(arguments),
            None => {
                let known: Vec<&str> =
                    self.tools.iter().map(|(tool, _)| tool.function.name.as_str()).collect();
                Err(ToolError::Unknown { name: name.into(), known: known.join(", ") })
            }
        }
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|(tool, _)| &tool.function.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// Ignored: the tool's own description says it.
    #[derive(Deserialize, JsonSchema)]
    struct Alarm {
        /// Hour of the day.
        hour: u8,
        label: Option<String>,
    }

    fn toolbox() -> Toolbox {
        let set = |alarm: Alarm| match alarm.hour {
            0..24 => Ok(json!({ "set": alarm.hour, "label": alarm.label })),
            hour => Err(format!("there is no hour {hour}")),
        };
        Toolbox::new().with(function("set_alarm", "Sets an alarm.", set)).with(function(
            "now",
            "The time.",
            |(): ()| Ok::<_, String>("12:00"),
        ))
    }

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_closure_becomes_a_declared_tool() {
        let declarations = toolbox().declarations();
        let alarm = &declarations[0].function;
        let parameters = alarm.parameters.as_ref().unwrap();
        assert_eq!(alarm.name, "set_alarm");
        assert_eq!(parameters["type"], "object");
        assert_eq!(parameters["required"], json!(["hour"]));
        assert_eq!(parameters["additionalProperties"], false);
        assert_eq!(parameters["properties"]["hour"]["description"], "Hour of the day.");
        assert!(parameters.get("title").is_none() && parameters.get("description").is_none());
        assert_eq!(declarations[1].function.parameters, Some(json!({ "type": "object", "properties": {} })));
    }

    #[test]
    fn calls_run_and_failures_say_why() {
        let toolbox = toolbox();
        let result = toolbox.call("set_alarm", arguments(json!({ "hour": 7, "label": null })));
        assert_eq!(result.unwrap(), json!({ "set": 7, "label": null }));
        assert_eq!(toolbox.call("now", Map::new()).unwrap(), "12:00");
        let error = toolbox.call("set_alarm", arguments(json!({ "hour": 30 }))).unwrap_err();
        assert_eq!(error, ToolError::Failed("there is no hour 30".into()));
        let error = toolbox.call("set_alarm", arguments(json!({ "hour": "seven" }))).unwrap_err();
        assert!(matches!(error, ToolError::Arguments(ref text) if text.contains("seven")), "{error}");
        let error = toolbox.call("setAlarm", Map::new()).unwrap_err();
        assert_eq!(error.to_string(), "there is no tool `setAlarm`; the tools are: set_alarm, now");
    }

    #[test]
    fn the_last_tool_of_a_name_counts() {
        let toolbox = toolbox().with(function("now", "Later.", |(): ()| Ok::<_, String>("13:00")));
        assert_eq!(toolbox.declarations().len(), 2);
        assert_eq!(toolbox.call("now", Map::new()).unwrap(), "13:00");
    }
}
