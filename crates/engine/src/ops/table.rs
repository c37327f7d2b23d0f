//! The operations as data: what each is asked with, what it answers in, and what becomes of a text that is too long.
//!
//! A prompt holds the whole contract: what to do, in which form to answer, that nothing else is wanted, and after an empty line
//! the text. There is no system prompt. The text comes last, so pieces of a long one share everything before it, and the
//! cache keeps that.
//!
//! The wording matters to the embedded model, which was trained on these very prompts: `training/ops.json` holds a copy that a
//! test keeps equal. A large model follows any clear wording.

/// An operation.
#[derive(Debug)]
pub struct Op {
    /// Its name.
    pub name: &'static str,
    /// What goes in and what comes out.
    pub about: &'static str,
    /// Texts it takes: one or two.
    pub inputs: usize,
    /// What can be set.
    pub options: &'static [OpOption],
    /// Its prompts; the first one counts whose option is set.
    pub prompts: &'static [Prompt],
    /// What it answers in.
    pub shape: Shape,
    /// How a text that is too long is split and the answers are put together.
    pub long: Long,
    /// Tokens of an answer at most, where it is no copy of the text.
    pub answer_tokens: usize,
    /// Tokens of a piece at most, however large the context is: quality falls with length before the context ends.
    pub piece_tokens: usize,
}

/// Something that can be set.
#[derive(Debug)]
pub struct OpOption {
    /// Its name, on the command line a flag.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What is taken where nothing is said; an operation that needs the option says so when it is run.
    pub default: Option<&'static str>,
    /// Values with the words they stand for in the prompt. Empty where any text is possible.
    pub values: &'static [(&'static str, &'static str)],
    /// Whether a value outside of `values` is possible.
    pub open: bool,
}

/// A prompt with `{option}`, `{text}` and `{other}` in it.
#[derive(Debug)]
pub struct Prompt {
    /// The option that selects it.
    pub when: Option<&'static str>,
    /// The words.
    pub text: &'static str,
}

/// What an operation answers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    Text,
    /// One of some words.
    Word(&'static [&'static str]),
    /// One of the labels that an option lists.
    Label,
    /// A JSON value: fields that an option lists, or by a JSON schema.
    Fields,
    /// A JSON array of at most as many strings as an option says.
    Strings,
    /// A JSON object with a list of strings for each label that an option lists. Strings that are not in the text are dropped.
    Lists,
    /// As `Lists`; the answer is the text with `[LABEL]` in place of each string.
    Redacted,
    /// A JSON list of points, each with what either text says and then whether that is the same. What comes out is an object
    /// with the points that are the same and those that are different.
    Points,
}

/// What becomes of a text that is too long for one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    /// Each piece is summarized, in the named style or the op's own, until the summaries fit one prompt.
    Reduce(Option<&'static str>),
    /// Pieces are answered one by one, and joined with what stood between them.
    Join,
    /// The answer that most pieces have; of equals, the first.
    Vote,
    /// The first answer that is not this one.
    First(&'static str),
    /// JSON: the first value that is not null for a field, lists joined without repetition.
    Merge,
}

impl Op {
    /// Whether the answer is JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.shape, Shape::Fields | Shape::Strings | Shape::Lists | Shape::Points)
    }

    /// An option by its name.
    pub fn option(&self, name: &str) -> Option<&'static OpOption> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// An operation of other engines that needs more than a decoder of text.
#[derive(Debug)]
pub struct Unsupported {
    /// Its name.
    pub name: &'static str,
    /// What goes in and what comes out.
    pub about: &'static str,
    /// What it needs.
    pub needs: &'static str,
}

const fn option(name: &'static str, about: &'static str, default: Option<&'static str>) -> OpOption {
    OpOption { name, about, default, values: &[], open: true }
}

const fn always(text: &'static str) -> Prompt {
    Prompt { when: None, text }
}

const FIND: &str = "Find every {labels} in the text. Reply with one JSON object only: for each label the list of its exact \
                    words in the text.\n\n{text}";

/// What `redact` and `entities` look for where nothing else is said.
const PERSONAL: &str = "person, email, phone number, credit card number, social security number, address, date of birth, \
                        organization";

/// What `answer` says where the text does not.
pub const NOT_SAID: &str = "Not in the text.";

const SHORT: usize = 64;
const PAGE: usize = 512;

/// Every operation.
pub const OPS: &[Op] = &[
    Op {
        name: "summarize",
        about: "text -> a summary",
        inputs: 1,
        options: &[OpOption {
            name: "style",
            about: "one-line, concise (two or three sentences) or bullets (a Markdown list)",
            default: Some("concise"),
            values: &[
                ("one-line", "in one sentence"),
                ("concise", "in two or three sentences"),
                ("bullets", "as a Markdown list"),
            ],
            open: false,
        }],
        prompts: &[always("Summarize the text {style}. Reply with the summary only.\n\n{text}")],
        shape: Shape::Text,
        long: Long::Reduce(None),
        answer_tokens: PAGE,
        piece_tokens: 4096,
    },
    Op {
        name: "extract",
        about: "text -> a JSON value with the fields asked for, or of a JSON schema",
        inputs: 1,
        options: &[
            option(
                "fields",
                "names, each with a type or not: \"name, age:integer, tags:list\" (string, number, integer, boolean, list)",
                None,
            ),
            option("schema", "a JSON schema, instead of fields", None),
        ],
        prompts: &[
            Prompt {
                when: Some("schema"),
                text: "Extract the data of the text as one JSON value that fits this JSON schema. Use null where the \
                       schema allows it and the text says nothing. Reply with the JSON only.\nSchema: {schema}\n\n{text}",
            },
            always(
                "Extract {fields} from the text as one JSON object. Use null for what the text does not say. Reply with \
                 the JSON only.\n\n{text}",
            ),
        ],
        shape: Shape::Fields,
        long: Long::Merge,
        answer_tokens: 2 * PAGE,
        piece_tokens: 4096,
    },
    Op {
        name: "translate",
        about: "text -> the text in another language",
        inputs: 1,
        options: &[option("to", "the language", None)],
        prompts: &[always(
            "Translate the text to {to}. Keep meaning, tone and line breaks. Reply with the translation only.\n\n{text}",
        )],
        shape: Shape::Text,
        long: Long::Join,
        answer_tokens: 0,
        piece_tokens: 1024,
    },
    Op {
        name: "proofread",
        about: "text -> the text with its mistakes corrected",
        inputs: 1,
        options: &[],
        prompts: &[always(
            "Correct the spelling, grammar and punctuation of the text. Keep its words, meaning and language. Reply with \
             the corrected text only.\n\n{text}",
        )],
        shape: Shape::Text,
        long: Long::Join,
        answer_tokens: 0,
        piece_tokens: 1024,
    },
    Op {
        name: "rewrite",
        about: "text -> the text in another style",
        inputs: 1,
        options: &[option("style", "formal, friendly, simple, or any other in words", Some("formal"))],
        prompts: &[always(
            "Rewrite the text in a {style} style. Keep its meaning and language. Reply with the new text only.\n\n{text}",
        )],
        shape: Shape::Text,
        long: Long::Join,
        answer_tokens: 0,
        piece_tokens: 1024,
    },
    Op {
        name: "classify",
        about: "text -> one of the labels given",
        inputs: 1,
        options: &[option("labels", "the labels, with commas between them", None)],
        prompts: &[always(
            "Which of these labels fits the text best: {labels}? Reply with the label only.\n\n{text}",
        )],
        shape: Shape::Label,
        long: Long::Vote,
        answer_tokens: SHORT,
        piece_tokens: 2048,
    },
    Op {
        name: "sentiment",
        about: "text -> positive, negative or neutral",
        inputs: 1,
        options: &[],
        prompts: &[always(
            "Is the sentiment of the text positive, negative or neutral? Reply with that word only.\n\n{text}",
        )],
        shape: Shape::Word(&["positive", "negative", "neutral"]),
        long: Long::Vote,
        answer_tokens: SHORT,
        piece_tokens: 2048,
    },
    Op {
        name: "answer",
        about: "text and question -> the answer, from the text alone",
        inputs: 1,
        options: &[option("question", "the question", None)],
        prompts: &[always(
            "Answer the question from the text alone. If the text does not say it, reply: Not in the text.\nQuestion: \
             {question}\n\n{text}\n\nQuestion: {question}",
        )],
        shape: Shape::Text,
        long: Long::First(NOT_SAID),
        answer_tokens: PAGE,
        piece_tokens: 4096,
    },
    Op {
        name: "keywords",
        about: "text -> a JSON array of keywords",
        inputs: 1,
        options: &[option("count", "how many at most", Some("5"))],
        prompts: &[always(
            "List at most {count} keywords of the text, the most important first, as a JSON array of strings. Reply with \
             the JSON only.\n\n{text}",
        )],
        shape: Shape::Strings,
        long: Long::Merge,
        answer_tokens: PAGE,
        piece_tokens: 4096,
    },
    Op {
        name: "title",
        about: "text -> a title",
        inputs: 1,
        options: &[],
        prompts: &[always("Write a short title for the text. Reply with the title only.\n\n{text}")],
        shape: Shape::Text,
        long: Long::Reduce(Some("one-line")),
        answer_tokens: SHORT,
        piece_tokens: 4096,
    },
    Op {
        name: "entities",
        about: "text -> a JSON object with the exact words of the text for each label",
        inputs: 1,
        options: &[option("labels", "what to look for, with commas between", Some(PERSONAL))],
        prompts: &[always(FIND)],
        shape: Shape::Lists,
        long: Long::Merge,
        answer_tokens: 2 * PAGE,
        piece_tokens: 1024,
    },
    Op {
        name: "redact",
        about: "text -> the text with [LABEL] in place of personal data",
        inputs: 1,
        options: &[option("labels", "what to take out, with commas between", Some(PERSONAL))],
        prompts: &[always(FIND)],
        shape: Shape::Redacted,
        long: Long::Merge,
        answer_tokens: 2 * PAGE,
        piece_tokens: 1024,
    },
    Op {
        name: "compare",
        about: "two texts -> a JSON object with what is the same and what is different, in the words of each",
        inputs: 2,
        options: &[],
        prompts: &[always(
            "Compare the two texts point by point. Reply with one JSON object only: \"points\" lists, for each point, what \
             text 1 says of it (\"one\"), what text 2 says of it (\"two\"), null for a text that says nothing, and whether \
             both say the same (\"same\").\n\nText 1:\n{text}\n\nText 2:\n{other}",
        )],
        shape: Shape::Points,
        long: Long::Reduce(Some("concise")),
        answer_tokens: 2 * PAGE,
        piece_tokens: 4096,
    },
    Op {
        name: "tidy-transcript",
        about: "dictated text -> written text, without fillers and repetitions",
        inputs: 1,
        options: &[],
        prompts: &[always(
            "Turn this dictated text into clean written text: remove fillers and repeated words, add punctuation and \
             capital letters, keep all that is said. Reply with the clean text only.\n\n{text}",
        )],
        shape: Shape::Text,
        long: Long::Join,
        answer_tokens: 0,
        piece_tokens: 450,
    },
];

const fn needs(name: &'static str, about: &'static str, needs: &'static str) -> Unsupported {
    Unsupported { name, about, needs }
}

/// Operations that are known and cannot be had here.
pub const UNSUPPORTED: &[Unsupported] = &[
    needs("transcribe", "speech -> text", "a model of speech"),
    needs("transcribe-meeting", "speech -> text by speaker", "a model of speech and one of speakers"),
    needs("describe-audio", "sound -> text", "a model of sound"),
    needs("speak", "text -> speech", "a model that speaks"),
    needs("compose", "text -> music", "a model of music"),
    needs("separate", "song -> voice and instruments", "a model of music"),
    needs("caption", "image -> text", "a model of images"),
    needs("detect", "image -> objects with boxes", "a detector"),
    needs("read", "image of a page -> Markdown", "a model of pages"),
    needs("upscale", "image -> larger image", "a model of images"),
    needs("estimate-depth", "image -> depth of each pixel", "a model of depth"),
    needs("recognize-action", "video -> what is done in it", "a model of video"),
    needs("search", "query and texts -> texts by similarity", "an embedding model"),
    needs("forecast", "numbers -> the numbers that follow", "a model of time series"),
];
