//! Arguments for the form, the amount and the style of messages.

use clap::{Args, ColorChoice, ValueEnum};

/// The form of messages.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Format {
    /// The form of messages: text on standard error, or a line of JSON for each on standard output
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "human",
        help_heading = "Messages",
        hide_short_help = true
    )]
    pub message_format: MessageFormat,
}

/// See [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MessageFormat {
    /// Text.
    Human,
    /// Objects as in a report.
    Json,
}

/// The amount and style of output.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Report {
    /// Print more: passes, fusions that do not apply, and every node of a refusal
    #[arg(short, long, help_heading = "Messages")]
    pub verbose: bool,

    /// Print only errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,

    /// When to use colours
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Messages",
        hide_short_help = true
    )]
    pub color: ColorChoice,
}
