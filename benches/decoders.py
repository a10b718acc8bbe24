"""Decoders with random weights, exported by current exporters, converted with free sizes, and compared with onnxruntime.

usage: decoders.py export FOLDER [--match RE]
       decoders.py check FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/decoders.md]
       decoders.py chain FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/decoders.md]

`export` writes FOLDER/NAME/model.onnx; it needs the packages of benches/decoders.txt, and no network. `check` needs numpy, onnx,
onnxruntime and ncnn. Each network is converted with the lengths of past and sequence free, and one net is run at several lengths, each
in a process of its own. An empty past is given as a Mat with an axis of no elements. `chain` converts the decoders with plain caches and
with `--kv-cache`, runs both by `examples/decoder` from an empty cache, and writes the second table of the file, after the first.
"""
import argparse, json, os, re, shutil, subprocess, sys, tempfile

TOLERANCE = 1e-5
HEAD = """# Decoders

Written by `decoders.py check`: decoders with random weights from the exporters of `decoders.txt`, converted with the lengths of cache and
prompt free. The numbers are the largest errors beside onnxruntime, as a part of the largest magnitude of an output, of one net at several
lengths. The size is that of the `.bin` file as a part of the constants of the model; `--weights keep` keeps weights in blocks of four bits.

"""
CHAIN_TITLE = "## Caches of the runtime"
CHAIN_HEAD = """

Written by `decoders.py chain`: greedy steps of the decoders among them, from an empty cache and a prompt of 6 tokens, of the net with
`--kv-cache` and of that with plain caches. The error is the largest of all logits beside onnxruntime, as a part of their largest magnitude.
Layers are those from the last SDPA but one to the last, and of the whole nets. Times are the least of 20 steps of one token at a cache of
about 100, in milliseconds, on one thread.

"""
PROMPT, STEPS = [5, 17, 3, 88, 41, 9], 32
CHAIN_TOLERANCE = 1e-4
# (past, sequence)
LENGTHS = [(7, 1), (5, 4), (31, 1), (0, 6)]
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


def by_optimum(model, folder):
    from optimum.exporters.onnx import onnx_export_from_model

    if model.config.is_encoder_decoder:
        task = "automatic-speech-recognition-with-past" if hasattr(model.config, "num_mel_bins") or model.config.model_type == "moonshine" else "text2text-generation-with-past"
    else:
        task = "text-generation-with-past"
    with tempfile.TemporaryDirectory() as exported:
        onnx_export_from_model(model, exported, task=task, do_validation=False, no_post_process=True)
        names = sorted(os.listdir(exported))
        wanted = "decoder_with_past_model.onnx" if "decoder_with_past_model.onnx" in names else "model.onnx"
        save(os.path.join(exported, wanted), folder)


def by_dynamo(model, folder):
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
    with tempfile.TemporaryDirectory() as exported:
        path = os.path.join(exported, "model.onnx")
        torch.onnx.export(Step().eval(), args, path, dynamo=True, input_names=names, output_names=["logits", *presents], dynamic_shapes=shapes, external_data=False)
        save(path, folder)


def by_genai(precision):
    def export(model, folder):
        from onnxruntime_genai.models import builder

        for name in ("make_genai_config", "save_processing"):
            setattr(builder.Model, name, lambda *args, **kwargs: None)
        with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as exported, tempfile.TemporaryDirectory() as cache:
            model.save_pretrained(source)
            builder.create_model("", source, exported, precision, "cpu", cache, **({"int4_accuracy_level": 0, "int4_block_size": 32} if precision == "int4" else {}))
            save(os.path.join(exported, "model.onnx"), folder)

    return export


def save(path, folder):
    """One file with its weights inside."""
    import onnx

    os.makedirs(folder, exist_ok=True)
    onnx.save(onnx.load(path), os.path.join(folder, "model.onnx"))


DECODERS = [llama, qwen2, qwen3, smollm3, phi3, gemma2, gemma3, gpt2]
# Networks whose decoder also reads an encoder.
ENCODED = ["t5", "marian", "whisper", "moonshine"]
NETWORKS = {f"{model.__name__}_optimum": (model, by_optimum) for model in [*DECODERS, t5, marian, whisper, moonshine]}
NETWORKS |= {f"{model.__name__}_dynamo": (model, by_dynamo) for model in DECODERS}
for model in [llama, qwen2, qwen3, smollm3_with_positions, phi3, gemma]:
    for precision in ["fp32", "int4"]:
        NETWORKS[f"{model.__name__}_genai_{precision}"] = (model, by_genai(precision))


def export(arguments):
    import torch, traceback

    for name, (model, exporter) in NETWORKS.items():
        folder = os.path.join(arguments.folder, name)
        if not re.search(arguments.match, name) or os.path.exists(os.path.join(folder, "model.onnx")):
            continue
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                exporter(model().eval().float(), folder)
            print("exported", name, flush=True)
        except Exception:
            print("not exported", name, traceback.format_exc(), flush=True)


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


def compare(folder, past, sequence):
    """Prints the largest error of each output, relative to its largest magnitude."""
    import ncnn, numpy as np, onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Beyond this, weights are rounded to narrower types for speed.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
    report = json.load(open(os.path.join(folder, "report.json")))
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
    expected = dict(zip([node.name for node in session.get_outputs()], session.run(None, feeds)))
    net = ncnn.Net()
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, f"use_{option}", False)
    assert net.load_param(os.path.join(folder, "net.param")) == 0 and net.load_model(os.path.join(folder, "net.bin")) == 0
    extractor = net.create_extractor()
    for port in report["net"]["inputs"]:
        array = feeds[port["name"]]
        array = array.astype(np.int32 if port["int32"] else np.float32)
        if array.ndim > 1 and array.shape[0] == 1:
            array = array[0]
        assert extractor.input(port["blob"], ncnn.Mat(np.ascontiguousarray(array)).clone() if array.size else empty(ncnn, array.shape)) == 0
    errors = {}
    for port in report["net"]["outputs"]:
        code, mat = extractor.extract(port["blob"])
        wanted = expected[port["name"]]
        if code != 0 or mat.empty() or np.array(mat).size != wanted.size:
            errors[port["blob"]] = None
            continue
        got = np.array(mat)
        errors[port["blob"]] = float(np.abs(got.reshape(wanted.shape) - wanted).max(initial=0) / (np.abs(wanted).max(initial=0) or 1))
    print(json.dumps(errors))


def empty(ncnn, shape):
    return ncnn.Mat(*reversed(shape))


def weight_bytes(path):
    """The bytes of the constants of a model."""
    import onnx

    return sum(len(tensor.raw_data) for tensor in onnx.load(path).graph.initializer)


def check(arguments):
    rows = []
    # Weights in blocks are converted to floats, and kept.
    runs = [(name, options) for name in NETWORKS for options in ([""] + ["--weights keep"] * name.endswith("int4"))]
    for name, options in runs:
        folder = os.path.join(arguments.folder, name)
        if not re.search(arguments.match, name) or not os.path.exists(os.path.join(folder, "model.onnx")):
            continue
        title = f"{name} {options}".strip()
        paths = {word: os.path.join(folder, file) for word, file in [("model", "model.onnx"), ("param", "net.param"), ("bin", "net.bin"), ("report", "report.json")]}
        command = [part.format(**paths) for part in arguments.convert.split() + options.split()]
        run = subprocess.run(command, capture_output=True, text=True)
        log = os.path.join(folder, "log.txt")
        with open(log, "w") as file:
            file.write(run.stdout + run.stderr)
        if run.returncode != 0:
            reason = next((line for line in run.stderr.splitlines() if ":" in line), "")
            rows.append([title, "refused", reason[:160]])
        else:
            results = []
            for past, sequence in LENGTHS:
                one = subprocess.run([sys.executable, __file__, "compare", folder, str(past), str(sequence)], capture_output=True, text=True)
                try:
                    errors = json.loads(one.stdout.splitlines()[-1])
                    worst = max(errors.values(), key=lambda error: float("inf") if error is None or error != error else error)
                    results.append("no output" if worst is None else f"{worst:.0e}" + ("" if worst <= TOLERANCE else " WRONG"))
                except (ValueError, IndexError):
                    last = (one.stderr.splitlines() or [""])[-1]
                    results.append(f"died {one.returncode} {last[:120]}")
            conditions = [line for line in run.stdout.splitlines() + run.stderr.splitlines() if "valid if" in line]
            layers = sum(1 for _ in open(paths["param"])) - 2
            size = f"{os.path.getsize(paths['bin']) / weight_bytes(paths['model']):.3f}"
            rows.append([title, "converted", *results, f"{layers} layers", size, " ".join(conditions).strip()[:300]])
        print(" | ".join(rows[-1]), flush=True)
    if arguments.out:
        heads = ["network", "", *[f"past {past}, {sequence} tokens" for past, sequence in LENGTHS], "layers", "size", "conditions"]
        write(arguments.out, HEAD + table(heads, rows), None)


def table(heads, rows):
    rows = [heads, ["---"] * len(heads), *[row + [""] * (len(heads) - len(row)) for row in rows]]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def write(path, checked, chained):
    """Replaces one of the two parts of the file."""
    before, title, after = (open(path).read() if os.path.exists(path) else "").partition(CHAIN_TITLE)
    checked, chained = checked or before.rstrip() + "\n", chained or title + after
    with open(path, "w") as file:
        file.write(checked + ("\n" + chained if chained else ""))


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
    import time
    import numpy as np, onnxruntime

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "decoder"))
    from decoder import Decoder

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    expected, wanted = reference(onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"]))
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
    for name in NETWORKS:
        folder = os.path.join(arguments.folder, name)
        if not re.search(arguments.match, name) or not os.path.exists(os.path.join(folder, "model.onnx")) or name.split("_")[0] in ENCODED:
            continue
        cells, layers, block = [], [], ""
        for net, more in [("kept", ["--kv-cache"]), ("plain", [])]:
            paths = {word: os.path.join(folder, f"{net}.{ending}") for word, ending in [("param", "param"), ("bin", "bin"), ("report", "json")]}
            command = [part.format(model=os.path.join(folder, "model.onnx"), **paths) for part in arguments.convert.split()]
            run = subprocess.run(command + more, capture_output=True, text=True)
            if run.returncode != 0:
                cells += ["refused: " + next((line for line in run.stderr.splitlines() if ":" in line), "")[:160]]
                break
            kinds = [line.split()[0] for line in list(open(paths["param"]))[2:]]
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
        write(arguments.out, None, CHAIN_TITLE + CHAIN_HEAD + table(heads, rows))


def main():
    if sys.argv[1:2] == ["compare"]:
        return compare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    if sys.argv[1:2] == ["follow"]:
        return follow(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["export", "check", "chain"])
    parser.add_argument("folder")
    parser.add_argument("--match", default="")
    parser.add_argument("--convert")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    {"export": export, "check": check, "chain": chain}[arguments.command](arguments)


if __name__ == "__main__":
    main()
