
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'rawloop' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'rawloop'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'rawloop' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('chat', 'chat', [CompletionResultType]::ParameterValue, 'Talk to a model')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Answer one prompt')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a model over HTTP, with OpenAI''s and Ollama''s interfaces and a page to talk to it')
            [CompletionResult]::new('op', 'op', [CompletionResultType]::ParameterValue, 'Summarize, extract, translate, redact ...: one call for a text of any length')
            [CompletionResult]::new('pull', 'pull', [CompletionResultType]::ParameterValue, 'Fetch a model by name, check it and convert it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the models that have names, and what of them is here')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show where a model comes from and what of it is here')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove a pulled model')
            [CompletionResult]::new('batch', 'batch', [CompletionResultType]::ParameterValue, 'Answer a file of requests in OpenAI''s batch format')
            [CompletionResult]::new('convert', 'convert', [CompletionResultType]::ParameterValue, 'Turn a checkpoint in Google''s mobile layout into a pack')
            [CompletionResult]::new('synth', 'synth', [CompletionResultType]::ParameterValue, 'Write a model with random weights in a real shape, to measure with')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what a pack holds: geometry, tensors, bytes a token reads')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check every hash and every scale of a pack')
            [CompletionResult]::new('compare', 'compare', [CompletionResultType]::ParameterValue, 'Compare two packs, tensor family by tensor family')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Continue token ids greedily: the plain interface for scripts and checks')
            [CompletionResult]::new('eval', 'eval', [CompletionResultType]::ParameterValue, 'Ask a file of questions and count the right answers')
            [CompletionResult]::new('gate', 'gate', [CompletionResultType]::ParameterValue, 'Compare greedy tokens with golden ones, or with another backend''s')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine''s limit')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Show what this machine offers: instruction sets, kernels, memory and its speed')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print completions for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write the manual pages')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'rawloop;chat' {
            [CompletionResult]::new('--session', '--session', [CompletionResultType]::ParameterName, 'Keep the conversation in this file; one that is there is gone on with, in its own settings where no flag says otherwise')
            [CompletionResult]::new('--tools', '--tools', [CompletionResultType]::ParameterName, 'Commands that the model may run: declarations in OpenAI''s form, each with its command; a call is shown and asked for')
            [CompletionResult]::new('--tool-choice', '--tool-choice', [CompletionResultType]::ParameterName, 'Whether an answer may call tools: none, auto, required, or the name of the one to call [default: auto]')
            [CompletionResult]::new('--tool-rounds', '--tool-rounds', [CompletionResultType]::ParameterName, 'Rounds of calls before the model has to answer')
            [CompletionResult]::new('--allow', '--allow', [CompletionResultType]::ParameterName, 'Run calls of this tool without asking; may be repeated. Without a terminal nobody can be asked, and a call that needs it is not run')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Instructions that stand before the conversation')
            [CompletionResult]::new('--system', '--system', [CompletionResultType]::ParameterName, 'Instructions that stand before the conversation')
            [CompletionResult]::new('--thinking', '--thinking', [CompletionResultType]::ParameterName, 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens of an answer at most [default: 2048]')
            [CompletionResult]::new('--stop', '--stop', [CompletionResultType]::ParameterName, 'End the answer before this text; may be repeated')
            [CompletionResult]::new('--json-schema', '--json-schema', [CompletionResultType]::ParameterName, 'Answer in JSON that is valid under this schema: a file, or the schema itself')
            [CompletionResult]::new('--regex', '--regex', [CompletionResultType]::ParameterName, 'Answer with a text that this regular expression matches as a whole')
            [CompletionResult]::new('--grammar', '--grammar', [CompletionResultType]::ParameterName, 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf')
            [CompletionResult]::new('--choice', '--choice', [CompletionResultType]::ParameterName, 'Answer with one of the texts given by this flag; may be repeated')
            [CompletionResult]::new('--draft', '--draft', [CompletionResultType]::ParameterName, 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before')
            [CompletionResult]::new('--temperature', '--temperature', [CompletionResultType]::ParameterName, 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]')
            [CompletionResult]::new('--min-p', '--min-p', [CompletionResultType]::ParameterName, 'Drop candidates less likely than this share of the likeliest [default: 0, off]')
            [CompletionResult]::new('--typical', '--typical', [CompletionResultType]::ParameterName, 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]')
            [CompletionResult]::new('--repetition', '--repetition', [CompletionResultType]::ParameterName, 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]')
            [CompletionResult]::new('--presence', '--presence', [CompletionResultType]::ParameterName, 'Take this off the logits of tokens that the answer holds already [default: 0, off]')
            [CompletionResult]::new('--frequency', '--frequency', [CompletionResultType]::ParameterName, 'Take this off for each time the answer holds them [default: 0, off]')
            [CompletionResult]::new('--dry', '--dry', [CompletionResultType]::ParameterName, 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]')
            [CompletionResult]::new('--dry-base', '--dry-base', [CompletionResultType]::ParameterName, 'Factor for each further token of a repeated passage [default: 1.75]')
            [CompletionResult]::new('--dry-length', '--dry-length', [CompletionResultType]::ParameterName, 'Tokens that may repeat freely [default: 2]')
            [CompletionResult]::new('--penalty-window', '--penalty-window', [CompletionResultType]::ParameterName, 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]')
            [CompletionResult]::new('--bias', '--bias', [CompletionResultType]::ParameterName, 'Add to the logit of a token id, -100 to 100; may be repeated')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The same seed gives the same answer, on every machine [default: a new one each time]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--no-history', '--no-history', [CompletionResultType]::ParameterName, 'Neither read nor write the file with earlier inputs')
            [CompletionResult]::new('--plain', '--plain', [CompletionResultType]::ParameterName, 'Show answers as they come, without laying out their Markdown')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print each answer as one line of JSON: text, thoughts, calls with results, finish reason, timings')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Run every call without asking')
            [CompletionResult]::new('--allow-loops', '--allow-loops', [CompletionResultType]::ParameterName, 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"')
            [CompletionResult]::new('--greedy', '--greedy', [CompletionResultType]::ParameterName, 'Take the likeliest token every time; the same as --temperature 0')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;run' {
            [CompletionResult]::new('--n', '--n', [CompletionResultType]::ParameterName, 'Answer N times, each with the next seed; with --json the answers are a list')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'Instructions that stand before the conversation')
            [CompletionResult]::new('--system', '--system', [CompletionResultType]::ParameterName, 'Instructions that stand before the conversation')
            [CompletionResult]::new('--thinking', '--thinking', [CompletionResultType]::ParameterName, 'Let the model think first, at most N tokens where a number is given (--thinking=200); thoughts are shown apart from the answer')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens of an answer at most [default: 2048]')
            [CompletionResult]::new('--stop', '--stop', [CompletionResultType]::ParameterName, 'End the answer before this text; may be repeated')
            [CompletionResult]::new('--json-schema', '--json-schema', [CompletionResultType]::ParameterName, 'Answer in JSON that is valid under this schema: a file, or the schema itself')
            [CompletionResult]::new('--regex', '--regex', [CompletionResultType]::ParameterName, 'Answer with a text that this regular expression matches as a whole')
            [CompletionResult]::new('--grammar', '--grammar', [CompletionResultType]::ParameterName, 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf')
            [CompletionResult]::new('--choice', '--choice', [CompletionResultType]::ParameterName, 'Answer with one of the texts given by this flag; may be repeated')
            [CompletionResult]::new('--draft', '--draft', [CompletionResultType]::ParameterName, 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before')
            [CompletionResult]::new('--temperature', '--temperature', [CompletionResultType]::ParameterName, 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]')
            [CompletionResult]::new('--min-p', '--min-p', [CompletionResultType]::ParameterName, 'Drop candidates less likely than this share of the likeliest [default: 0, off]')
            [CompletionResult]::new('--typical', '--typical', [CompletionResultType]::ParameterName, 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]')
            [CompletionResult]::new('--repetition', '--repetition', [CompletionResultType]::ParameterName, 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]')
            [CompletionResult]::new('--presence', '--presence', [CompletionResultType]::ParameterName, 'Take this off the logits of tokens that the answer holds already [default: 0, off]')
            [CompletionResult]::new('--frequency', '--frequency', [CompletionResultType]::ParameterName, 'Take this off for each time the answer holds them [default: 0, off]')
            [CompletionResult]::new('--dry', '--dry', [CompletionResultType]::ParameterName, 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]')
            [CompletionResult]::new('--dry-base', '--dry-base', [CompletionResultType]::ParameterName, 'Factor for each further token of a repeated passage [default: 1.75]')
            [CompletionResult]::new('--dry-length', '--dry-length', [CompletionResultType]::ParameterName, 'Tokens that may repeat freely [default: 2]')
            [CompletionResult]::new('--penalty-window', '--penalty-window', [CompletionResultType]::ParameterName, 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]')
            [CompletionResult]::new('--bias', '--bias', [CompletionResultType]::ParameterName, 'Add to the logit of a token id, -100 to 100; may be repeated')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The same seed gives the same answer, on every machine [default: a new one each time]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Continue the text as it stands, without the chat format; <|turn> and the like are control tokens then')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print answer, thoughts, calls, finish reason, timings and labels as JSON')
            [CompletionResult]::new('--stats', '--stats', [CompletionResultType]::ParameterName, 'Print the speed on stderr')
            [CompletionResult]::new('--allow-loops', '--allow-loops', [CompletionResultType]::ParameterName, 'Let an answer repeat itself until --max-tokens; otherwise it is ended, with finish reason "loop"')
            [CompletionResult]::new('--greedy', '--greedy', [CompletionResultType]::ParameterName, 'Take the likeliest token every time; the same as --temperature 0')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;serve' {
            [CompletionResult]::new('--host', '--host', [CompletionResultType]::ParameterName, 'Address to listen on; one that other machines reach needs --api-key')
            [CompletionResult]::new('--port', '--port', [CompletionResultType]::ParameterName, 'Port to listen on; 0 takes a free one, which is printed')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'What requests call the model [default: the model''s name]')
            [CompletionResult]::new('--api-key', '--api-key', [CompletionResultType]::ParameterName, 'Requests need this key; may be repeated. Other users of this machine see a command line: --api-key-file hides it')
            [CompletionResult]::new('--api-key-file', '--api-key-file', [CompletionResultType]::ParameterName, 'Requests need one of the keys in this file, one a line')
            [CompletionResult]::new('--cors-origin', '--cors-origin', [CompletionResultType]::ParameterName, 'Let pages of this origin ask (`https://example.org`, or * for all); may be repeated')
            [CompletionResult]::new('--catalog', '--catalog', [CompletionResultType]::ParameterName, 'More models, or others of the same name: a file as docs/hub.md describes it')
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'Requests answered at the same time [default: as many as 4 GB of caches hold, at most 8]')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Requests that wait for a place; more are told to come back later')
            [CompletionResult]::new('--time-limit', '--time-limit', [CompletionResultType]::ParameterName, 'Seconds for a request, waiting included')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens of an answer where a request does not say')
            [CompletionResult]::new('--body-limit', '--body-limit', [CompletionResultType]::ParameterName, 'Megabytes of a request')
            [CompletionResult]::new('--cache', '--cache', [CompletionResultType]::ParameterName, 'Megabytes of caches that are kept for prompts that go on with them [default: 256, or four times what a request of the full --ctx takes where that is more]')
            [CompletionResult]::new('--prompt-share', '--prompt-share', [CompletionResultType]::ParameterName, 'Prompt tokens in a step that answers others at the same time: fewer keep those even, more answer a new request sooner')
            [CompletionResult]::new('--grace', '--grace', [CompletionResultType]::ParameterName, 'Seconds that answers have to end in when the server is told to stop')
            [CompletionResult]::new('--temperature', '--temperature', [CompletionResultType]::ParameterName, 'Divisor of the logits: below 1 safer, above 1 wilder [default: the model''s, 1.0 for Gemma 4]')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Keep so many candidates; 0 keeps all [default: the model''s, 64 for Gemma 4]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Keep the likeliest candidates that make up this much probability [default: the model''s, 0.95 for Gemma 4]')
            [CompletionResult]::new('--min-p', '--min-p', [CompletionResultType]::ParameterName, 'Drop candidates less likely than this share of the likeliest [default: 0, off]')
            [CompletionResult]::new('--typical', '--typical', [CompletionResultType]::ParameterName, 'Keep the candidates closest to the expected surprise, up to this probability [default: 1, off]')
            [CompletionResult]::new('--repetition', '--repetition', [CompletionResultType]::ParameterName, 'Divide the logits of tokens that occurred in prompt or answer [default: 1, off]')
            [CompletionResult]::new('--presence', '--presence', [CompletionResultType]::ParameterName, 'Take this off the logits of tokens that the answer holds already [default: 0, off]')
            [CompletionResult]::new('--frequency', '--frequency', [CompletionResultType]::ParameterName, 'Take this off for each time the answer holds them [default: 0, off]')
            [CompletionResult]::new('--dry', '--dry', [CompletionResultType]::ParameterName, 'Take X off the logit of a token that would repeat a passage of at least --dry-length tokens, and --dry-base times as much for each token that the passage is longer [default: 0, off; 0.8 is usual]')
            [CompletionResult]::new('--dry-base', '--dry-base', [CompletionResultType]::ParameterName, 'Factor for each further token of a repeated passage [default: 1.75]')
            [CompletionResult]::new('--dry-length', '--dry-length', [CompletionResultType]::ParameterName, 'Tokens that may repeat freely [default: 2]')
            [CompletionResult]::new('--penalty-window', '--penalty-window', [CompletionResultType]::ParameterName, 'Let only the last N tokens count for the penalties above; 0 lets all [default: 0]')
            [CompletionResult]::new('--bias', '--bias', [CompletionResultType]::ParameterName, 'Add to the logit of a token id, -100 to 100; may be repeated')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The same seed gives the same answer, on every machine [default: a new one each time]')
            [CompletionResult]::new('--draft', '--draft', [CompletionResultType]::ParameterName, 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--insecure-no-api-key', '--insecure-no-api-key', [CompletionResultType]::ParameterName, 'Let everybody in who can reach the address, without a key')
            [CompletionResult]::new('--pull', '--pull', [CompletionResultType]::ParameterName, 'Let requests fetch models of the catalog to this machine''s disk, as `rawloop pull` does and the page offers it')
            [CompletionResult]::new('--allow-special-tokens', '--allow-special-tokens', [CompletionResultType]::ParameterName, 'Read <|turn> and the like in prompts and messages as control tokens; otherwise they are text. Who writes a message can then end a turn and speak for the system')
            [CompletionResult]::new('--thinking', '--thinking', [CompletionResultType]::ParameterName, 'Let the model think where a request does not say')
            [CompletionResult]::new('--greedy', '--greedy', [CompletionResultType]::ParameterName, 'Take the likeliest token every time; the same as --temperature 0')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;op' {
            [CompletionResult]::new('--style', '--style', [CompletionResultType]::ParameterName, 'Style of summarize (one-line, concise, bullets) or rewrite (formal, friendly, simple ...)')
            [CompletionResult]::new('--to', '--to', [CompletionResultType]::ParameterName, 'Language of translate')
            [CompletionResult]::new('--labels', '--labels', [CompletionResultType]::ParameterName, 'Labels of classify, entities or redact, with commas between')
            [CompletionResult]::new('--fields', '--fields', [CompletionResultType]::ParameterName, 'Fields of extract, with types or not: "name, age:integer, tags:list"')
            [CompletionResult]::new('--schema', '--schema', [CompletionResultType]::ParameterName, 'File with the JSON schema of what extract gives')
            [CompletionResult]::new('--question', '--question', [CompletionResultType]::ParameterName, 'Question of answer')
            [CompletionResult]::new('--count', '--count', [CompletionResultType]::ParameterName, 'Most keywords')
            [CompletionResult]::new('--piece-tokens', '--piece-tokens', [CompletionResultType]::ParameterName, 'Tokens of a piece at most [default: what the context holds, at most what the operation is good for]')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens of an answer at most [default: the operation''s]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--list', '--list', [CompletionResultType]::ParameterName, 'List the operations and their options')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print the answer with what it took as JSON')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;pull' {
            [CompletionResult]::new('--catalog', '--catalog', [CompletionResultType]::ParameterName, 'More models, or others of the same name: a file as docs/hub.md describes it')
            [CompletionResult]::new('--revision', '--revision', [CompletionResultType]::ParameterName, 'Branch, tag or commit instead of the catalog''s')
            [CompletionResult]::new('--mirror', '--mirror', [CompletionResultType]::ParameterName, 'Another server with the hub''s paths')
            [CompletionResult]::new('--token-file', '--token-file', [CompletionResultType]::ParameterName, 'A file with the token, instead of HF_TOKEN')
            [CompletionResult]::new('--no-assistant', '--no-assistant', [CompletionResultType]::ParameterName, 'Leave out the drafter')
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Ask no server: what is in the cache has to do')
            [CompletionResult]::new('--drop-checkpoint', '--drop-checkpoint', [CompletionResultType]::ParameterName, 'Remove the files that this program fetched once the pack is there')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be fetched, and fetch nothing')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print what happens as lines of JSON')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress, only the result')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress, only the result')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;list' {
            [CompletionResult]::new('--catalog', '--catalog', [CompletionResultType]::ParameterName, 'More models, or others of the same name: a file as docs/hub.md describes it')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'The list as JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;info' {
            [CompletionResult]::new('--catalog', '--catalog', [CompletionResultType]::ParameterName, 'More models, or others of the same name: a file as docs/hub.md describes it')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Everything as JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;rm' {
            [CompletionResult]::new('--catalog', '--catalog', [CompletionResultType]::ParameterName, 'More models, or others of the same name: a file as docs/hub.md describes it')
            [CompletionResult]::new('--checkpoint', '--checkpoint', [CompletionResultType]::ParameterName, 'Remove the files that this program fetched for it too')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;batch' {
            [CompletionResult]::new('--parallel', '--parallel', [CompletionResultType]::ParameterName, 'Requests that are answered at the same time; every number gives the same answers')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print what was done as JSON')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;convert' {
            [CompletionResult]::new('--assistant', '--assistant', [CompletionResultType]::ParameterName, 'Folder of the assistant checkpoint (MTP drafter), which joins the pack')
            [CompletionResult]::new('--name', '--name', [CompletionResultType]::ParameterName, 'Name of the model in listings [default: the folder''s]')
            [CompletionResult]::new('--source', '--source', [CompletionResultType]::ParameterName, 'Repository the checkpoint came from, for the pack''s provenance')
            [CompletionResult]::new('--revision', '--revision', [CompletionResultType]::ParameterName, 'Revision of that repository')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print a summary as JSON on stdout')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;synth' {
            [CompletionResult]::new('--preset', '--preset', [CompletionResultType]::ParameterName, 'Shape: tiny, tiny-e4b, narrow-e2b, e2b, e4b, or a config.json')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'The weights follow from this number')
            [CompletionResult]::new('--shards', '--shards', [CompletionResultType]::ParameterName, 'Files the checkpoint''s weights are spread over')
            [CompletionResult]::new('--checkpoint', '--checkpoint', [CompletionResultType]::ParameterName, 'Write an official-layout checkpoint folder instead of a pack')
            [CompletionResult]::new('--assistant', '--assistant', [CompletionResultType]::ParameterName, 'Add an MTP drafter')
            [CompletionResult]::new('--ordered', '--ordered', [CompletionResultType]::ParameterName, 'Give the drafter the clustered head')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;inspect' {
            [CompletionResult]::new('--tensors', '--tensors', [CompletionResultType]::ParameterName, 'List every tensor with format, shape, offset and bytes')
            [CompletionResult]::new('--program', '--program', [CompletionResultType]::ParameterName, 'Print the stage program: what a token passes, stage by stage')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Everything as JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;verify' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'The result as JSON')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;compare' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'The result as JSON')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;generate' {
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--prompt-ids', '--prompt-ids', [CompletionResultType]::ParameterName, 'Prompt as token ids')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Prompt as a user''s message, in the chat format')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens to generate at most')
            [CompletionResult]::new('--temperature', '--temperature', [CompletionResultType]::ParameterName, '0 takes the most likely token every time')
            [CompletionResult]::new('--json-schema', '--json-schema', [CompletionResultType]::ParameterName, 'Answer in JSON that is valid under this schema: a file, or the schema itself')
            [CompletionResult]::new('--regex', '--regex', [CompletionResultType]::ParameterName, 'Answer with a text that this regular expression matches as a whole')
            [CompletionResult]::new('--grammar', '--grammar', [CompletionResultType]::ParameterName, 'Answer with a text of the grammar in this file: Lark, or GBNF in a file named *.gbnf')
            [CompletionResult]::new('--choice', '--choice', [CompletionResultType]::ParameterName, 'Answer with one of the texts given by this flag; may be repeated')
            [CompletionResult]::new('--draft', '--draft', [CompletionResultType]::ParameterName, 'Draft tokens and check several in one step, which changes the speed and not the answer: auto drafts as many as pay, a number that many, lookup only what the text has said before')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Take the text of --prompt as it stands, without the chat format; <|turn> and the like are control tokens then')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print prompt ids, output ids, finish reason, timings and labels as JSON')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;eval' {
            [CompletionResult]::new('--tasks', '--tasks', [CompletionResultType]::ParameterName, 'Questions')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Ask only the first N')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens of an answer at most')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--thinking', '--thinking', [CompletionResultType]::ParameterName, 'Let the model think first, where the question is not a rendered prompt')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print the result and every answer as JSON')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;gate' {
            [CompletionResult]::new('--goldens', '--goldens', [CompletionResultType]::ParameterName, 'Golden transcripts (goldens/README.md)')
            [CompletionResult]::new('--against', '--against', [CompletionResultType]::ParameterName, 'Compare with this backend''s tokens instead of the golden ones')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'Use only the first N prompts')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Tokens behind each prompt at most [default: as many as the golden answer has]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print the result as JSON')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;bench' {
            [CompletionResult]::new('--tokens', '--tokens', [CompletionResultType]::ParameterName, 'Tokens to generate in a decode round, at least 5')
            [CompletionResult]::new('--prompts', '--prompts', [CompletionResultType]::ParameterName, 'Prompt lengths of prefill [default: 512,1024,4096]')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'Rounds that count, after the cold one')
            [CompletionResult]::new('--contexts', '--contexts', [CompletionResultType]::ParameterName, 'Also measure decode behind so many tokens [without a value: 0,1024,4096,8192]')
            [CompletionResult]::new('--temperature', '--temperature', [CompletionResultType]::ParameterName, 'Also measure a run whose tokens are drawn, at this temperature')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Candidates of --temperature; 0 keeps all [default: the model''s, 64 for Gemma 4]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Probability that candidates of --temperature make up [default: the model''s, 0.95 for Gemma 4]')
            [CompletionResult]::new('--draft', '--draft', [CompletionResultType]::ParameterName, 'Also measure a run with N tokens drafted before each step: drafts a second, what verifying them takes, how many are right; drawn where there is a --temperature')
            [CompletionResult]::new('--compare', '--compare', [CompletionResultType]::ParameterName, 'Compare with a shell command that prints tokens per second as its last number')
            [CompletionResult]::new('--compare-prefill', '--compare-prefill', [CompletionResultType]::ParameterName, 'What --compare measures on our side: prefill of N tokens [default: decode]')
            [CompletionResult]::new('--svg', '--svg', [CompletionResultType]::ParameterName, 'Draw tokens per second against context; implies --contexts')
            [CompletionResult]::new('--record', '--record', [CompletionResultType]::ParameterName, 'Keep the JSON as DIR/MACHINE/DATE-MODEL-WHAT.json')
            [CompletionResult]::new('--machine', '--machine', [CompletionResultType]::ParameterName, 'Name of this machine in records [default: the processor''s name and its threads]')
            [CompletionResult]::new('-m', '-m', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--model', '--model', [CompletionResultType]::ParameterName, 'Pack (*.rlp), checkpoint folder, which is converted once and kept, or name of a pulled model [default: the small model in this program]')
            [CompletionResult]::new('--backend', '--backend', [CompletionResultType]::ParameterName, 'What runs the model: the CPU kernels, a CUDA device, any graphics adapter, a CUDA device where there is one, or the slow reference they must equal')
            [CompletionResult]::new('--arithmetic', '--arithmetic', [CompletionResultType]::ParameterName, 'Arithmetic of the linears; exact is int8 x intN -> int32 (docs/spec.md)')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads; every number gives the same bytes [default: one for each big core this process may use]')
            [CompletionResult]::new('--kernels', '--kernels', [CompletionResultType]::ParameterName, 'Kernel table: portable, avx2, avx512vnni ... (rawloop doctor lists them) [default: the fastest here]')
            [CompletionResult]::new('--chunk', '--chunk', [CompletionResultType]::ParameterName, 'Prompt tokens per prefill step; every width gives the same bytes [default: what the backend says suits it: 256, on a CUDA device the 1024 of one pass]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Storage of keys and values')
            [CompletionResult]::new('--adapter', '--adapter', [CompletionResultType]::ParameterName, 'The adapter of --backend wgpu: a number of `rawloop doctor`''s list or a part of its name [default: the first that is no software]')
            [CompletionResult]::new('--ple', '--ple', [CompletionResultType]::ParameterName, 'Where the per-layer embeddings lie with --backend cuda or wgpu: E2B''s take 1.2 GB, and a token reads 4.6 KB of them [default: host with cuda, device with wgpu]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Positions of context [default: what the model was trained for, at most 32768]')
            [CompletionResult]::new('--stages', '--stages', [CompletionResultType]::ParameterName, 'Also show time, bytes and products by stage kind')
            [CompletionResult]::new('--verify', '--verify', [CompletionResultType]::ParameterName, 'Also measure verification of 2 to 8 tokens at once, and drafts, in units of one decode step')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print the result as JSON')
            [CompletionResult]::new('--startup', '--startup', [CompletionResultType]::ParameterName, 'Load, take one step, say how long it took: what a fresh process is started for')
            [CompletionResult]::new('--affinity', '--affinity', [CompletionResultType]::ParameterName, 'Keep each thread on a core of its own, biggest cores first; off, because other programs may want these cores')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress bar')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;doctor' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'The result as JSON')
            [CompletionResult]::new('--no-measure', '--no-measure', [CompletionResultType]::ParameterName, 'Do not measure the memory (half a second)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;completions' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;man' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            break
        }
        'rawloop;help' {
            [CompletionResult]::new('chat', 'chat', [CompletionResultType]::ParameterValue, 'Talk to a model')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Answer one prompt')
            [CompletionResult]::new('serve', 'serve', [CompletionResultType]::ParameterValue, 'Serve a model over HTTP, with OpenAI''s and Ollama''s interfaces and a page to talk to it')
            [CompletionResult]::new('op', 'op', [CompletionResultType]::ParameterValue, 'Summarize, extract, translate, redact ...: one call for a text of any length')
            [CompletionResult]::new('pull', 'pull', [CompletionResultType]::ParameterValue, 'Fetch a model by name, check it and convert it')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the models that have names, and what of them is here')
            [CompletionResult]::new('info', 'info', [CompletionResultType]::ParameterValue, 'Show where a model comes from and what of it is here')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove a pulled model')
            [CompletionResult]::new('batch', 'batch', [CompletionResultType]::ParameterValue, 'Answer a file of requests in OpenAI''s batch format')
            [CompletionResult]::new('convert', 'convert', [CompletionResultType]::ParameterValue, 'Turn a checkpoint in Google''s mobile layout into a pack')
            [CompletionResult]::new('synth', 'synth', [CompletionResultType]::ParameterValue, 'Write a model with random weights in a real shape, to measure with')
            [CompletionResult]::new('inspect', 'inspect', [CompletionResultType]::ParameterValue, 'Show what a pack holds: geometry, tensors, bytes a token reads')
            [CompletionResult]::new('verify', 'verify', [CompletionResultType]::ParameterValue, 'Check every hash and every scale of a pack')
            [CompletionResult]::new('compare', 'compare', [CompletionResultType]::ParameterValue, 'Compare two packs, tensor family by tensor family')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Continue token ids greedily: the plain interface for scripts and checks')
            [CompletionResult]::new('eval', 'eval', [CompletionResultType]::ParameterValue, 'Ask a file of questions and count the right answers')
            [CompletionResult]::new('gate', 'gate', [CompletionResultType]::ParameterValue, 'Compare greedy tokens with golden ones, or with another backend''s')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure a model on this machine: decode, prefill, loading, memory, each against the machine''s limit')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Show what this machine offers: instruction sets, kernels, memory and its speed')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print completions for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Write the manual pages')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'rawloop;help;chat' {
            break
        }
        'rawloop;help;run' {
            break
        }
        'rawloop;help;serve' {
            break
        }
        'rawloop;help;op' {
            break
        }
        'rawloop;help;pull' {
            break
        }
        'rawloop;help;list' {
            break
        }
        'rawloop;help;info' {
            break
        }
        'rawloop;help;rm' {
            break
        }
        'rawloop;help;batch' {
            break
        }
        'rawloop;help;convert' {
            break
        }
        'rawloop;help;synth' {
            break
        }
        'rawloop;help;inspect' {
            break
        }
        'rawloop;help;verify' {
            break
        }
        'rawloop;help;compare' {
            break
        }
        'rawloop;help;generate' {
            break
        }
        'rawloop;help;eval' {
            break
        }
        'rawloop;help;gate' {
            break
        }
        'rawloop;help;bench' {
            break
        }
        'rawloop;help;doctor' {
            break
        }
        'rawloop;help;completions' {
            break
        }
        'rawloop;help;man' {
            break
        }
        'rawloop;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
