//! The Rust client `async-openai` against the real server: what it reads is what the server says.

mod support;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionNamedToolChoice, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionStreamOptions, ChatCompletionTool,
    ChatCompletionToolChoiceOption, ChatCompletionTools, CreateChatCompletionRequest,
    CreateChatCompletionRequestArgs, FinishReason, FunctionName, FunctionObject, ResponseFormat,
    ResponseFormatJsonSchema,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use support::Running;

const KEY: &str = "a-key-of-this-test";

fn started() -> (Running, Client<OpenAIConfig>) {
    let server = Running::start(|options| options.keys = vec![KEY.into()]);
    let config = OpenAIConfig::new().with_api_base(server.url("/v1")).with_api_key(KEY);
    (server, Client::with_config(config))
}

fn ask(text: &str) -> CreateChatCompletionRequest {
    let message = ChatCompletionRequestUserMessage::from(text);
    let mut request = CreateChatCompletionRequestArgs::default();
    request.model("tiny").messages(vec![message.into()]).max_completion_tokens(60_u32).temperature(0.0);
    request.build().unwrap()
}

fn add() -> ChatCompletionTools {
    let number = json!({ "type": "integer", "minimum": 0, "maximum": 9 });
    let parameters =
        json!({ "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] });
    let function = FunctionObject {
        name: "add".into(),
        description: Some("Adds.".into()),
        parameters: Some(parameters),
        strict: None,
    };
    ChatCompletionTools::Function(ChatCompletionTool { function })
}

#[tokio::test]
async fn a_chat_whole_and_as_a_stream() {
    let (_server, client) = started();
    let whole = client.chat().create(ask("Hello!")).await.unwrap();
    let text = whole.choices[0].message.content.clone().unwrap();
    assert!(!text.is_empty());
    let usage = whole.usage.unwrap();
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);

    let mut request = ask("Hello!");
    request.stream_options =
        Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
    let mut stream = client.chat().create_stream(request).await.unwrap();
    let (mut streamed, mut finish, mut counted) = (String::new(), None, None);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.unwrap();
        for choice in &chunk.choices {
            streamed += choice.delta.content.as_deref().unwrap_or_default();
            finish = choice.finish_reason.or(finish);
        }
        counted = chunk.usage.or(counted);
    }
    assert_eq!((streamed, finish), (text, whole.choices[0].finish_reason));
    assert_eq!(counted.unwrap().completion_tokens, usage.completion_tokens);
}

#[tokio::test]
async fn tools_are_called_and_their_results_read() {
    let (_server, client) = started();
    let mut request = ask("What is 2 + 3?");
    request.tools = Some(vec![add()]);
    request.parallel_tool_calls = Some(false);
    let named = ChatCompletionNamedToolChoice { function: FunctionName { name: "add".into() } };
    request.tool_choice = Some(ChatCompletionToolChoiceOption::Function(named));
    let answer = client.chat().create(request.clone()).await.unwrap();
    let choice = &answer.choices[0];
    assert_eq!(choice.finish_reason, Some(FinishReason::ToolCalls));
    let calls = choice.message.tool_calls.clone().unwrap();
    let [ChatCompletionMessageToolCalls::Function(call)] = &calls[..] else { panic!("{calls:?}") };
    let arguments: Value = serde_json::from_str(&call.function.arguments).unwrap();
    assert!(call.function.name == "add" && arguments["a"].is_u64() && arguments["b"].is_u64());

    let mut stream = client.chat().create_stream(request.clone()).await.unwrap();
    let (mut name, mut streamed) = (String::new(), String::new());
    while let Some(chunk) = stream.next().await {
        for choice in chunk.unwrap().choices {
            for part in choice.delta.tool_calls.into_iter().flatten() {
                let function = part.function.unwrap();
                name += function.name.as_deref().unwrap_or_default();
                streamed += function.arguments.as_deref().unwrap_or_default();
            }
        }
    }
    assert_eq!((name.as_str(), &streamed), ("add", &call.function.arguments));

    // The call and its result go back as the client writes them, and the model answers.
    let said = json!({ "role": "assistant", "tool_calls": calls });
    request.messages.push(serde_json::from_value(said).unwrap());
    let result = json!({ "tool_call_id": call.id, "content": "5" });
    let result: ChatCompletionRequestToolMessage = serde_json::from_value(result).unwrap();
    request.messages.push(result.into());
    request.tool_choice = None;
    let answer = client.chat().create(request).await.unwrap();
    assert!(answer.choices[0].finish_reason.is_some());
}

#[tokio::test]
async fn a_schema_is_followed_and_errors_are_read() {
    let (server, client) = started();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 0, "maximum": 9 } },
        "required": ["n"], "additionalProperties": false });
    let mut request = ask("A number, please.");
    request.response_format = Some(ResponseFormat::JsonSchema {
        json_schema: ResponseFormatJsonSchema {
            description: None,
            name: "number".into(),
            schema: schema.clone(),
            strict: Some(true),
        },
    });
    let answer = client.chat().create(request).await.unwrap();
    let value: Value = serde_json::from_str(answer.choices[0].message.content.as_deref().unwrap()).unwrap();
    assert!(jsonschema::is_valid(&schema, &value), "{value}");

    let mut request = ask("x");
    request.model = "another".into();
    let error = client.chat().create(request).await.unwrap_err();
    let OpenAIError::ApiError(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains("another"), "{error}");
    let config = OpenAIConfig::new().with_api_base(server.url("/v1")).with_api_key("wrong");
    let error = Client::with_config(config).chat().create(ask("x")).await.unwrap_err();
    assert!(error.to_string().contains("key"), "{error}");
}
