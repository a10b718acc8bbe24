//! The page of a bundle.

use super::folder::Folder;
use super::{PARAM, PROGRAM, TEMPLATE};
use crate::api::Conversion;

/// Returns the text of the page.
pub(super) fn readme(folder: &Folder, conversion: &Conversion) -> String {
    let model_type = folder.model_type.as_deref().unwrap_or("decoder");
    let has_chat = folder.chat.is_some();
    let packages = if has_chat { "ncnn numpy tokenizers jinja2" } else { "ncnn numpy tokenizers" };
    let chat = match has_chat {
        true => format!(
            "\nAs an answer in a chat, by `{TEMPLATE}`:\n\n    python3 {PROGRAM} --chat \"What is a pump?\"\n"
        ),
        false => String::new(),
    };
    let release = conversion.net().since();
    format!(
        "# A {model_type} model for ncnn\n\n\
        Continue a text:\n\n    \
        pip install {packages}\n    \
        python3 {PROGRAM} \"Once upon a time\"\n\
        {chat}\n\
        The constants at the head of `{PROGRAM}` are the number of tokens, the sampling, and the threads.\n\n\
        | file | content |\n\
        | --- | --- |\n\
        | `{PARAM}`, `decoder.bin` | the net, for ncnn {release} and later |\n\
        | `decoder.report.json` | the report of the conversion, which `onnx2ncnn verify` reads |\n\
        | `bundle.json` | inputs, outputs and caches of the net, special tokens, sampling |\n\
        | `{PROGRAM}` | a program that runs the net |\n\
        | `tokenizer.json` and others | the files of the tokenizer, as they were |\n"
    )
}
