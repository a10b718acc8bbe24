"""Makes the folder of a model of texts as its exporter writes it, with a tokenizer of numbers: a decoder that gives the next number, with a
cache, an encoder whose vector of the number n is [n, 10], or both: an encoder of a text or a sound, and a decoder that counts from the largest
number on. A classifier of texts has a class for large numbers, and one for second texts; one of pictures has a class for each colour.

usage: bundle.py FOLDER decoder|encoder|text|speech|classes|picture
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from run import decoder_with_a_cache

DOTTED = {f"{name}_0_{of}_key": f"{name}.0.{of}.key" for name in ("present", "past_key_values") for of in ("encoder", "decoder")}
# Sounds of 0.2 seconds.
SOUND = {"feature_size": 4, "n_fft": 64, "hop_length": 16, "n_samples": 1600}
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}{% if add_generation_prompt %} 7{% endif %}"


def encoder():
    """A model that looks up the vector of each token."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        encoder (int64[batch,length] input_ids, int64[batch,length] attention_mask) => (float[batch,length,2] last_hidden_state) {
            last_hidden_state = Gather(table, input_ids)
        }"""
    )
    rows = np.stack([np.arange(1000), np.full(1000, 10)], axis=1).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(rows, "table"))
    return model


def sequence(kind):
    """The models of an encoder, of the first step of its decoder, and of the further ones. The encoder gives half the numbers of a text, or
    the negated mean of each band of a sound. The decoder doubles them, and gives the largest one and the length of its cache."""
    half = """<ir_version: 8, opset_import: ["": 17]>
        encoder (int64[batch,length] input_ids, int64[batch,length] attention_mask) => (float[batch,length,1] last_hidden_state) {
            last_hidden_state = Gather(table, input_ids)
        }"""
    loudness = """<ir_version: 8, opset_import: ["": 17]>
        encoder (float[batch,4,100] input_features) => (float[batch,4,1] last_hidden_state) {
            mean = ReduceMean<axes = [2]>(input_features)
            last_hidden_state = Neg(mean)
        }"""
    step = """<ir_version: 8, opset_import: ["": 17]>
        decoder (int64[batch,steps] input_ids, INPUTS) => (float[batch,steps,1000] logits, OUTPUTS, float[batch,past_and_steps,1] present_0_decoder_key)
        <float zero = {0.0}, float one = {1.0}, float two = {2.0}, int64[2] axes = {1, 2}> {
            numbers = Cast<to = 1>(input_ids)
            none = Mul(numbers, zero)
            ones = Add(none, one)
            axis = Constant<value_ints = [2]>()
            rows = Unsqueeze(ones, axis)
            CACHE
            most = ReduceMax<axes = [1, 2], keepdims = 1>(keys)
            count = ReduceSum(present_0_decoder_key, axes)
            target = Add(most, count)
            away = Sub(positions, target)
            square = Mul(away, away)
            logits = Neg(square)
        }"""
    key = "float[batch,length,1] present_0_encoder_key"
    first = step.replace("INPUTS", "float[batch,length,1] encoder_hidden_states").replace("OUTPUTS", key)
    first = first.replace("CACHE", "present_0_decoder_key = Identity(rows) present_0_encoder_key = Mul(encoder_hidden_states, two) keys = Identity(present_0_encoder_key)")
    past = "float[batch,past,1] past_key_values_0_decoder_key, float[batch,length,1] past_key_values_0_encoder_key"
    further = step.replace("INPUTS", past).replace(", OUTPUTS", "")
    further = further.replace("CACHE", "present_0_decoder_key = Concat<axis = 1>(past_key_values_0_decoder_key, rows) keys = Identity(past_key_values_0_encoder_key)")
    if kind == "scaled":
        # An input that no decoder of transformers has.
        further = further.replace("(int64[batch,steps] input_ids,", "(int64[batch,steps] input_ids, float[1] scale,").replace("logits = Neg(square)", "logits = Mul(square, scale)")
    if kind == "prompted":
        # The keys of the encoder also depend on the tokens.
        largest = "prompt = ReduceMax<axes = [0, 1], keepdims = 0>(numbers)"
        first = first.replace("present_0_encoder_key = Mul(encoder_hidden_states, two)", f"{largest} present_0_encoder_key = Mul(encoder_hidden_states, prompt)")
    models = [parser.parse_model(text) for text in (loudness if kind == "speech" else half, first, further)]
    for model in models[1:]:
        # The text of a model has no names with dots.
        for value in [*model.graph.input, *model.graph.output]:
            value.name = DOTTED.get(value.name, value.name)
        for node in model.graph.node:
            node.input[:] = [DOTTED.get(name, name) for name in node.input]
            node.output[:] = [DOTTED.get(name, name) for name in node.output]
        model.graph.initializer.append(numpy_helper.from_array(np.arange(1000, dtype=np.float32).reshape(1, 1, -1), "positions"))
    models[0].graph.initializer.append(numpy_helper.from_array(np.arange(1000, dtype=np.float32)[:, None] / 2, "table"))
    return dict(zip(["encoder_model", "decoder_model", "decoder_with_past_model"], models))


def classifier(kind):
    """A model that names the class of a text or a picture."""
    of_texts = """<ir_version: 8, opset_import: ["": 17]>
        classifier (int64[batch,length] input_ids, int64[batch,length] token_type_ids) => (float[batch,3] logits) {
            rows = Gather(table, input_ids)
            axis = Constant<value_ints = [2]>()
            types = Cast<to = 1>(token_type_ids)
            column = Unsqueeze(types, axis)
            second = Mul(column, last)
            both = Add(rows, second)
            logits = ReduceMean<axes = [1], keepdims = 0>(both)
        }"""
    of_pictures = """<ir_version: 8, opset_import: ["": 17]>
        classifier (float[batch,channels,height,width] pixel_values) => (float[batch,channels] logits) {
            logits = ReduceMean<axes = [2, 3], keepdims = 0>(pixel_values)
        }"""
    if kind == "picture":
        return parser.parse_model(of_pictures)
    model = parser.parse_model(of_texts)
    rows = np.stack([np.arange(1000), np.full(1000, 10), np.zeros(1000)], axis=1).astype(np.float32)
    constants = {"table": rows, "last": np.array([0, 0, 21], np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


ARCHITECTURES = {"classes": "BertForSequenceClassification", "picture": "ViTForImageClassification"}
# How the model of pictures reads them: in half of their size, without a border.
PICTURE = {
    "image_processor_type": "MobileNetV2ImageProcessor",
    "size": {"shortest_edge": 16},
    "do_center_crop": True,
    "crop_size": {"height": 8, "width": 8},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.25, 0.5],
}


def main():
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    (folder / "onnx").mkdir(parents=True)
    if kind in ("text", "speech", "scaled", "prompted"):
        models = sequence(kind)
    elif kind in ARCHITECTURES:
        models = {"model": classifier(kind)}
    else:
        models = {"model": encoder() if kind == "encoder" else decoder_with_a_cache()}
    for name, model in models.items():
        onnx.save(model, folder / "onnx" / f"{name}.onnx")
    # Each number is a word; a text ends with 20.
    tokenizer = {
        "version": "1.0",
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {str(n): n for n in range(1000)}, "unk_token": "0"},
    }
    files = {
        "config.json": {"model_type": "counter", "vocab_size": 1000, "eos_token_id": 20}
        | ({"architectures": [ARCHITECTURES[kind]], "id2label": {"2": "last", "0": "first", "1": "middle"}} if kind in ARCHITECTURES else {}),
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": [20, 40], "decoder_start_token_id": 2, "begin_suppress_tokens": [6], "do_sample": True, "temperature": 0.5, "top_k": 3, "top_p": 0.9},
        "preprocessor_config.json": {"feature_extractor_type": "WhisperFeatureExtractor", "sampling_rate": 8000} | SOUND if kind != "picture" else PICTURE,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"bos_token": {"content": "4"}, "eos_token": "20", "chat_template": TEMPLATE},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
