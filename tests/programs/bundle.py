"""Makes the folder of a decoder as its exporter writes it: a model that gives the next number, with a cache, and a tokenizer of numbers.

usage: bundle.py FOLDER
"""

import json
import sys
from pathlib import Path

import onnx

from run import decoder_with_a_cache

TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}{% if add_generation_prompt %} 7{% endif %}"


def main():
    folder = Path(sys.argv[1])
    (folder / "onnx").mkdir(parents=True)
    onnx.save(decoder_with_a_cache(), folder / "onnx" / "model.onnx")
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
