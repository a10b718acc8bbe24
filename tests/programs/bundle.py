"""Makes the folder of a model of texts as its exporter writes it, with a tokenizer of numbers: a decoder that gives the next number, with a
cache, or an encoder whose vector of the number n is [n, 10].

usage: bundle.py FOLDER decoder|encoder
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from run import decoder_with_a_cache

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


def main():
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    (folder / "onnx").mkdir(parents=True)
    onnx.save(encoder() if kind == "encoder" else decoder_with_a_cache(), folder / "onnx" / "model.onnx")
    # Each number is a word; a text ends with 20.
    tokenizer = {
        "version": "1.0",
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {str(n): n for n in range(1000)}, "unk_token": "0"},
    }
    files = {
        "config.json": {"model_type": "counter", "vocab_size": 1000, "eos_token_id": 20},
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": [20, 40], "do_sample": True, "temperature": 0.5, "top_k": 3, "top_p": 0.9},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"bos_token": {"content": "4"}, "eos_token": "20", "chat_template": TEMPLATE},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


if __name__ == "__main__":
    main()
