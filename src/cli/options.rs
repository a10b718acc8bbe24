//! The options of the library as arguments.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use clap::builder::{
    PathBufValueParser, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::tensor::DType;
use onnx2ncnn::{
    Converter, CustomLayer, Input, OptionInfo, OptionKind, OptionValue, Options, Purpose, Refusal, Storage,
    Weights, options,
};
use serde::Deserialize;

use super::input_value::parse_input_value;
use super::shape::parse_input_shape;
use super::size::parse_bytes;

/// The options that a command takes.
pub(super) trait Chosen {
    const PURPOSE: Purpose;

    /// Returns their arguments.
    fn args() -> Vec<Arg> {
        options().iter().filter(|info| info.purpose == Self::PURPOSE).map(arg).collect()
    }
}

/// Options for reading a model.
pub(super) enum Source {}

impl Chosen for Source {
    const PURPOSE: Purpose = Purpose::Source;
}

/// Options of the net.
pub(super) enum Net {}

impl Chosen for Net {
    const PURPOSE: Purpose = Purpose::Net;
}

/// Further files.
pub(super) enum Files {}

impl Chosen for Files {
    const PURPOSE: Purpose = Purpose::File;
}

/// The options of a command that the user requests.
pub(super) struct Requested<C> {
    values: Vec<(&'static str, OptionValue)>,
    options: Options,
    chosen: PhantomData<C>,
}

impl<C> Requested<C> {
    /// Sets these options on a converter.
    pub fn apply(&self, converter: Converter) -> Result<Converter> {
        self.values.iter().try_fold(converter, |converter, (name, value)| converter.with(name, value.clone()))
    }

    /// Returns their names, that of a list as often as it has items.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(name, _)| *name)
    }

    /// Returns a converter with these options.
    pub fn converter(&self) -> Result<Converter> {
        self.apply(Converter::new())
    }
}

impl<C> Deref for Requested<C> {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

impl Requested<Source> {
    /// Returns whether the model is read without changes.
    pub fn is_plain(&self) -> bool {
        is_plain(self)
    }

    /// Writes the part of a model that the options select, with its sizes and values, simplified.
    pub fn write_simplified(&self, model: &Input, path: &Path) -> std::result::Result<(), Refusal> {
        self.converter()?.simplify(model)?.write(path, &Storage::AsNeeded)?;
        Ok(())
    }

    /// Returns the converter of models that [`write_simplified`](Self::write_simplified) wrote: the file has
    /// what the other options select.
    pub fn converter_of_simplified(&self) -> Converter {
        self.skip.iter().fold(Converter::new(), Converter::skip)
    }
}

/// Returns whether a model is read without changes: other programs read the same.
pub(super) fn is_plain(options: &Options) -> bool {
    options.inputs.is_empty()
        && options.outputs.is_empty()
        && options.set.is_empty()
        && options.data_dir.is_none()
        && !options.random_as_input
}

impl<C> fmt::Debug for Requested<C> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl<C: Chosen> Args for Requested<C> {
    fn augment_args(command: Command) -> Command {
        command.args(C::args())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Requested::<C>::augment_args(command)
    }
}

impl<C: Chosen> FromArgMatches for Requested<C> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Requested<C>, clap::Error> {
        let args = C::args();
        let is_requested = |info: &OptionInfo| {
            args.iter().any(|arg| arg.get_id() == info.name)
                && matches.value_source(info.name).is_some_and(|source| source != ValueSource::DefaultValue)
        };
        let chosen = options().iter().filter(|info| is_requested(info));
        let values = chosen.flat_map(|info| {
            let values: Vec<OptionValue> = match info.kind {
                OptionKind::Flag => vec![OptionValue::Flag(matches.get_flag(info.name))],
                OptionKind::Name | OptionKind::Number | OptionKind::Layer => {
                    let lists = matches.get_many::<List>(info.name).into_iter().flatten();
                    lists.flat_map(|list| &list.0).cloned().collect()
                }
                _ => matches.get_many(info.name).into_iter().flatten().cloned().collect(),
            };
            values.into_iter().map(|value| (info.name, value))
        });
        let mut requested =
            Requested { values: values.collect(), options: Options::default(), chosen: PhantomData };
        // The values have the types of the table, from which the arguments are made.
        let failed = |error: Error| clap::Error::raw(ErrorKind::InvalidValue, error);
        requested.options = requested.converter().map_err(failed)?.options().clone();
        Ok(requested)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Requested::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the argument of an option.
pub(super) fn arg(info: &'static OptionInfo) -> Arg {
    let (short, details) = info.descriptions();
    let mut arg = Arg::new(info.name)
        .long(info.long_name())
        .help(short)
        .help_heading(info.heading)
        .hide_short_help(info.is_rare)
        .conflicts_with_all(info.excludes);
    if !details.is_empty() {
        arg = arg.long_help(info.help);
    }
    if let Some(other) = info.requires {
        arg = arg.requires(other);
    }
    if info.kind == OptionKind::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    arg = arg.value_name(info.value).value_parser(parser(info.kind));
    if info.is_list {
        arg = arg.action(ArgAction::Append);
    }
    match info.kind {
        OptionKind::Weights => arg.default_value("float"),
        OptionKind::Path => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    }
}

fn parser(kind: OptionKind) -> ValueParser {
    let text = StringValueParser::new();
    match kind {
        OptionKind::Name => text
            .try_map(|text| {
                parse_names(&text).map(|names| List(names.into_iter().map(OptionValue::Name).collect()))
            })
            .into(),
        OptionKind::Number => text.try_map(|text| parse_numbers(&text)).into(),
        OptionKind::Path => PathBufValueParser::new().map(OptionValue::Path).into(),
        OptionKind::Release => text.try_map(|text| parse_release(&text).map(OptionValue::Release)).into(),
        OptionKind::Layer => PathBufValueParser::new().try_map(|path| read_layers(&path)).into(),
        OptionKind::Bytes => text.try_map(|text| parse_bytes(&text).map(OptionValue::Bytes)).into(),
        OptionKind::Weights => PossibleValuesParser::new(Weights::NAMES.map(|(name, _)| name))
            .try_map(|name| name.parse().map(OptionValue::Weights))
            .into(),
        OptionKind::Shape => text.try_map(|text| parse_input_shape(&text).map(OptionValue::Shape)).into(),
        OptionKind::Array => text.try_map(|text| parse_input_value(&text).map(OptionValue::Array)).into(),
        _ => text.try_map(|text| parse_rename(&text).map(OptionValue::Pair)).into(),
    }
}

/// Parses the date of a release of ncnn.
fn parse_release(text: &str) -> std::result::Result<u32, String> {
    let date = text.strip_prefix("1.0.").unwrap_or(text);
    let digits = date.len() == 8 && date.chars().all(|c| c.is_ascii_digit());
    let number = date.parse().ok().filter(|_| digits);
    number
        .filter(|n: &u32| (1..=12).contains(&(n / 100 % 100)) && (1..=31).contains(&(n % 100)))
        .ok_or_else(|| "expected the date of a release of ncnn, such as 20250503".to_owned())
}

/// Items with commas between them.
#[derive(Clone, Debug)]
struct List(Vec<OptionValue>);

/// A file of layers of the user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayersFile {
    layer: Vec<CustomLayer>,
}

/// Reads the layers of the user from a file.
fn read_layers(path: &Path) -> std::result::Result<List, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let of_toml = || {
        toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or(&text);
            format!("line {}: {}", before.matches('\n').count() + 1, error.message())
        })
    };
    let file: LayersFile = match path.extension().is_some_and(|ending| ending == "json") {
        true => serde_json::from_str(&text).map_err(|error| error.to_string())?,
        false => of_toml()?,
    };
    file.layer.iter().try_for_each(CustomLayer::check)?;
    Ok(List(file.layer.into_iter().map(OptionValue::Layer).collect()))
}

/// Parses names with commas between them; those between the sizes of an input, as in `ids:int64[1,S]`, belong
/// to its name.
pub(super) fn parse_names(text: &str) -> std::result::Result<Vec<String>, String> {
    let is_type = |word: &str| word == "float32" || DType::from_name(word).is_some();
    let is_open = |name: &str| {
        let parts = name.rsplit_once('[').filter(|(_, sizes)| !sizes.contains(']'));
        parts.and_then(|(head, _)| head.rsplit_once(':')).is_some_and(|(_, word)| is_type(word))
    };
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',') {
        match names.last_mut() {
            Some(last) if is_open(last) => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    if names.iter().any(String::is_empty) {
        return Err("a name is empty".to_owned());
    }
    Ok(names)
}

/// Parses numbers and quotients with commas between them.
fn parse_numbers(text: &str) -> std::result::Result<List, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let item = |text: &str| match text.split_once('/') {
        Some((above, below)) => Some(number(above)? / number(below)?),
        None => number(text),
    };
    let item = |text| {
        let found = item(text).filter(|n| n.is_finite()).map(OptionValue::Number);
        found.ok_or_else(|| {
            format!("expected numbers such as 0.5 or 1/255, with commas between them, not \"{text}\"")
        })
    };
    Ok(List(text.split(',').map(item).collect::<std::result::Result<_, _>>()?))
}

/// Parses `old=new`. Names may contain the sign: the last one ends the old name.
fn parse_rename(text: &str) -> std::result::Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("expected the name of a value, =, and the new name of its blob".to_owned()),
    }
}
