//! One form for each concept: what the rules of ARCHITECTURE.md forbid is not in the source.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/source.rs"]
mod source;

use std::fs;
use std::path::PathBuf;

/// The most lines of a source file.
const MAX_LINES: usize = 450;

/// The most columns of a line, as in rustfmt.toml.
const MAX_COLUMNS: usize = 110;

/// The most lines of a page, and the most words of a sentence for users.
const PAGE: (usize, usize) = (150, 30);

/// The most lines that name a known size where an integer could stand.
const MAX_KNOWN_SIZES: usize = 150;

/// A file, and its text.
struct Source {
    path: PathBuf,
    text: String,
}

/// Reads the files below a folder with an extension.
fn read(folder: &str, extension: &str) -> Vec<Source> {
    let files = source::files(folder, extension);
    assert!(!files.is_empty(), "no files in {folder}");
    files.into_iter().map(Source::read).collect()
}

impl Source {
    fn read(path: PathBuf) -> Source {
        Source { text: fs::read_to_string(&path).unwrap(), path }
    }

    /// The numbered lines for which `is_found` returns true, with the path.
    fn lines(&self, is_found: impl Fn(&str) -> bool) -> Vec<String> {
        let found = self.text.lines().enumerate().filter(|(_, line)| is_found(line));
        found.map(|(at, line)| format!("{}:{}: {}", self.path.display(), at + 1, line.trim())).collect()
    }

    /// The signatures of functions, each with the number of its line.
    fn signatures(&self) -> Vec<(usize, &str)> {
        let starts = self.text.match_indices("fn ").map(|(at, _)| at);
        let starts = starts.filter(|at| *at == 0 || self.text[..*at].ends_with([' ', '\n', '(']));
        let signature = |at: usize| {
            let rest = &self.text[at..];
            let end = rest.find(['{', ';']).unwrap_or(rest.len());
            (self.text[..at].lines().count(), &rest[..end])
        };
        starts.map(signature).collect()
    }
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn source_files_are_short() {
    let long = read("src", "rs").into_iter().filter(|file| file.text.lines().count() > MAX_LINES);
    assert_none(&long.map(|file| file.path.display().to_string()).collect::<Vec<_>>());
}

/// Rustfmt breaks code, and leaves comments. Tables, and addresses of links, cannot be broken.
#[test]
fn comments_are_short() {
    let is_long = |line: &str| {
        let line = line.trim_end();
        let comment = line.trim_start();
        let text = comment.trim_start_matches(['/', '!', ' ']);
        comment.starts_with("//")
            && line.chars().count() > MAX_COLUMNS
            && !text.starts_with(['|', '<'])
            && !text.starts_with("    ")
    };
    assert_none(&read("src", "rs").iter().flat_map(|file| file.lines(is_long)).collect::<Vec<_>>());
}

/// Words for which there is a term: input, stated, offset, index, position, next to.
#[test]
fn words_are_terms_of_the_field() {
    const AVOIDED: [&str; 6] = ["given", "held", "beside", "place", "places", "jumps"];
    const PHRASES: [&str; 3] = ["in place", "last place", "held out"];
    let is_found = |line: &str| {
        let line = PHRASES.iter().fold(line.to_owned(), |line, phrase| line.replace(phrase, ""));
        line.split(|letter: char| !letter.is_alphanumeric()).any(|word| AVOIDED.contains(&word))
    };
    assert_none(&read("src", "rs").iter().flat_map(|file| file.lines(is_found)).collect::<Vec<_>>());
}

/// The pages for users: README.md, and the documents but for those of developers and of Python.
fn pages() -> Vec<Source> {
    let is_for_users =
        |file: &Source| !["SUMMARY.md", "development.md"].iter().any(|name| file.path.ends_with(name));
    let pages = read("docs", "md").into_iter().filter(is_for_users);
    pages.chain([Source::read("README.md".into())]).collect()
}

#[test]
fn pages_are_short() {
    let long = pages().into_iter().filter(|page| page.text.lines().count() > PAGE.0);
    assert_none(&long.map(|page| page.path.display().to_string()).collect::<Vec<_>>());
}

/// The texts of a page: paragraphs, items of lists, and cells of tables.
fn texts(page: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut is_code = false;
    for line in page.lines() {
        let text = line.trim_start();
        let is_paragraph = texts.last().is_some_and(|text| !text.is_empty());
        is_code = !text.is_empty() && line.starts_with("    ") && (is_code || !is_paragraph)
            || is_code && text.is_empty();
        if is_code || text.is_empty() || text.starts_with(['#', '!', '<']) {
            texts.push(String::new());
        } else if text.starts_with('|') {
            texts.extend(text.split('|').map(str::to_owned).chain([String::new()]));
        } else {
            let is_item = text.starts_with("- ")
                || text.split_once(". ").is_some_and(|(start, _)| start.parse::<u32>().is_ok());
            if is_item {
                texts.push(String::new());
            }
            let last = texts.last_mut().unwrap();
            last.push_str(text);
            last.push(' ');
        }
    }
    texts
}

/// Counts code as a word, and addresses of links not at all.
#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for page in pages() {
        for text in texts(&page.text) {
            let words = text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "code" });
            let words = words.collect::<String>();
            let words = words.split("](").enumerate();
            let words = words.map(|(at, part)| if at == 0 { part } else { part.split_once(')').unwrap().1 });
            let mut count = 0;
            for word in words.collect::<Vec<_>>().join(" ").split_whitespace() {
                count += usize::from(word.contains(char::is_alphanumeric));
                if count > PAGE.1 {
                    long.push(format!("{}: more than {} words: {text}", page.path.display(), PAGE.1));
                    break;
                }
                if word.trim_end_matches([')', '*', '"', ']']).ends_with(['.', '?', '!']) {
                    count = 0;
                }
            }
        }
    }
    assert_none(&long);
}

/// Code, tables, headings and images cannot be broken. Programs write the gallery and the table of operators.
#[test]
fn lines_of_documents_are_short() {
    let root = fs::read_dir(".").unwrap().map(|entry| entry.unwrap().path());
    let root = root.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let root = root.map(Source::read);
    let mut long = Vec::new();
    let written = |file: &Source| {
        ["gallery", "SUPPORTED"].iter().any(|name| file.path.display().to_string().contains(name))
    };
    for file in root.chain(read("docs", "md")).filter(|file| !written(file)) {
        let mut is_code = false;
        for (at, line) in file.text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            let breakable =
                line.trim_start().split(' ').count() > 1 && !line.starts_with(['|', '#', '!', '<']);
            if !is_code && breakable && !line.starts_with("    ") && line.chars().count() > MAX_COLUMNS {
                long.push(format!("{}:{}", file.path.display(), at + 1));
            }
        }
    }
    assert_none(&long);
}

#[test]
fn sizes_compute() {
    let rooms = ["src/lower", "src/op", "src/ops", "src/pass", "src/tensor"];
    let source: Vec<Source> = rooms.into_iter().flat_map(|room| read(room, "rs")).collect();
    let fallible = |line: &str| {
        [".add(&", ".sub(&", ".mul(&"].iter().any(|call| line.contains(call)) && line.contains(")?")
    };
    assert_none(&source.iter().flat_map(|file| file.lines(fallible)).collect::<Vec<_>>());
    let known: usize = source.iter().map(|file| file.lines(|line| line.contains("Dim::Known(")).len()).sum();
    assert!(known <= MAX_KNOWN_SIZES, "{known} lines with Dim::Known(");
}

/// The operator has versions, defaults and bounds that are counted from the end: `op::taken` returns what a
/// Slice takes.
#[test]
fn one_family_decodes_the_inputs_of_slice() {
    let reads = |file: &Source| !file.lines(|line| line.contains("\"starts\"")).is_empty();
    let readers = read("src", "rs").into_iter().filter(reads).map(|file| file.path);
    let readers: Vec<PathBuf> = readers.filter(|path| !path.starts_with("src/op/schema")).collect();
    assert_eq!(readers, [PathBuf::from("src/ops/shape/slice/mod.rs")]);
}

/// A blob of `Nd` has the axes of ONNX. Its form in ncnn is private to `lower/`.
#[test]
fn families_hand_on_blobs_with_their_axes() {
    let is_size =
        |text: &str| ["[Dim]", "Vec<Dim>", "&Dim", "Shape", ": usize"].iter().any(|t| text.contains(t));
    let mut found = Vec::new();
    for file in read("src/ops", "rs") {
        for (line, signature) in file.signatures() {
            if signature.contains("BlobId") && is_size(signature) {
                found.push(format!("{}:{line}: {signature}", file.path.display()));
            }
        }
    }
    assert_none(&found);
}

/// Evaluations, shape rules, expansions and layers read inputs by a `Call`.
#[test]
fn no_function_takes_a_closure_for_the_inputs_of_a_node() {
    let is_closure =
        |line: &str| line.contains("Fn(usize) -> Option<") || line.contains("Fn(usize) -> Result<&");
    let rooms = ["src/op", "src/ops"].into_iter().flat_map(|room| read(room, "rs"));
    assert_none(&rooms.flat_map(|file| file.lines(is_closure)).collect::<Vec<_>>());
}
