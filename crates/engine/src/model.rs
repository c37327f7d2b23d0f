//! What a session needs of a pack besides the weights: tokenizer, stop ids, generation defaults; and the checks that a pack
//! which is not what it says fails at load and not in the middle of a conversation.
//!
//! Gemma 4's control tokens have fixed ids. A tokenizer that was exported badly splits or renames them, and the model then
//! rambles instead of answering; so each is looked up, and a test prompt, rendered as a user's would be, is compared id by
//! id. The prompt format is the checkpoint's own template where the pack holds one, else the built-in renderer.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use rawloop_pack::{Generation, Pack};
use rawloop_tokenizer::Tokenizer;

use crate::EngineError;
use crate::backend::Backend;
use crate::chat::{self, ChatError, ChatTemplate, ControlTokens, Message, RenderOptions, Rendered, Role};
use crate::sample::SamplingOptions;
use crate::session::Session;

/// Tokens in the vocabulary of the released models.
const RELEASED_VOCAB: usize = 262_144;

/// Control tokens of text and the ids they were trained with.
pub const CONTROL_TOKENS: [(&str, u32); 15] = [
    ("<eos>", 1),
    ("<bos>", 2),
    ("<|tool>", 46),
    ("<tool|>", 47),
    ("<|tool_call>", 48),
    ("<tool_call|>", 49),
    ("<|tool_response>", 50),
    ("<tool_response|>", 51),
    ("<|\"|>", 52),
    ("<|think|>", 98),
    ("<|channel>", 100),
    ("<channel|>", 101),
    ("<|turn>", 105),
    ("<turn|>", 106),
    ("<pad>", 0),
];

const TEST_QUESTION: &str = "Why is the sky blue?";
/// The rendered question in the released vocabulary.
const TEST_IDS: [u32; 15] =
    [2, 105, 2364, 107, 11355, 563, 506, 7217, 3730, 236881, 106, 107, 105, 4368, 107];

/// A pack with its tokenizer. Cheap to share, holds no weights of its own.
pub struct Model {
    pack: Arc<Pack>,
    tokenizer: Tokenizer,
    control: ControlTokens,
    /// The checkpoint's own template.
    template: Option<ChatTemplate>,
}

/// Bytes of a blob that keep the pack alive.
struct Blob(Arc<Pack>, &'static str);

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self.0.blob(self.1).unwrap_or_default()
    }
}

impl Model {
    /// Loads the tokenizer in place and checks that it is Gemma's.
    ///
    /// # Errors
    /// No tokenizer, a damaged one, one of another model, a control token or a test prompt with other ids.
    pub fn open(pack: Arc<Pack>) -> Result<Model, EngineError> {
        let label = || pack.label().to_string();
        if pack.blob(rawloop_pack::TOKENIZER).is_none() {
            return Err(EngineError::NoTokenizer { pack: label() });
        }
        let bytes = Bytes::from_owner(Blob(Arc::clone(&pack), rawloop_pack::TOKENIZER));
        let tokenizer =
            Tokenizer::load(bytes).map_err(|source| EngineError::Tokenizer { pack: label(), source })?;
        let (tokens, vocab) = (tokenizer.vocab_size() as usize, pack.geometry().vocab);
        if tokens > vocab {
            return Err(EngineError::Vocabulary { pack: label(), tokenizer: tokens, model: vocab });
        }
        check_control_tokens(&tokenizer, pack.label())?;
        let control = ControlTokens::find(&tokenizer)?;
        let template = match pack.blob(rawloop_pack::CHAT_TEMPLATE).map(std::str::from_utf8) {
            None => None,
            Some(Ok(source)) => Some(ChatTemplate::new(source, &tokenizer)?),
            Some(Err(error)) => return Err(ChatError::Template(error.to_string()).into()),
        };
        let released = vocab == RELEASED_VOCAB && !pack.manifest().model.synthetic;
        let model = Model { pack, tokenizer, control, template };
        let question = model.render(&RenderOptions::default(), &[Message::new(Role::User, TEST_QUESTION)])?;
        check_test_prompt(&model.tokenizer, &question, released, model.pack.label())?;
        Ok(model)
    }

    /// The pack.
    pub fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The ids of the chat format's control tokens.
    pub fn control(&self) -> &ControlTokens {
        &self.control
    }

    /// Renders a conversation in the model's own format.
    ///
    /// # Errors
    /// What in the conversation, or in the checkpoint's template, cannot be rendered.
    pub fn render(&self, options: &RenderOptions<'_>, messages: &[Message]) -> Result<Rendered, ChatError> {
        let rendered = match &self.template {
            Some(template) => template.render(options, messages),
            None => chat::render(options, messages),
        }?;
        Ok(if options.special_tokens { rendered.with_special_tokens() } else { rendered })
    }

    /// Whether prompts are rendered by the checkpoint's own template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// What the checkpoint says about generation.
    pub fn generation(&self) -> &Generation {
        &self.pack.manifest().generation
    }

    /// Tokens that end an answer.
    pub fn stops(&self) -> &[u32] {
        &self.generation().eos
    }

    /// The sampling that the model's authors recommend.
    pub fn sampling(&self) -> SamplingOptions {
        SamplingOptions::from_pack(self.generation())
    }

    /// The cap of its logits.
    pub fn soft_cap(&self) -> Option<f32> {
        self.pack.geometry().soft_cap
    }
}

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A pack file.
    Path(PathBuf),
    /// A pack that is part of the program, and what messages call it.
    Embedded(&'static [u8], &'static str),
    /// An id that the caller's catalog knows.
    Id(String),
}

impl ModelSource {
    /// Opens the pack. `catalog` finds the file of an id; where it is and how it got there is the caller's business.
    ///
    /// # Errors
    /// The catalog does not know the id; as [`Pack::open`].
    pub fn open(&self, catalog: impl FnOnce(&str) -> Option<PathBuf>) -> Result<Pack, EngineError> {
        match self {
            ModelSource::Path(path) => Ok(Pack::open(path)?),
            ModelSource::Embedded(bytes, label) => Ok(Pack::from_static(bytes, label)?),
            ModelSource::Id(id) => match catalog(id) {
                Some(path) => Ok(Pack::open(&path)?),
                None => Err(EngineError::UnknownModel { id: id.clone() }),
            },
        }
    }
}

/// A model and the backend that runs it.
pub struct Engine {
    model: Arc<Model>,
    backend: Box<dyn Backend>,
}

impl Engine {
    /// Checks the pack's text side and lets `factory` make a backend for it.
    ///
    /// # Errors
    /// As [`Model::open`], or whatever the factory reports.
    pub fn open<E: From<EngineError>>(
        pack: Arc<Pack>,
        factory: impl FnOnce(&Arc<Pack>) -> Result<Box<dyn Backend>, E>,
    ) -> Result<Engine, E> {
        let model = Arc::new(Model::open(pack)?);
        let backend = factory(model.pack())?;
        Ok(Engine { model, backend })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// One conversation that has the backend to itself.
    ///
    /// # Errors
    /// No memory for its cache.
    pub fn session(self) -> Result<Session, EngineError> {
        Session::new(self.model, self.backend)
    }

    /// The parts, for a caller that runs several sequences itself.
    pub fn into_parts(self) -> (Arc<Model>, Box<dyn Backend>) {
        (self.model, self.backend)
    }
}

fn check_control_tokens(tokenizer: &Tokenizer, pack: &str) -> Result<(), EngineError> {
    for (spelling, expected) in CONTROL_TOKENS {
        let found = match tokenizer.token_id(spelling) {
            Some(id) if id == expected && tokenizer.is_special(id) => continue,
            Some(id) if id == expected => format!("{id}, but not as a special token"),
            Some(id) => id.to_string(),
            None => "no id".into(),
        };
        return Err(EngineError::ControlToken { pack: pack.into(), spelling, found, expected });
    }
    Ok(())
}

fn check_test_prompt(
    tokenizer: &Tokenizer,
    rendered: &Rendered,
    released: bool,
    pack: &str,
) -> Result<(), EngineError> {
    let ids = rendered.to_ids(tokenizer);
    // The released vocabulary is known in full, any other one only by its control tokens.
    let (known, places) =
        if released { (&TEST_IDS[..], ids.len().max(TEST_IDS.len())) } else { (&TEST_IDS[..2], 2) };
    let show = |id: Option<&u32>| id.map_or("missing".into(), u32::to_string);
    for place in 0..places {
        let (found, expected) = (ids.get(place), known.get(place));
        if found != expected {
            let (pack, text) = (pack.into(), rendered.to_string());
            let (found, expected) = (show(found), show(expected));
            return Err(EngineError::TestPrompt { pack, text, place, found, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tokenizer(json: &str) -> Tokenizer {
        Tokenizer::load(rawloop_tokenizer::bake(json.as_bytes()).unwrap()).unwrap()
    }

    fn tiny() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::read_to_string(root.join("models/tiny/checkpoint/tokenizer.json")).unwrap()
    }

    fn question() -> Rendered {
        chat::render(&RenderOptions::default(), &[Message::new(Role::User, TEST_QUESTION)]).unwrap()
    }

    #[test]
    fn the_shipped_tokenizer_has_every_control_token() {
        let tokenizer = tokenizer(&tiny());
        check_control_tokens(&tokenizer, "tiny").unwrap();
        check_test_prompt(&tokenizer, &question(), false, "tiny").unwrap();
        let error = check_test_prompt(&tokenizer, &question(), true, "tiny").unwrap_err().to_string();
        assert!(error.contains("token 2 of the test prompt") && error.contains("expected 2364"), "{error}");
    }

    #[test]
    fn a_renamed_control_token_is_named() {
        let renamed = tiny().replace("<|channel>", "<|chanel>");
        let error = check_control_tokens(&tokenizer(&renamed), "x.rlp").unwrap_err().to_string();
        assert_eq!(error, "the tokenizer of x.rlp has <|channel> at no id: Gemma 4 has it at 100");
    }

    #[test]
    fn the_released_vocabulary_gives_the_known_ids() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Ok(json) = std::fs::read_to_string(root.join("target/test-data/tokenizer-gemma4.json")) else {
            eprintln!("skipped: scripts/get-test-tokenizer.sh has not been run");
            return;
        };
        let tokenizer = tokenizer(&json);
        check_control_tokens(&tokenizer, "real").unwrap();
        check_test_prompt(&tokenizer, &question(), true, "real").unwrap();
    }
}
