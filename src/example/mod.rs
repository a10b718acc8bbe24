//! Programs that run a net: a template for each language, over the roles of inputs and the purpose of
//! outputs.
//!
//! A program is made for one net, and is the user's to change. What the model does not tell, such as how its
//! pixels are scaled, is a constant of the program, with a comment that says so.

mod bounds;
mod boxes;
mod custom;
mod facts;
mod kotlin;
mod metadata;
mod pixels;
mod probe;
mod purpose;
mod rest;
mod subject;
mod tail;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, UndefinedBehavior, escape_formatter};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::ncnn::Net;
use custom::{CustomFacts, CustomText};
use facts::Facts;

pub(crate) use metadata::metadata;
pub(crate) use purpose::{is_of_encoder, picture_sides};
pub(crate) use subject::{
    Blob, Classes, Continuation, Files, Pooling, PoolingKind, Reading, Resized, Sequence, SideNet, Sound,
    Subject, Text,
};
pub(crate) use tail::Scale;

/// The templates of programs, and those that they include.
const TEMPLATES: [(&str, &str); 12] = [
    ("program.py", include_str!("templates/program.py.jinja")),
    ("results.py", include_str!("templates/results.py.jinja")),
    ("sequence.py", include_str!("templates/sequence.py.jinja")),
    ("custom_layers.py", include_str!("templates/custom_layers.py.jinja")),
    ("custom_layers.h", include_str!("templates/custom_layers.h.jinja")),
    ("program.cpp", include_str!("templates/program.cpp.jinja")),
    ("inputs.cpp", include_str!("templates/inputs.cpp.jinja")),
    ("results.cpp", include_str!("templates/results.cpp.jinja")),
    ("boxes.cpp", include_str!("templates/boxes.cpp.jinja")),
    ("map.cpp", include_str!("templates/map.cpp.jinja")),
    ("program.kt", include_str!("templates/program.kt.jinja")),
    ("boxes.kt", include_str!("templates/boxes.kt.jinja")),
];

/// The name of the build file of CMake.
const BUILD_FILE: &str = "CMakeLists.txt";

/// The file next to programs in C++: it gets ncnn, and builds all programs of the folder.
const CPP_COMPANIONS: [(&str, &str); 1] = [(BUILD_FILE, include_str!("templates/CMakeLists.txt"))];

/// The files with the functions of the nodes behind a net.
const PYTHON_OPERATORS: (&str, &str) = ("onnx_operators.py", include_str!("operators/onnx_operators.py"));
const CPP_OPERATORS: (&str, &str) = ("onnx_operators.h", include_str!("operators/onnx_operators.h"));

/// A text of a template, or what is wrong with it.
type Rendered = std::result::Result<String, minijinja::Error>;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// Python 3.9 or later.
    Python,
    /// C++11 or later.
    Cpp,
    /// Kotlin 1.3 or later, for Android; see [`Language::companions`].
    Kotlin,
}

impl Language {
    /// Returns the language of a file by the ending of its name.
    pub fn of(path: &Path) -> Option<Language> {
        match path.extension().and_then(OsStr::to_str) {
            Some("py") => Some(Language::Python),
            Some("cpp" | "cc" | "cxx") => Some(Language::Cpp),
            Some("kt") => Some(Language::Kotlin),
            _ => None,
        }
    }

    /// Returns the files that every program in this language needs next to it: their paths and their texts. A
    /// build file that exists is the user's, and is not among them.
    pub fn companions(self, program: &Path) -> Vec<(PathBuf, &'static str)> {
        let files: &[_] = match self {
            Language::Python => &[],
            Language::Cpp => &CPP_COMPANIONS,
            Language::Kotlin => &kotlin::COMPANIONS,
        };
        let files = files.iter().map(|(name, text)| (program.with_file_name(name), *text));
        files.filter(|(path, _)| !(path.ends_with(BUILD_FILE) && path.exists())).collect()
    }

    /// Returns the build file in the folder of a program, if it is the one for programs in another language.
    pub(crate) fn build_file_of_another(self, program: &Path) -> Option<PathBuf> {
        let others = match self {
            Language::Python => return None,
            Language::Cpp => &kotlin::COMPANIONS[..],
            Language::Kotlin => &CPP_COMPANIONS[..],
        };
        let file = program.with_file_name(BUILD_FILE);
        let found = std::fs::read(&file).ok()?;
        others.iter().any(|(name, text)| *name == BUILD_FILE && text.as_bytes() == found).then_some(file)
    }

    /// Returns the name of the template of a program.
    fn template(self) -> &'static str {
        match self {
            Language::Python => "program.py",
            Language::Cpp => "program.cpp",
            Language::Kotlin => "program.kt",
        }
    }

    /// Returns the file that a program needs next to it if it computes the rest of a model: its path and its
    /// text.
    pub(crate) fn operators(self, program: &Path) -> (PathBuf, &'static str) {
        let (name, text) = match self {
            Language::Python => PYTHON_OPERATORS,
            Language::Cpp => CPP_OPERATORS,
            Language::Kotlin => kotlin::OPERATORS,
        };
        (program.with_file_name(name), text)
    }
}

/// Returns the file next to a program that has the layers of the user, if the net has some. One that exists
/// is the user's, and is not returned.
///
/// # Errors
///
/// `Usage` if the language registers no layers. `Internal` if a template names a fact that does not exist.
pub(crate) fn custom_layers(
    net: &Net,
    language: Language,
    program: &Path,
) -> Result<Option<(PathBuf, String)>> {
    let facts = CustomFacts { custom: CustomText::all(net) };
    if facts.custom.is_empty() {
        return Ok(None);
    }
    let Some(path) = custom::file(language, program) else {
        return Err(Error::usage("a program in Kotlin registers no layers of your own").in_file(program));
    };
    if path.exists() {
        return Ok(None);
    }
    let failed = |error| Error::internal("the template of the layers is wrong").caused_by(error);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let text = rendered(name, language, &facts).map_err(failed)?;
    Ok(Some((path, text)))
}

/// Returns the text of a program.
///
/// # Errors
///
/// `Usage` if the decoder of an encoder reads what a program does not know. `Internal` if a template names a
/// fact that does not exist.
pub(crate) fn program(subject: &Subject, files: &Files, language: Language) -> Result<String> {
    let facts = Facts::of(subject, files, language);
    let unknown = facts.unknown_of_decoder();
    if !unknown.is_empty() {
        let what = "a program knows tokens, masks, positions and caches";
        return Err(Error::usage(format!("the decoder reads {}: {what}", unknown.join(", "))));
    }
    let failed = |error| Error::internal("the template of the program is wrong").caused_by(error);
    rendered(language.template(), language, &facts).map_err(failed)
}

fn rendered(template: &str, language: Language, facts: &impl Serialize) -> Rendered {
    let mut environment = Environment::new();
    // A line that has only a statement or a comment leaves nothing in the program.
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Jinja has `True` and `False`; C++ and Kotlin have `true` and `false`.
    environment.set_formatter(|output, state, value| match value.kind() {
        ValueKind::Bool => Ok(write!(output, "{}", value.is_true())?),
        _ => escape_formatter(output, state, value),
    });
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    let literal: fn(&str) -> String = match language {
        Language::Python | Language::Cpp => literal,
        Language::Kotlin => kotlin::literal,
    };
    environment.add_filter("quoted", move |value: Value| quoted(&value, literal));
    environment.add_filter("tuple", |value: Value| tuple(&value));
    environment.add_filter("listed", kotlin::listed);
    environment.add_filter("class", kotlin::class);
    environment.add_filter("camel", |name: String| kotlin::camel(&name));
    environment.add_filter("file_name", kotlin::file_name);
    environment.get_template(template)?.render(Serde(facts))
}

/// Returns a string literal, in quotes. Programs in Python and C++ read literals of JSON.
fn literal(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    serde_json::to_string(&text).unwrap_or_default()
}

/// Returns the literal of a string, or the literals of a list of strings with commas.
fn quoted(value: &Value, literal: fn(&str) -> String) -> Rendered {
    if let Some(text) = value.as_str() {
        return Ok(literal(text));
    }
    let items: Vec<String> = value.try_iter()?.map(|item| literal(&item.to_string())).collect();
    Ok(items.join(", "))
}

/// Returns a tuple in Python, of numbers or of tuples.
fn tuple(value: &Value) -> Rendered {
    if value.kind() != ValueKind::Seq {
        return Ok(value.to_string());
    }
    let items: Vec<String> =
        value.try_iter()?.map(|item| tuple(&item)).collect::<std::result::Result<_, _>>()?;
    Ok(match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    })
}
