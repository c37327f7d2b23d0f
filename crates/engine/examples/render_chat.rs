//! Renders conversations, to look at prompts and to compare them with other implementations.
//!
//! `cargo run -p rawloop-engine --example render_chat [-- TEMPLATE TOKENIZER_JSON] < conversations.jsonl`
//!
//! One JSON object a line: `messages`, and optionally `tools`, `enable_thinking`, `preserve_thinking` and
//! `add_generation_prompt`. One line out for each: the prompt as a JSON string, or `{"error": ...}`. With a template file and a
//! `tokenizer.json` the template renders, without them the built-in renderer does.

use std::io::BufRead;

use rawloop_engine::chat::{ChatTemplate, Message, RenderOptions, Tool, render};
use rawloop_tokenizer::{Tokenizer, bake};

#[derive(serde::Deserialize)]
struct Request {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    enable_thinking: bool,
    #[serde(default)]
    preserve_thinking: bool,
    #[serde(default = "yes")]
    add_generation_prompt: bool,
}

fn yes() -> bool {
    true
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let template = match arguments.as_slice() {
        [] => None,
        [template, tokenizer, ..] => {
            let tokenizer = Tokenizer::load(bake(&std::fs::read(tokenizer)?)?)?;
            Some(ChatTemplate::new(&std::fs::read_to_string(template)?, &tokenizer)?)
        }
        [_] => return Err("a template needs a tokenizer.json beside it".into()),
    };
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let tools = request.tools.unwrap_or_default();
        let options = RenderOptions {
            enable_thinking: request.enable_thinking,
            preserve_thinking: request.preserve_thinking,
            add_generation_prompt: request.add_generation_prompt,
            tools: &tools,
            special_tokens: false,
        };
        let rendered = match &template {
            Some(template) => template.render(&options, &request.messages),
            None => render(&options, &request.messages),
        };
        match rendered {
            Ok(rendered) => println!("{}", serde_json::to_string(rendered.as_str())?),
            Err(error) => println!("{}", serde_json::json!({ "error": error.to_string() })),
        }
    }
    Ok(())
}
