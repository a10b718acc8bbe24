//! The page of a bundle.

use super::folder::Folder;
use super::{Converted, PROGRAM, TEMPLATE, Task, files};

/// Returns the text of the page.
pub(super) fn readme(folder: &Folder, task: &Task, nets: &[Converted]) -> String {
    let model_type = folder.model_type.as_deref().unwrap_or(task.net());
    let has_chat = folder.chat.is_some() && matches!(task, Task::Continue);
    let packages = match task {
        Task::Picture(_) => "ncnn numpy pillow",
        _ if has_chat => "ncnn numpy tokenizers jinja2",
        _ => "ncnn numpy tokenizers",
    };
    let chat = match has_chat {
        true => format!(
            "\nAs an answer in a chat, by `{TEMPLATE}`:\n\n    python3 {PROGRAM} --chat \"What is a pump?\"\n"
        ),
        false => String::new(),
    };
    let (use_of_it, constants) = match task {
        Task::Continue => ("Continue a text", "the number of tokens, the sampling, and the threads"),
        Task::Vectors(_) => {
            ("Make vectors of texts, and compare them", "the threads and the name of the file of vectors")
        }
        Task::Sequence { sound: None } => (
            "Make a text of another one",
            "the first tokens, the number of tokens, the sampling, and the threads",
        ),
        Task::Sequence { sound: Some(_) } => (
            "Write down the words of a sound",
            "the language, the number of tokens, the sampling, and the threads",
        ),
        Task::Classes(_) => ("Name the class of a text, or of a pair of texts", "the names and the threads"),
        Task::Picture(_) => {
            ("Name the classes of a picture", "the scaling of pixels, the names and the threads")
        }
    };
    let tokenizer = match folder.tokenizer.is_empty() {
        true => "",
        false => "| `tokenizer.json` and others | the files of the tokenizer, as they were |\n",
    };
    let rows: Vec<String> = nets.iter().map(row).collect();
    let example = task.example();
    format!(
        "# A {model_type} model for ncnn\n\n\
        {use_of_it}:\n\n    \
        pip install {packages}\n    \
        python3 {PROGRAM} {example}\n\
        {chat}\n\
        The constants at the head of `{PROGRAM}` are {constants}.\n\n\
        | file | content |\n\
        | --- | --- |\n\
        {}\
        | `bundle.json` | inputs, outputs and caches of the nets, special tokens, sampling or pooling |\n\
        | `{PROGRAM}` | a program that runs the nets |\n\
        {tokenizer}",
        rows.concat()
    )
}

/// Returns the rows of the files of a net.
fn row(net: &Converted) -> String {
    let [param, bin, report] = files(net.name);
    let release = net.conversion.net().since();
    format!(
        "| `{param}`, `{bin}` | the net `{}`, for ncnn {release} and later |\n\
        | `{report}` | the report of its conversion, which `onnx2ncnn verify` reads |\n",
        net.name
    )
}
