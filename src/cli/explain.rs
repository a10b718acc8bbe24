//! The command `explain`.

use std::fmt::Write as _;

use clap::Args;
use clap::builder::TypedValueParser;
use onnx2ncnn::error::ErrorCode;

use super::exit::DONE;
use super::terminal::{STRONG, print};

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

/// Prints an explanation, or the list of codes, to standard output.
pub(super) fn explain(arguments: &Explain) -> u8 {
    let mut text = String::new();
    match arguments.code {
        // Writing to a string cannot fail.
        Some(code) => {
            let _ = writeln!(text, "{STRONG}{code}{STRONG:#}: {}\n\n{}", code.title(), code.explanation());
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
