//! The command `explain`.

use std::fmt::Write as _;

use clap::Args;
use clap::builder::TypedValueParser;
use onnx2ncnn::error::ErrorCode;

use super::exit::DONE;
use super::terminal::{STRONG, print};

/// The columns of an explanation.
const COLUMNS: usize = 100;

/// Explain the code of an error, such as E0012; without one, list all codes
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The code
    #[arg(value_parser = code())]
    pub code: Option<ErrorCode>,
}

fn code() -> impl TypedValueParser<Value = ErrorCode> {
    let parse = |name: String| ErrorCode::parse(&name).ok_or("unknown code; `onnx2ncnn explain` lists all");
    clap::builder::StringValueParser::new().try_map(parse)
}

/// Breaks a text into lines between its words.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut columns = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        let separator = if columns == 0 {
            ""
        } else if columns + width < COLUMNS {
            " "
        } else {
            "\n"
        };
        columns = if separator == " " { columns + 1 + width } else { width };
        lines += separator;
        lines += word;
    }
    lines
}

/// Prints an explanation, or the list of codes, to standard output.
pub(super) fn explain(arguments: &Explain) -> u8 {
    let mut text = String::new();
    match arguments.code {
        // Writing to a string cannot fail.
        Some(code) => {
            let explanation = wrapped(code.explanation());
            let _ = writeln!(text, "{STRONG}{code}{STRONG:#}: {}\n\n{explanation}", code.title());
        }
        None => {
            for code in ErrorCode::all() {
                let _ = writeln!(text, "{code}  {}", code.title());
            }
        }
    }
    print(&text, clap::ColorChoice::Auto);
    DONE
}
