
use builtin;
use str;

set edit:completion:arg-completer[rawloop] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'rawloop'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'rawloop'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand chat 'Talk to a model'
            cand run 'Answer one prompt'
            cand serve 'Serve a model over HTTP, with OpenAI''s and Ollama''s interfaces and a page to talk to it'
            cand op 'Summarize, extract, translate, redact ...: one call for a text of any length'
            cand pull 'Fetch a model by name, check it and convert it'
            cand list 'List the models that have names, and what of them is here'
            cand info 'Show where a model comes from and what of it is here'
            cand rm 'Remove a pulled model'
            cand batch 'Answer a file of requests in OpenAI''s batch format'
            cand convert 'Turn a checkpoint in Google''s mobile layout into a pack'
            cand synth 'Write a model with random weights in a real shape, to measure with'
            cand inspect 'Show what a pack holds: geometry, tensors, bytes a token reads'
            cand verify 'Check every hash and every scale of a pack'
            cand compare 'Compare two packs, tensor family by tensor family'
            cand generate 'Continue token ids greedily: the plain interface for scripts and checks'
            cand eval 'Ask a file of questions and count the right answers'
            cand gate 'Compare greedy tokens with golden ones, or with another backend''s'
            cand bench 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine''s limit'
            cand doctor 'Show what this machine offers: instruction sets, kernels, memory and its speed'
            cand completions 'Print completions for a shell'
            cand man 'Write the manual pages'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'rawloop;chat'= {
            cand --session 'Keep the conversation in this file; one that is there is gone on with, in its own settings where no flag says otherwise'
            cand --tools 'Commands that the model may run: declarations in OpenAI''s form, each with its command; a call is shown and asked for'
            cand --tool-choice 'Whether an answer may call tools: none, auto, required, or the name of the one to call [default: auto]'
            cand --tool-rounds 'Rounds of calls before the model has to answer'
            cand --allow 'Run calls of this tool without asking; may be repeated. Without a terminal nobody can be asked, and a call that needs it is not run'
            cand -s 'Instructions that stand before the conversation'
            cand --system 'Instructions that stand before the conversation'
            cand --thinking 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer'
            cand --max-tokens 'Tokens of an answer at most [default: 2048]'
            cand --stop 'End the answer before this text; may be repeated'
            cand --json-schema 'Answer in JSON that is valid under this schema: a file, or the schema itself'
            cand --regex 'Answer with a text that this regular expression matches as a whole'
            cand --grammar 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf'
            cand --choice 'Answer with one of the texts given by this flag; may be repeated'
            cand --draft 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before'
            cand --temperature 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]'
            cand --top-k 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]'
            cand --top-p 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]'
            cand --min-p 'Drop candidates less likely than this share of the likeliest [default: 0, off]'
            cand --typical 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]'
            cand --repetition 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]'
            cand --presence 'Take this off the logits of tokens that the answer holds already [default: 0, off]'
            cand --frequency 'Take this off for each time the answer holds them [default: 0, off]'
            cand --dry 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]'
            cand --dry-base 'Factor for each further token of a repeated passage [default: 1.75]'
            cand --dry-length 'Tokens that may repeat freely [default: 2]'
            cand --penalty-window 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]'
            cand --bias 'Add to the logit of a token id, -100 to 100; may be repeated'
            cand --seed 'The same seed gives the same answer, on every machine [default: a new one each time]'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --no-history 'Neither read nor write the file with earlier inputs'
            cand --plain 'Show answers as they come, without laying out their Markdown'
            cand --json 'Print each answer as one line of JSON: text, thoughts, calls with results, finish reason, timings'
            cand --yes 'Run every call without asking'
            cand --allow-loops 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"'
            cand --greedy 'Take the likeliest token every time; the same as --temperature 0'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;run'= {
            cand --n 'Answer N times, each with the next seed; with --json the answers are a list'
            cand -s 'Instructions that stand before the conversation'
            cand --system 'Instructions that stand before the conversation'
            cand --thinking 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer'
            cand --max-tokens 'Tokens of an answer at most [default: 2048]'
            cand --stop 'End the answer before this text; may be repeated'
            cand --json-schema 'Answer in JSON that is valid under this schema: a file, or the schema itself'
            cand --regex 'Answer with a text that this regular expression matches as a whole'
            cand --grammar 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf'
            cand --choice 'Answer with one of the texts given by this flag; may be repeated'
            cand --draft 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before'
            cand --temperature 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]'
            cand --top-k 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]'
            cand --top-p 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]'
            cand --min-p 'Drop candidates less likely than this share of the likeliest [default: 0, off]'
            cand --typical 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]'
            cand --repetition 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]'
            cand --presence 'Take this off the logits of tokens that the answer holds already [default: 0, off]'
            cand --frequency 'Take this off for each time the answer holds them [default: 0, off]'
            cand --dry 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]'
            cand --dry-base 'Factor for each further token of a repeated passage [default: 1.75]'
            cand --dry-length 'Tokens that may repeat freely [default: 2]'
            cand --penalty-window 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]'
            cand --bias 'Add to the logit of a token id, -100 to 100; may be repeated'
            cand --seed 'The same seed gives the same answer, on every machine [default: a new one each time]'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --raw 'Continue the text as it stands, without the chat format; <|turn> and the like are control tokens then'
            cand --json 'Print answer, thoughts, calls, finish reason, timings and labels as JSON'
            cand --stats 'Print the speed on stderr'
            cand --allow-loops 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"'
            cand --greedy 'Take the likeliest token every time; the same as --temperature 0'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;serve'= {
            cand --host 'Address to listen on; one that other machines reach needs --api-key'
            cand --port 'Port to listen on; 0 takes a free one, which is printed'
            cand --name 'What requests call the model [default: the model''s name]'
            cand --api-key 'Requests need this key; may be repeated. Other users of this machine see a command line: --api-key-file hides it'
            cand --api-key-file 'Requests need one of the keys in this file, one a line'
            cand --cors-origin 'Let pages of this origin ask (`https://example.org`, or * for all); may be repeated'
            cand --catalog 'More models, or others of the same name: a file as docs/hub.md describes it'
            cand --parallel 'Requests answered at the same time [default: as many as 4 GB of caches hold, at most 8]'
            cand --queue 'Requests that wait for a place; more are told to come back later'
            cand --time-limit 'Seconds for a request, waiting included'
            cand --max-tokens 'Tokens of an answer where a request does not say'
            cand --body-limit 'Megabytes of a request'
            cand --cache 'Megabytes of caches that are kept for prompts that go on with them [default: 256, or four times what a request of the full --ctx takes where that is more]'
            cand --prompt-share 'Prompt tokens in a step that answers others at the same time: fewer keep those even, more answer a new request sooner'
            cand --grace 'Seconds that answers have to end in when the server is told to stop'
            cand --temperature 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]'
            cand --top-k 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]'
            cand --top-p 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]'
            cand --min-p 'Drop candidates less likely than this share of the likeliest [default: 0, off]'
            cand --typical 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]'
            cand --repetition 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]'
            cand --presence 'Take this off the logits of tokens that the answer holds already [default: 0, off]'
            cand --frequency 'Take this off for each time the answer holds them [default: 0, off]'
            cand --dry 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]'
            cand --dry-base 'Factor for each further token of a repeated passage [default: 1.75]'
            cand --dry-length 'Tokens that may repeat freely [default: 2]'
            cand --penalty-window 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]'
            cand --bias 'Add to the logit of a token id, -100 to 100; may be repeated'
            cand --seed 'The same seed gives the same answer, on every machine [default: a new one each time]'
            cand --draft 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --insecure-no-api-key 'Let everybody in who can reach the address, without a key'
            cand --pull 'Let requests fetch models of the catalog to this machine''s disk, as `rawloop pull` does and the page offers it'
            cand --allow-special-tokens 'Read <|turn> and the like in prompts and messages as control tokens; otherwise they are text. Who writes a message can then end a turn and speak for the system'
            cand --thinking 'Let the model think where a request does not say'
            cand --greedy 'Take the likeliest token every time; the same as --temperature 0'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;op'= {
            cand --style 'Style of summarize (one-line, concise, bullets) or rewrite (formal, friendly, simple ...)'
            cand --to 'Language of translate'
            cand --labels 'Labels of classify, entities or redact, with commas between'
            cand --fields 'Fields of extract, with types or not: "name, age:integer, tags:list"'
            cand --schema 'File with the JSON schema of what extract gives'
            cand --question 'Question of answer'
            cand --count 'Most keywords'
            cand --piece-tokens 'Tokens of a piece at most [default: what the context holds, at most what the operation is good for]'
            cand --max-tokens 'Tokens of an answer at most [default: the operation''s]'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --list 'List the operations and their options'
            cand --json 'Print the answer with what it took as JSON'
            cand -q 'No progress'
            cand --quiet 'No progress'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;pull'= {
            cand --catalog 'More models, or others of the same name: a file as docs/hub.md describes it'
            cand --revision 'Branch, tag or commit instead of the catalog''s'
            cand --mirror 'Another server with the hub''s paths'
            cand --token-file 'A file with the token, instead of HF_TOKEN'
            cand --no-assistant 'Leave out the drafter'
            cand --offline 'Ask no server: what is in the cache has to do'
            cand --drop-checkpoint 'Remove the files that this program fetched once the pack is there'
            cand --dry-run 'Say what would be fetched, and fetch nothing'
            cand --json 'Print what happens as lines of JSON'
            cand -q 'No progress, only the result'
            cand --quiet 'No progress, only the result'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;list'= {
            cand --catalog 'More models, or others of the same name: a file as docs/hub.md describes it'
            cand --json 'The list as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;info'= {
            cand --catalog 'More models, or others of the same name: a file as docs/hub.md describes it'
            cand --json 'Everything as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;rm'= {
            cand --catalog 'More models, or others of the same name: a file as docs/hub.md describes it'
            cand --checkpoint 'Remove the files that this program fetched for it too'
            cand -y 'Do not ask'
            cand --yes 'Do not ask'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;batch'= {
            cand --parallel 'Requests that are answered at the same time; every number gives the same answers'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --json 'Print what was done as JSON'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;convert'= {
            cand --assistant 'Folder of the assistant checkpoint (MTP drafter), which joins the pack'
            cand --name 'Name of the model in listings [default: the folder''s]'
            cand --source 'Repository the checkpoint came from, for the pack''s provenance'
            cand --revision 'Revision of that repository'
            cand --json 'Print a summary as JSON on stdout'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;synth'= {
            cand --preset 'Shape: tiny, tiny-e4b, narrow-e2b, e2b, e4b, or a config.json'
            cand --seed 'The weights follow from this number'
            cand --shards 'Files the checkpoint''s weights are spread over'
            cand --checkpoint 'Write an official-layout checkpoint folder instead of a pack'
            cand --assistant 'Add an MTP drafter'
            cand --ordered 'Give the drafter the clustered head'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;inspect'= {
            cand --tensors 'List every tensor with format, shape, offset and bytes'
            cand --program 'Print the stage program: what a token passes, stage by stage'
            cand --json 'Everything as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;verify'= {
            cand --json 'The result as JSON'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;compare'= {
            cand --json 'The result as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;generate'= {
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --prompt-ids 'Prompt as token ids'
            cand --prompt 'Prompt as a user''s message, in the chat format'
            cand --max-tokens 'Tokens to generate at most'
            cand --temperature '0 takes the most likely token every time'
            cand --json-schema 'Answer in JSON that is valid under this schema: a file, or the schema itself'
            cand --regex 'Answer with a text that this regular expression matches as a whole'
            cand --grammar 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf'
            cand --choice 'Answer with one of the texts given by this flag; may be repeated'
            cand --draft 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --raw 'Take the text of --prompt as it stands, without the chat format; <|turn> and the like are control tokens then'
            cand --json 'Print prompt ids, output ids, finish reason, timings and labels as JSON'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;eval'= {
            cand --tasks 'Questions'
            cand --limit 'Ask only the first N'
            cand --max-tokens 'Tokens of an answer at most'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --thinking 'Let the model think first, where the question is not a rendered prompt'
            cand --json 'Print the result and every answer as JSON'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;gate'= {
            cand --goldens 'Golden transcripts (goldens/README.md)'
            cand --against 'Compare with this backend''s tokens instead of the golden ones'
            cand --limit 'Use only the first N prompts'
            cand --max-tokens 'Tokens behind each prompt at most [default: as many as the golden answer has]'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --json 'Print the result as JSON'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;bench'= {
            cand --tokens 'Tokens to generate in a decode round, at least 5'
            cand --prompts 'Prompt lengths of prefill [default: 512,1024,4096]'
            cand --rounds 'Rounds that count, after the cold one'
            cand --contexts 'Also measure decode behind so many tokens [without a value: 0,1024,4096,8192]'
            cand --compare 'Compare with a shell command that prints tokens per second as its last number'
            cand --compare-prefill 'What --compare measures on our side: prefill of N tokens [default: decode]'
            cand --svg 'Draw tokens per second against context; implies --contexts'
            cand --record 'Keep the JSON as DIR/MACHINE/DATE-MODEL-WHAT.json'
            cand --machine 'Name of this machine in records [default: the processor''s name and its threads]'
            cand -m 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --model 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]'
            cand --backend 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal'
            cand --arithmetic 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)'
            cand --threads 'Threads; every number gives the same bytes [default: one for each big core this process may use]'
            cand --kernels 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]'
            cand --chunk 'Prompt tokens per prefill step; every width gives the same bytes'
            cand --kv 'Storage of keys and values'
            cand --adapter 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]'
            cand --ple 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]'
            cand --ctx 'Positions of context [default: what the model was trained for, at most 32768]'
            cand --stages 'Also show time, bytes and products by stage kind'
            cand --verify 'Also measure verification of 2 to 8 tokens at once, and drafts, in units of one decode step'
            cand --json 'Print the result as JSON'
            cand -q 'No progress bar'
            cand --quiet 'No progress bar'
            cand --startup 'Load, take one step, say how long it took: what a fresh process is started for'
            cand --affinity 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;doctor'= {
            cand --json 'The result as JSON'
            cand --no-measure 'Do not measure the memory (half a second)'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;completions'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;man'= {
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
        }
        &'rawloop;help'= {
            cand chat 'Talk to a model'
            cand run 'Answer one prompt'
            cand serve 'Serve a model over HTTP, with OpenAI''s and Ollama''s interfaces and a page to talk to it'
            cand op 'Summarize, extract, translate, redact ...: one call for a text of any length'
            cand pull 'Fetch a model by name, check it and convert it'
            cand list 'List the models that have names, and what of them is here'
            cand info 'Show where a model comes from and what of it is here'
            cand rm 'Remove a pulled model'
            cand batch 'Answer a file of requests in OpenAI''s batch format'
            cand convert 'Turn a checkpoint in Google''s mobile layout into a pack'
            cand synth 'Write a model with random weights in a real shape, to measure with'
            cand inspect 'Show what a pack holds: geometry, tensors, bytes a token reads'
            cand verify 'Check every hash and every scale of a pack'
            cand compare 'Compare two packs, tensor family by tensor family'
            cand generate 'Continue token ids greedily: the plain interface for scripts and checks'
            cand eval 'Ask a file of questions and count the right answers'
            cand gate 'Compare greedy tokens with golden ones, or with another backend''s'
            cand bench 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine''s limit'
            cand doctor 'Show what this machine offers: instruction sets, kernels, memory and its speed'
            cand completions 'Print completions for a shell'
            cand man 'Write the manual pages'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'rawloop;help;chat'= {
        }
        &'rawloop;help;run'= {
        }
        &'rawloop;help;serve'= {
        }
        &'rawloop;help;op'= {
        }
        &'rawloop;help;pull'= {
        }
        &'rawloop;help;list'= {
        }
        &'rawloop;help;info'= {
        }
        &'rawloop;help;rm'= {
        }
        &'rawloop;help;batch'= {
        }
        &'rawloop;help;convert'= {
        }
        &'rawloop;help;synth'= {
        }
        &'rawloop;help;inspect'= {
        }
        &'rawloop;help;verify'= {
        }
        &'rawloop;help;compare'= {
        }
        &'rawloop;help;generate'= {
        }
        &'rawloop;help;eval'= {
        }
        &'rawloop;help;gate'= {
        }
        &'rawloop;help;bench'= {
        }
        &'rawloop;help;doctor'= {
        }
        &'rawloop;help;completions'= {
        }
        &'rawloop;help;man'= {
        }
        &'rawloop;help;help'= {
        }
    ]
    $completions[$command]
}
