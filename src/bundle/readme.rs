//! The page of a bundle.

use super::folder::Folder;
use super::{PROGRAM, TEMPLATE, Task, example};
use crate::api::Conversion;

/// Returns the text of the page.
pub(super) fn readme(folder: &Folder, task: &Task, conversion: &Conversion) -> String {
    let net = task.net();
    let model_type = folder.model_type.as_deref().unwrap_or(net);
    let has_vectors = matches!(task, Task::Vectors(_));
    let has_chat = folder.chat.is_some() && !has_vectors;
    let packages = if has_chat { "ncnn numpy tokenizers jinja2" } else { "ncnn numpy tokenizers" };
    let chat = match has_chat {
        true => format!(
            "\nAs an answer in a chat, by `{TEMPLATE}`:\n\n    python3 {PROGRAM} --chat \"What is a pump?\"\n"
        ),
        false => String::new(),
    };
    let (use_of_it, constants) = match has_vectors {
        true => {
            ("Make vectors of texts, and compare them", "the threads and the name of the file of vectors")
        }
        false => ("Continue a text", "the number of tokens, the sampling, and the threads"),
    };
    let [param, bin, report] = task.files();
    let release = conversion.net().since();
    format!(
        "# A {model_type} model for ncnn\n\n\
        {use_of_it}:\n\n    \
        pip install {packages}\n    \
        python3 {PROGRAM} {}\n\
        {chat}\n\
        The constants at the head of `{PROGRAM}` are {constants}.\n\n\
        | file | content |\n\
        | --- | --- |\n\
        | `{param}`, `{bin}` | the net, for ncnn {release} and later |\n\
        | `{report}` | the report of the conversion, which `onnx2ncnn verify` reads |\n\
        | `bundle.json` | inputs, outputs and caches of the net, special tokens, sampling or pooling |\n\
        | `{PROGRAM}` | a program that runs the net |\n\
        | `tokenizer.json` and others | the files of the tokenizer, as they were |\n",
        example(has_vectors)
    )
}
