# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_rawloop_global_optspecs
    string join \n h/help V/version
end

function __fish_rawloop_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_rawloop_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_rawloop_using_subcommand
    set -l cmd (__fish_rawloop_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c rawloop -n "__fish_rawloop_needs_command" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_needs_command" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "chat" -d 'Talk to a model'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "run" -d 'Answer one prompt'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "serve" -d 'Serve a model over HTTP, with OpenAI\'s and Ollama\'s interfaces and a page to talk to it'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "op" -d 'Summarize, extract, translate, redact ...: one call for a text of any length'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "pull" -d 'Fetch a model by name, check it and convert it'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "list" -d 'List the models that have names, and what of them is here'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "info" -d 'Show where a model comes from and what of it is here'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "rm" -d 'Remove a pulled model'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "batch" -d 'Answer a file of requests in OpenAI\'s batch format'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "convert" -d 'Turn a checkpoint in Google\'s mobile layout into a pack'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "synth" -d 'Write a model with random weights in a real shape, to measure with'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "inspect" -d 'Show what a pack holds: geometry, tensors, bytes a token reads'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "verify" -d 'Check every hash and every scale of a pack'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "compare" -d 'Compare two packs, tensor family by tensor family'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "generate" -d 'Continue token ids greedily: the plain interface for scripts and checks'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "eval" -d 'Ask a file of questions and count the right answers'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "gate" -d 'Compare greedy tokens with golden ones, or with another backend\'s'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "bench" -d 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine\'s limit'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "doctor" -d 'Show what this machine offers: instruction sets, kernels, memory and its speed'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "man" -d 'Write the manual pages'
complete -c rawloop -n "__fish_rawloop_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l session -d 'Keep the conversation in this file; one that is there is gone on with, in its own settings where no flag says otherwise' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l tools -d 'Commands that the model may run: declarations in OpenAI\'s form, each with its command; a call is shown and asked for' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l tool-choice -d 'Whether an answer may call tools: none, auto, required, or the name of the one to call [default: auto]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l tool-rounds -d 'Rounds of calls before the model has to answer' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l allow -d 'Run calls of this tool without asking; may be repeated. Without a terminal nobody can be asked, and a call that needs it is not run' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -s s -l system -d 'Instructions that stand before the conversation' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l thinking -d 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l max-tokens -d 'Tokens of an answer at most [default: 2048]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l stop -d 'End the answer before this text; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l json-schema -d 'Answer in JSON that is valid under this schema: a file, or the schema itself' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l regex -d 'Answer with a text that this regular expression matches as a whole' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l grammar -d 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l choice -d 'Answer with one of the texts given by this flag; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l draft -d 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l temperature -d 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model\'s, 1.0 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l top-k -d 'Keep so many candidates; 0 keeps all [default: the model\'s, 64 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l top-p -d 'Keep the likeliest candidates that make up this much probability [default: the model\'s, 0.95 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l min-p -d 'Drop candidates less likely than this share of the likeliest [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l typical -d 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l repetition -d 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l presence -d 'Take this off the logits of tokens that the answer holds already [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l frequency -d 'Take this off for each time the answer holds them [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l dry -d 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l dry-base -d 'Factor for each further token of a repeated passage [default: 1.75]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l dry-length -d 'Tokens that may repeat freely [default: 2]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l penalty-window -d 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l bias -d 'Add to the logit of a token id, -100 to 100; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l seed -d 'The same seed gives the same answer, on every machine [default: a new one each time]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l no-history -d 'Neither read nor write the file with earlier inputs'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l plain -d 'Show answers as they come, without laying out their Markdown'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l json -d 'Print each answer as one line of JSON: text, thoughts, calls with results, finish reason, timings'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l yes -d 'Run every call without asking'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l allow-loops -d 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l greedy -d 'Take the likeliest token every time; the same as --temperature 0'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand chat" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l n -d 'Answer N times, each with the next seed; with --json the answers are a list' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -s s -l system -d 'Instructions that stand before the conversation' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l thinking -d 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l max-tokens -d 'Tokens of an answer at most [default: 2048]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l stop -d 'End the answer before this text; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l json-schema -d 'Answer in JSON that is valid under this schema: a file, or the schema itself' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l regex -d 'Answer with a text that this regular expression matches as a whole' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l grammar -d 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l choice -d 'Answer with one of the texts given by this flag; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l draft -d 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l temperature -d 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model\'s, 1.0 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l top-k -d 'Keep so many candidates; 0 keeps all [default: the model\'s, 64 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l top-p -d 'Keep the likeliest candidates that make up this much probability [default: the model\'s, 0.95 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l min-p -d 'Drop candidates less likely than this share of the likeliest [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l typical -d 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l repetition -d 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l presence -d 'Take this off the logits of tokens that the answer holds already [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l frequency -d 'Take this off for each time the answer holds them [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l dry -d 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l dry-base -d 'Factor for each further token of a repeated passage [default: 1.75]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l dry-length -d 'Tokens that may repeat freely [default: 2]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l penalty-window -d 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l bias -d 'Add to the logit of a token id, -100 to 100; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l seed -d 'The same seed gives the same answer, on every machine [default: a new one each time]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l raw -d 'Continue the text as it stands, without the chat format; <|turn> and the like are control tokens then'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l json -d 'Print answer, thoughts, calls, finish reason, timings and labels as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l stats -d 'Print the speed on stderr'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l allow-loops -d 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l greedy -d 'Take the likeliest token every time; the same as --temperature 0'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand run" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l host -d 'Address to listen on; one that other machines reach needs --api-key' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l port -d 'Port to listen on; 0 takes a free one, which is printed' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l name -d 'What requests call the model [default: the model\'s name]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l api-key -d 'Requests need this key; may be repeated. Other users of this machine see a command line: --api-key-file hides it' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l api-key-file -d 'Requests need one of the keys in this file, one a line' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l cors-origin -d 'Let pages of this origin ask (`https://example.org`, or * for all); may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l catalog -d 'More models, or others of the same name: a file as docs/hub.md describes it' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l parallel -d 'Requests answered at the same time [default: as many as 4 GB of caches hold, at most 8]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l queue -d 'Requests that wait for a place; more are told to come back later' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l time-limit -d 'Seconds for a request, waiting included' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l max-tokens -d 'Tokens of an answer where a request does not say' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l body-limit -d 'Megabytes of a request' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l cache -d 'Megabytes of caches that are kept for prompts that go on with them [default: 256, or four times what a request of the full --ctx takes where that is more]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l prompt-share -d 'Prompt tokens in a step that answers others at the same time: fewer keep those even, more answer a new request sooner' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l grace -d 'Seconds that answers have to end in when the server is told to stop' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l temperature -d 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model\'s, 1.0 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l top-k -d 'Keep so many candidates; 0 keeps all [default: the model\'s, 64 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l top-p -d 'Keep the likeliest candidates that make up this much probability [default: the model\'s, 0.95 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l min-p -d 'Drop candidates less likely than this share of the likeliest [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l typical -d 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l repetition -d 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l presence -d 'Take this off the logits of tokens that the answer holds already [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l frequency -d 'Take this off for each time the answer holds them [default: 0, off]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l dry -d 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l dry-base -d 'Factor for each further token of a repeated passage [default: 1.75]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l dry-length -d 'Tokens that may repeat freely [default: 2]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l penalty-window -d 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l bias -d 'Add to the logit of a token id, -100 to 100; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l seed -d 'The same seed gives the same answer, on every machine [default: a new one each time]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l draft -d 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l insecure-no-api-key -d 'Let everybody in who can reach the address, without a key'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l pull -d 'Let requests fetch models of the catalog to this machine\'s disk, as `rawloop pull` does and the page offers it'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l allow-special-tokens -d 'Read <|turn> and the like in prompts and messages as control tokens; otherwise they are text. Who writes a message can then end a turn and speak for the system'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l thinking -d 'Let the model think where a request does not say'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l greedy -d 'Take the likeliest token every time; the same as --temperature 0'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand serve" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l style -d 'Style of summarize (one-line, concise, bullets) or rewrite (formal, friendly, simple ...)' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l to -d 'Language of translate' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l labels -d 'Labels of classify, entities or redact, with commas between' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l fields -d 'Fields of extract, with types or not: "name, age:integer, tags:list"' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l schema -d 'File with the JSON schema of what extract gives' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l question -d 'Question of answer' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l count -d 'Most keywords' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l piece-tokens -d 'Tokens of a piece at most [default: what the context holds, at most what the operation is good for]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l max-tokens -d 'Tokens of an answer at most [default: the operation\'s]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l list -d 'List the operations and their options'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l json -d 'Print the answer with what it took as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand op" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l catalog -d 'More models, or others of the same name: a file as docs/hub.md describes it' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l revision -d 'Branch, tag or commit instead of the catalog\'s' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l mirror -d 'Another server with the hub\'s paths' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l token-file -d 'A file with the token, instead of HF_TOKEN' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l no-assistant -d 'Leave out the drafter'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l offline -d 'Ask no server: what is in the cache has to do'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l drop-checkpoint -d 'Remove the files that this program fetched once the pack is there'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l dry-run -d 'Say what would be fetched, and fetch nothing'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -l json -d 'Print what happens as lines of JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -s q -l quiet -d 'No progress, only the result'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand pull" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand list" -l catalog -d 'More models, or others of the same name: a file as docs/hub.md describes it' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand list" -l json -d 'The list as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand list" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand list" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand info" -l catalog -d 'More models, or others of the same name: a file as docs/hub.md describes it' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand info" -l json -d 'Everything as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand info" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand info" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand rm" -l catalog -d 'More models, or others of the same name: a file as docs/hub.md describes it' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand rm" -l checkpoint -d 'Remove the files that this program fetched for it too'
complete -c rawloop -n "__fish_rawloop_using_subcommand rm" -s y -l yes -d 'Do not ask'
complete -c rawloop -n "__fish_rawloop_using_subcommand rm" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand rm" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l parallel -d 'Requests that are answered at the same time; every number gives the same answers' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l json -d 'Print what was done as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand batch" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -l assistant -d 'Folder of the assistant checkpoint (MTP drafter), which joins the pack' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -l name -d 'Name of the model in listings [default: the folder\'s]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -l source -d 'Repository the checkpoint came from, for the pack\'s provenance' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -l revision -d 'Revision of that repository' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -l json -d 'Print a summary as JSON on stdout'
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand convert" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l preset -d 'Shape: tiny, tiny-e4b, narrow-e2b, e2b, e4b, or a config.json' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l seed -d 'The weights follow from this number' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l shards -d 'Files the checkpoint\'s weights are spread over' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l checkpoint -d 'Write an official-layout checkpoint folder instead of a pack'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l assistant -d 'Add an MTP drafter'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -l ordered -d 'Give the drafter the clustered head'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand synth" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand inspect" -l tensors -d 'List every tensor with format, shape, offset and bytes'
complete -c rawloop -n "__fish_rawloop_using_subcommand inspect" -l program -d 'Print the stage program: what a token passes, stage by stage'
complete -c rawloop -n "__fish_rawloop_using_subcommand inspect" -l json -d 'Everything as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand inspect" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand verify" -l json -d 'The result as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand verify" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand verify" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand verify" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand compare" -l json -d 'The result as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand compare" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand compare" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l prompt-ids -d 'Prompt as token ids' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l prompt -d 'Prompt as a user\'s message, in the chat format' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l max-tokens -d 'Tokens to generate at most' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l temperature -d '0 takes the most likely token every time' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l json-schema -d 'Answer in JSON that is valid under this schema: a file, or the schema itself' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l regex -d 'Answer with a text that this regular expression matches as a whole' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l grammar -d 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l choice -d 'Answer with one of the texts given by this flag; may be repeated' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l draft -d 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l raw -d 'Take the text of --prompt as it stands, without the chat format; <|turn> and the like are control tokens then'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l json -d 'Print prompt ids, output ids, finish reason, timings and labels as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand generate" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l tasks -d 'Questions' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l limit -d 'Ask only the first N' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l max-tokens -d 'Tokens of an answer at most' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l thinking -d 'Let the model think first, where the question is not a rendered prompt'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l json -d 'Print the result and every answer as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand eval" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l goldens -d 'Golden transcripts (goldens/README.md)' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l against -d 'Compare with this backend\'s tokens instead of the golden ones' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l limit -d 'Use only the first N prompts' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l max-tokens -d 'Tokens behind each prompt at most [default: as many as the golden answer has]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l json -d 'Print the result as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand gate" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l tokens -d 'Tokens to generate in a decode round, at least 5' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l prompts -d 'Prompt lengths of prefill [default: 512,1024,4096]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l rounds -d 'Rounds that count, after the cold one' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l contexts -d 'Also measure decode behind so many tokens [without a value: 0,1024,4096,8192]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l temperature -d 'Also measure a run whose tokens are drawn, at this temperature' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l top-k -d 'Candidates of --temperature; 0 keeps all [default: the model\'s, 64 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l top-p -d 'Probability that candidates of --temperature make up [default: the model\'s, 0.95 for Gemma 4]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l draft -d 'Also measure a run with N tokens drafted before each step: drafts a second, what verifying them takes, how many are right; drawn where there is a --temperature' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l compare -d 'Compare with a shell command that prints tokens per second as its last number' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l compare-prefill -d 'What --compare measures on our side: prefill of N tokens [default: decode]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l svg -d 'Draw tokens per second against context; implies --contexts' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l record -d 'Keep the JSON as DIR/MACHINE/DATE-MODEL-WHAT.json' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l machine -d 'Name of this machine in records [default: the processor\'s name and its threads]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -s m -l model -d 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]' -r -F
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l backend -d 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal' -r -f -a "cpu\t'Kernels for this machine\'s instruction set'
cuda\t'A CUDA device'
wgpu\t'A graphics adapter through Vulkan, Metal or DX12'
auto\t'A CUDA device where there is one, else the CPU'
ref\t'The readable interpreter, 100 times slower'"
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l arithmetic -d 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)' -r -f -a "exact\t'int8 activations, exact integer sums'"
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l threads -d 'Threads; every number gives the same bytes [default: one for each big core this process may use]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l kernels -d 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l chunk -d 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l kv -d 'Storage of keys and values' -r -f -a "f32\t'Full precision, 4 bytes a value'
f16\t'Half precision, 2 bytes a value'
i8\t'int8 with a scale per token and head, 1 byte a value'"
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l adapter -d 'The adapter of --backend wgpu: a number of `rawloop doctor`\'s list or a part of its name [default: the first that is no software]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l ple -d 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B\'s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]' -r -f -a "host\t'Memory of the host'
device\t'Memory of the device'"
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l ctx -d 'Positions of context [default: what the model was trained for, at most 32768]' -r
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l stages -d 'Also show time, bytes and products by stage kind'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l verify -d 'Also measure verification of 2 to 8 tokens at once, and drafts, in units of one decode step'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l json -d 'Print the result as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l startup -d 'Load, take one step, say how long it took: what a fresh process is started for'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -l affinity -d 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -s q -l quiet -d 'No progress bar'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c rawloop -n "__fish_rawloop_using_subcommand bench" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand doctor" -l json -d 'The result as JSON'
complete -c rawloop -n "__fish_rawloop_using_subcommand doctor" -l no-measure -d 'Do not measure the memory (half a second)'
complete -c rawloop -n "__fish_rawloop_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand completions" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand completions" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand man" -s h -l help -d 'Print help'
complete -c rawloop -n "__fish_rawloop_using_subcommand man" -s V -l version -d 'Print version'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "chat" -d 'Talk to a model'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "run" -d 'Answer one prompt'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "serve" -d 'Serve a model over HTTP, with OpenAI\'s and Ollama\'s interfaces and a page to talk to it'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "op" -d 'Summarize, extract, translate, redact ...: one call for a text of any length'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "pull" -d 'Fetch a model by name, check it and convert it'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "list" -d 'List the models that have names, and what of them is here'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "info" -d 'Show where a model comes from and what of it is here'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "rm" -d 'Remove a pulled model'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "batch" -d 'Answer a file of requests in OpenAI\'s batch format'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "convert" -d 'Turn a checkpoint in Google\'s mobile layout into a pack'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "synth" -d 'Write a model with random weights in a real shape, to measure with'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "inspect" -d 'Show what a pack holds: geometry, tensors, bytes a token reads'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "verify" -d 'Check every hash and every scale of a pack'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "compare" -d 'Compare two packs, tensor family by tensor family'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "generate" -d 'Continue token ids greedily: the plain interface for scripts and checks'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "eval" -d 'Ask a file of questions and count the right answers'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "gate" -d 'Compare greedy tokens with golden ones, or with another backend\'s'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "bench" -d 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine\'s limit'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "doctor" -d 'Show what this machine offers: instruction sets, kernels, memory and its speed'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "completions" -d 'Print completions for a shell'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "man" -d 'Write the manual pages'
complete -c rawloop -n "__fish_rawloop_using_subcommand help; and not __fish_seen_subcommand_from chat run serve op pull list info rm batch convert synth inspect verify compare generate eval gate bench doctor completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
