"""Decoders with random weights, exported by current exporters, converted with free sizes, and compared with onnxruntime.

usage: decoders.py export FOLDER [--match RE] [--big]
       decoders.py check FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/decoders.md]
       decoders.py chain FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/decoders.md]
       decoders.py big FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/decoders.md]

`export` writes FOLDER/NAME/model.onnx; it needs the packages of benches/exporters.txt, and no network. `check` needs numpy, onnx,
onnxruntime and ncnn. Each network is converted with the lengths of past and sequence free, and one net is run at several lengths, each
in a process of its own. An empty past is given as a Mat with an axis of no elements. `chain` converts the decoders with plain caches and
with `--kv-cache`, runs both by `examples/decoder` from an empty cache, and writes the second table of the file, after the first.
`export --big` writes decoders of more than 1 GB, and `big` measures their conversion beside `cp` and writes the third table; FOLDER needs 5 GB.
"""
import json, os, statistics, subprocess, sys, tempfile, time

from exported import Conversion, cell, compare, export_all, exported, model_of, open_session, parser, save, table, write

TOLERANCE = 1e-5
TITLE = "# Decoders"
HEAD = """Written by `decoders.py check`: decoders with random weights from the exporters of `exporters.txt`, converted with the lengths of cache and
prompt free. The numbers are the largest errors beside onnxruntime, as a part of the largest magnitude of an output, of one net at several
lengths. The size is that of the `.bin` file as a part of the constants of the model; `--weights keep` keeps weights in blocks of four bits.

"""
CHAIN_TITLE = "## Caches of the runtime"
CHAIN_HEAD = """Written by `decoders.py chain`: greedy steps of the decoders among them, from an empty cache and a prompt of 6 tokens, of the net with
`--kv-cache` and of that with plain caches. The error is the largest of all logits beside onnxruntime, as a part of their largest magnitude.
Layers are those from the last SDPA but one to the last, and of the whole nets. Times are the least of 20 steps of one token at a cache of
about 100, in milliseconds, on one thread.

"""
BIG_TITLE = "## A decoder of 1 GB"
BIG_HEAD = """Written by `decoders.py big`: a llama whose weights of float32 are in a file beside the model, converted with the lengths of cache and
prompt free, beside `cp` of both files. Times are the medians of {rounds} rounds in turns, in seconds; the ratio is that of the medians. The memory is the
largest that was resident, pages of mapped files included. The errors are those of the first table.

"""
PROMPT, STEPS = [5, 17, 3, 88, 41, 9], 32
CHAIN_TOLERANCE = 1e-4
# (past, sequence)
LENGTHS = [(7, 1), (5, 4), (31, 1), (0, 6)]
LENGTH_HEADS = [f"past {past}, {sequence} tokens" for past, sequence in LENGTHS]
BIG_ROUNDS = 7
SIZES = dict(vocab_size=160, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128)
GROUPED = dict(SIZES, num_key_value_heads=2)
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**GROUPED, **TOKENS))


def qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**GROUPED, **TOKENS))


def qwen3():
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**GROUPED, **TOKENS, head_dim=16))


def smollm3():
    from transformers import SmolLM3Config, SmolLM3ForCausalLM

    return SmolLM3ForCausalLM(SmolLM3Config(**dict(GROUPED, num_hidden_layers=4), **TOKENS, no_rope_layers=[1, 1, 1, 0]))


def smollm3_with_positions():
    """SmolLM3 with positions in all layers: in others the nodes of onnxruntime-genai's builder lack an input, and onnxruntime does not load them."""
    from transformers import SmolLM3Config, SmolLM3ForCausalLM

    return SmolLM3ForCausalLM(SmolLM3Config(**GROUPED, **TOKENS, no_rope_layers=[1, 1]))


def phi3():
    from transformers import Phi3Config, Phi3ForCausalLM

    return Phi3ForCausalLM(Phi3Config(**GROUPED, **TOKENS, original_max_position_embeddings=128))


def gemma2():
    from transformers import Gemma2Config, Gemma2ForCausalLM

    # Larger weights than by default: logits near 0 are lost in the error of the runtime's tanh, which is absolute.
    return Gemma2ForCausalLM(Gemma2Config(**GROUPED, **TOKENS, head_dim=16, query_pre_attn_scalar=16, sliding_window=64, initializer_range=0.2))


def gemma3():
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    kinds = ["sliding_attention", "full_attention"] * 2
    config = Gemma3TextConfig(**dict(GROUPED, num_hidden_layers=4), **TOKENS, head_dim=16, query_pre_attn_scalar=16, sliding_window=64, layer_types=kinds)
    return Gemma3ForCausalLM(config)


def gemma():
    from transformers import GemmaConfig, GemmaForCausalLM

    return GemmaForCausalLM(GemmaConfig(**GROUPED, **TOKENS, head_dim=16))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=160, n_embd=64, n_layer=2, n_head=4, n_positions=128, **TOKENS))


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(vocab_size=160, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0))


def marian():
    from transformers import MarianConfig, MarianMTModel

    sizes = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96)
    return MarianMTModel(MarianConfig(vocab_size=160, **sizes, max_position_embeddings=128, **TOKENS, decoder_start_token_id=0))


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96)
    config = WhisperConfig(vocab_size=160, num_mel_bins=80, **sizes, max_source_positions=1500, max_target_positions=64, **TOKENS, decoder_start_token_id=1)
    return WhisperForConditionalGeneration(config)


def moonshine():
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration

    sizes = dict(hidden_size=64, intermediate_size=96, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4)
    config = MoonshineConfig(vocab_size=160, **sizes, encoder_num_key_value_heads=4, decoder_num_key_value_heads=4, max_position_embeddings=128, **TOKENS, decoder_start_token_id=1)
    return MoonshineForConditionalGeneration(config)


def by_optimum(model, folder, external=False):
    from optimum.exporters.onnx import onnx_export_from_model

    if model.config.is_encoder_decoder:
        task = "automatic-speech-recognition-with-past" if hasattr(model.config, "num_mel_bins") or model.config.model_type == "moonshine" else "text2text-generation-with-past"
    else:
        task = "text-generation-with-past"
    with tempfile.TemporaryDirectory() as written:
        onnx_export_from_model(model, written, task=task, do_validation=False, no_post_process=True)
        names = sorted(os.listdir(written))
        wanted = "decoder_with_past_model.onnx" if "decoder_with_past_model.onnx" in names else "model.onnx"
        save(os.path.join(written, wanted), folder, external)


def by_dynamo(model, folder, external=False):
    import torch
    from transformers.cache_utils import DynamicCache

    class Step(torch.nn.Module):
        """A decoder with its cache as a list of tensors."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, past):
            cache = DynamicCache()
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            presents = []
            for layer in result.past_key_values.layers:
                presents += [layer.keys, layer.values]
            return (result.logits, *presents)

    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    layers, past, seq = config.num_hidden_layers, 5, 3
    caches = [torch.randn(1, heads, past, size) for _ in range(2 * layers)]
    p, s = torch.export.Dim("past", min=1, max=100), torch.export.Dim("sequence", min=1, max=100)
    shapes = {"input_ids": {1: s}, "attention_mask": {1: torch.export.Dim.DYNAMIC}, "past": [{2: p} for _ in caches]}
    args = (torch.ones(1, seq, dtype=torch.int64), torch.ones(1, past + seq, dtype=torch.int64), caches)
    names = ["input_ids", "attention_mask"] + [f"past.{i // 2}.{'kv'[i % 2]}" for i in range(2 * layers)]
    presents = [f"present.{i // 2}.{'kv'[i % 2]}" for i in range(2 * layers)]
    with tempfile.TemporaryDirectory() as written:
        path = os.path.join(written, "model.onnx")
        torch.onnx.export(Step().eval(), args, path, dynamo=True, input_names=names, output_names=["logits", *presents], dynamic_shapes=shapes, external_data=external)
        save(path, folder, external)


def by_genai(precision):
    def export(model, folder):
        from onnxruntime_genai.models import builder

        for name in ("make_genai_config", "save_processing"):
            setattr(builder.Model, name, lambda *args, **kwargs: None)
        with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as written, tempfile.TemporaryDirectory() as cache:
            model.save_pretrained(source)
            builder.create_model("", source, written, precision, "cpu", cache, **({"int4_accuracy_level": 0, "int4_block_size": 32} if precision == "int4" else {}))
            save(os.path.join(written, "model.onnx"), folder)

    return export


DECODERS = [llama, qwen2, qwen3, smollm3, phi3, gemma2, gemma3, gpt2]
# Networks whose decoder also reads an encoder.
ENCODED = ["t5", "marian", "whisper", "moonshine"]
NETWORKS = {f"{model.__name__}_optimum": (model, by_optimum) for model in [*DECODERS, t5, marian, whisper, moonshine]}
NETWORKS |= {f"{model.__name__}_dynamo": (model, by_dynamo) for model in DECODERS}
for model in [llama, qwen2, qwen3, smollm3_with_positions, phi3, gemma]:
    for precision in ["fp32", "int4"]:
        NETWORKS[f"{model.__name__}_genai_{precision}"] = (model, by_genai(precision))


def big_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=32000, hidden_size=1536, intermediate_size=4096, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8)
    return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=2048, **TOKENS))


BIG = {"llama_optimum": by_optimum, "llama_dynamo": by_dynamo}


def export(arguments):
    if arguments.big:
        return export_all(BIG, arguments, lambda exporter, folder: exporter(big_llama().eval(), folder, external=True))
    export_all(NETWORKS, arguments, lambda network, folder: network[1](network[0]().eval().float(), folder))


def sizes_of(name, shape, past, sequence):
    """The sizes of an input: of the free ones the first is the batch; the exporters name the others."""
    encoder = 9
    sizes = []
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size > 0:
            sizes.append(size)
        elif axis == 0:
            sizes.append(1)
        elif "encoder" in name:
            sizes.append(encoder)
        elif "mask" in name:
            sizes.append(past + sequence)
        elif name.startswith("past"):
            sizes.append(past)
        else:
            sizes.append(sequence)
    return sizes


def compare_at(folder, net, past, sequence):
    import numpy as np

    session = open_session(folder)
    generator = np.random.default_rng(past * 100 + sequence)
    feeds = {}
    for node in session.get_inputs():
        sizes = sizes_of(node.name, node.shape, past, sequence)
        if "float" in node.type:
            feeds[node.name] = generator.normal(size=sizes).astype(np.float32)
        elif "mask" in node.name:
            feeds[node.name] = np.ones(sizes, np.int64)
        elif "position" in node.name:
            feeds[node.name] = np.arange(past, past + sequence).reshape(sizes)
        else:
            feeds[node.name] = generator.integers(3, 150, sizes)
    compare(folder, net, session, feeds)


def weight_bytes(path):
    """The bytes of the constants of a model."""
    import onnx

    return sum(len(tensor.raw_data) for tensor in onnx.load(path).graph.initializer)


def check(arguments):
    rows = []
    for name, folder in exported(NETWORKS, arguments).items():
        # Weights in blocks are converted to floats, and kept.
        for options in [[], ["--weights", "keep"]] if name.endswith("int4") else [[]]:
            title = " ".join([name, *options])
            conversion = Conversion(arguments.convert, folder, options=options)
            if conversion.succeeded:
                results = [cell(conversion.compare(__file__, *lengths), TOLERANCE) for lengths in LENGTHS]
                size = f"{os.path.getsize(conversion.path('bin')) / weight_bytes(model_of(folder)):.3f}"
                rows.append([title, "converted", *results, f"{len(conversion.layers())} layers", size, conversion.conditions()])
            else:
                rows.append([title, "refused", conversion.reason()])
            print(" | ".join(rows[-1]), flush=True)
    if arguments.out:
        heads = ["network", "", *LENGTH_HEADS, "layers", "size", "conditions"]
        write(arguments.out, TITLE, HEAD + table(heads, rows))


def reference(session):
    """The greedy tokens of onnxruntime, and the logits of each step."""
    import numpy as np

    past = {node.name: np.zeros([1, node.shape[1], 0, node.shape[3]], np.float32) for node in session.get_inputs() if node.name.startswith("past")}
    names = [node.name for node in session.get_outputs()]
    given, length, tokens, logits = PROMPT, 0, [], []
    for _ in range(STEPS):
        length += len(given)
        feeds = {"input_ids": np.array([given]), "attention_mask": np.ones([1, length], np.int64), "position_ids": np.arange(length - len(given), length)[None]}
        wanted = {node.name for node in session.get_inputs()}
        results = dict(zip(names, session.run(None, {name: array for name, array in {**feeds, **past}.items() if name in wanted})))
        past = dict(zip(past, [array for name, array in results.items() if name.startswith("present")]))
        logits.append(results["logits"][0, -1])
        given = [int(logits[-1].argmax())]
        tokens += given
    return tokens, np.array(logits)


def follow(folder, name):
    """Prints the tokens, the error and the time of a step of a converted net."""
    import numpy as np

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "decoder"))
    from decoder import Decoder

    expected, wanted = reference(open_session(folder))
    decoder = Decoder(*[os.path.join(folder, f"{name}.{ending}") for ending in ["param", "bin", "json"]], num_threads=1)
    given, tokens, logits = PROMPT, [], []
    for _ in range(STEPS):
        logits.append(decoder.step(given))
        given = [int(logits[-1].argmax())]
        tokens += given
    # The chain again, to a cache of about 100.
    decoder.clear()
    decoder.step(PROMPT * 16)
    times = []
    for _ in range(20):
        started = time.perf_counter()
        decoder.step([7])
        times.append(time.perf_counter() - started)
    error = float(np.abs(np.array(logits) - wanted).max() / np.abs(wanted).max())
    print(json.dumps({"same": tokens == expected, "error": error, "ms": min(times) * 1e3}))


def chain(arguments):
    rows = []
    for name, folder in exported([name for name in NETWORKS if name.split("_")[0] not in ENCODED], arguments).items():
        cells, layers, block = [], [], ""
        for net, more in [("kept", ["--kv-cache"]), ("plain", [])]:
            conversion = Conversion(arguments.convert, folder, net, more)
            if not conversion.succeeded:
                cells += ["refused: " + conversion.reason()]
                break
            kinds = conversion.layers()
            layers.append(str(len(kinds)))
            places = [place for place, kind in enumerate(kinds) if kind == "SDPA"]
            # Layers that blocks share belong to none of them: the last block has no others.
            block = block or str(places[-1] - places[-2])
            one = subprocess.run([sys.executable, __file__, "follow", folder, net], capture_output=True, text=True)
            try:
                found = json.loads(one.stdout.splitlines()[-1])
            except (ValueError, IndexError):
                cells += [(one.stderr.splitlines() or ["died"])[-1][:120], ""]
                continue
            right = found["same"] and found["error"] <= CHAIN_TOLERANCE
            cells += [f"{found['error']:.0e}" + ("" if right else " WRONG"), f"{found['ms']:.2f}"]
        rows.append([name, *([*cells[:2], block, layers[0], *cells[2:], layers[1]] if len(cells) == 4 else cells)])
        print(" | ".join(rows[-1]), flush=True)
    if arguments.out:
        heads = ["network", "error", "time", "layers of a block", "of the net", "error, plain", "time", "layers"]
        write(arguments.out, CHAIN_TITLE, CHAIN_HEAD + table(heads, rows))


def measured(command, written):
    """The time of a command and its largest resident memory in bytes; the files that it writes are removed.

    The first of two runs does not count: free memory that a virtual machine has given back costs more than the copy."""
    for _ in range(2):
        subprocess.run(["sync"], check=True)
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - started
        assert process.returncode == 0, command
        for path in written:
            os.remove(path)
    return taken, usage.ru_maxrss * 1024


def big(arguments):
    rows = []
    for name, folder in exported(BIG, arguments).items():
        conversion = Conversion(arguments.convert, folder)
        assert conversion.succeeded, conversion.reason()
        errors = [cell(conversion.compare(__file__, *lengths), TOLERANCE) for lengths in LENGTHS]
        written = [conversion.path(ending) for ending in ["param", "bin", "json"]]
        models = [model_of(folder), os.path.join(folder, "model.data")]
        copies = [path + ".copy" for path in models]
        paths = dict(zip(["model", "param", "bin", "report"], [models[0], *written]))
        convert = [part.format(**paths) for part in arguments.convert.split()]
        copy = ["sh", "-c", 'cp "$1" "$3" && cp "$2" "$4"', "sh", *models, *copies]
        times, memory = {"convert": [], "cp": []}, 0
        for place in range(BIG_ROUNDS):
            for kind in ["convert", "cp"] if place % 2 else ["cp", "convert"]:
                taken, resident = measured(*((convert, written) if kind == "convert" else (copy, copies)))
                times[kind].append(taken)
                memory = max(memory, resident if kind == "convert" else 0)
        convert, copy = (statistics.median(all) for all in times.values())
        size = sum(map(os.path.getsize, models)) / 1e9
        rows.append([name, *errors, f"{size:.2f} GB", f"{convert:.2f}", f"{copy:.2f}", f"{convert / copy:.2f}", f"{memory / 1e6:.0f} MB"])
        print(" | ".join(rows[-1]), flush=True)
    if arguments.out:
        heads = ["network", *LENGTH_HEADS, "files", "conversion", "cp", "ratio", "memory"]
        write(arguments.out, BIG_TITLE, BIG_HEAD.format(rounds=BIG_ROUNDS) + table(heads, rows))


def main():
    if sys.argv[1:2] == ["compare"]:
        return compare_at(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    if sys.argv[1:2] == ["follow"]:
        return follow(sys.argv[2], sys.argv[3])
    arguments = parser(__doc__, "export", "check", "chain", "big")
    arguments.add_argument("--big", action="store_true")
    arguments = arguments.parse_args()
    {"export": export, "check": check, "chain": chain, "big": big}[arguments.command](arguments)


if __name__ == "__main__":
    main()
