//! Programs that run a net: what its inputs are given and what its outputs are for, put into templates.
//!
//! A program is made for one net, and is the user's to change. What the model does not tell, such as how its
//! pixels are scaled, is a constant at the beginning of the program, with a comment that says so.

mod cpp;
mod kotlin;
mod metadata;
mod purpose;
mod python;
mod subject;

use std::ffi::OsStr;
use std::path::Path;

use purpose::Purpose;

pub(crate) use metadata::metadata;
pub(crate) use purpose::picture_sides;
pub(crate) use subject::{Files, Subject};

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Language {
    /// Python 3.9 or later.
    Python,
    /// C++11 or later.
    Cpp,
    /// Kotlin 1.3 or later, for Android; see [`Language::beside`].
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

    /// Returns the files that every program in this language needs beside it: their names and their texts.
    pub fn beside(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Language::Python | Language::Cpp => &[],
            Language::Kotlin => &kotlin::BESIDE,
        }
    }
}

/// Returns the text of a program.
pub(crate) fn program(subject: &Subject, files: &Files, language: Language) -> String {
    let purpose = Purpose::of(subject);
    match language {
        Language::Python => python::program(subject, &purpose, files),
        Language::Cpp => cpp::program(subject, &purpose, files),
        Language::Kotlin => kotlin::program(subject, &purpose, files),
    }
}
