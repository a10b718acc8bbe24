//! The statements of the rest of a model in the language of a program.

use std::collections::BTreeSet;

use serde::Serialize;

use super::bounds::{Bound, Bounds};
use super::{Language, kotlin};
use crate::pipeline::{Argument, Computed, FunctionCall, Omitted, Rest, RestInput, Statement};

/// The functions of constants: their elements are arguments of their own in Kotlin.
const CONSTANTS: [&str; 3] = ["floats", "integers", "truths"];

/// The maximum number of names in a comment.
const MAX_NAMES: usize = 6;

/// The rest of a model, as a template writes it.
#[derive(Debug, Serialize)]
pub(super) struct RestText<'a> {
    inputs: &'a [RestInput],
    /// The numbers with which the model selects.
    bounds: Vec<Bound>,
    lines: Vec<String>,
    /// The names of the outputs of the model, and their variables.
    results: Vec<(&'a str, &'a str)>,
}

impl<'a> RestText<'a> {
    pub fn of(rest: &'a Computed, language: Language) -> RestText<'a> {
        let names = rest.outputs.iter().map(|port| port.name.as_str());
        let bounds = Bounds::of(rest, language);
        RestText {
            inputs: &rest.inputs,
            lines: lines_of(&rest.statements, &bounds, language),
            bounds: bounds.constants,
            results: names.zip(rest.results.iter().map(String::as_str)).collect(),
        }
    }
}

/// Returns what a comment says of a rest that the program does not compute.
pub(super) fn omitted(rest: Option<&Rest>) -> Option<String> {
    let Some(Rest::Omitted(Omitted { operators, constants, values })) = rest else { return None };
    let listed = |names: &BTreeSet<String>| {
        let few: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
        if names.len() > few.len() { format!("{}, ...", few.join(", ")) } else { few.join(", ") }
    };
    let reason = match () {
        () if !operators.is_empty() => format!("they have {}", listed(operators)),
        () if !values.is_empty() => format!("they read {}", listed(values)),
        () if !constants.is_empty() => {
            format!("add to --outputs what they read: {}", listed(constants))
        }
        () => "they are too many".to_owned(),
    };
    Some(format!(
        "The model has further nodes behind these outputs, which this program does not compute: {reason}."
    ))
}

/// Returns the lines of statements.
fn lines_of(statements: &[Statement], bounds: &Bounds, language: Language) -> Vec<String> {
    let lines = statements.iter().flat_map(|statement| match statement {
        Statement::Call(call) => lines_of_call(call, bounds, language),
        Statement::If { condition, targets, branches: [first, second] } => {
            let [first, second] = [first, second].map(|branch| {
                let inner = lines_of(&branch.statements, bounds, language);
                let results = targets.iter().zip(&branch.results).filter_map(|(target, result)| {
                    let end = if language == Language::Cpp { ";" } else { "" };
                    Some(format!("{} = {result}{end}", target.as_deref()?))
                });
                inner.into_iter().chain(results).map(|line| format!("    {line}")).collect::<Vec<_>>()
            });
            let declared = targets.iter().flatten().filter_map(|target| match language {
                Language::Python => None,
                Language::Cpp => Some(format!("op::Array {target};")),
                Language::Kotlin => Some(format!("val {target}: OnnxArray")),
            });
            let [before, between, after]: [&[String]; 3] = match language {
                Language::Python => [&[format!("if op.is_true({condition}):")], &["else:".to_owned()], &[]],
                Language::Cpp => [
                    &[format!("if (op::is_true({condition}))"), "{".to_owned()],
                    &["}", "else", "{"].map(str::to_owned),
                    &["}".to_owned()],
                ],
                Language::Kotlin => [
                    &[format!("if (Op.isTrue({condition})) {{")],
                    &["} else {".to_owned()],
                    &["}".to_owned()],
                ],
            };
            declared
                .chain(before.to_vec())
                .chain(first)
                .chain(between.to_vec())
                .chain(second)
                .chain(after.to_vec())
                .collect()
        }
    });
    lines.collect()
}

/// Returns the lines of a call.
fn lines_of_call(call: &FunctionCall, bounds: &Bounds, language: Language) -> Vec<String> {
    let FunctionCall { targets, function, arguments } = call;
    let is_constant = CONSTANTS.contains(function);
    let bound = targets.iter().flatten().find_map(|target| bounds.name(target));
    let arguments = arguments.iter().enumerate().map(|(index, argument)| {
        let is_spread = is_constant && index == 1 && language == Language::Kotlin;
        match (argument, bound) {
            (Argument::Floats(_), Some(name)) => {
                list(vec![name.to_owned()], is_spread, "doubleArrayOf", language)
            }
            _ => text(argument, is_spread, language),
        }
    });
    let arguments: Vec<String> = arguments.filter(|argument| !argument.is_empty()).collect();
    let (scope, name) = match language {
        Language::Python => ("op.", (*function).to_owned()),
        Language::Cpp => ("op::", (*function).to_owned()),
        Language::Kotlin => ("Op.", kotlin::camel(function)),
    };
    let text_of_call = format!("{scope}{name}({})", arguments.join(", "));
    let declared = |name: &str, value: &str| match language {
        Language::Python => format!("{name} = {value}"),
        Language::Cpp => format!("const op::Array {name} = {value};"),
        Language::Kotlin => format!("val {name} = {value}"),
    };
    if !call.is_of_list() {
        return targets.iter().flatten().map(|target| declared(target, &text_of_call)).collect();
    }
    // No name of a value ends with an underscore.
    let named = targets.iter().flatten().next().cloned().unwrap_or_default();
    let list = format!("{named}_");
    let first = match language {
        Language::Cpp => format!("const op::Arrays {list} = {text_of_call};"),
        Language::Python | Language::Kotlin => declared(&list, &text_of_call),
    };
    let parts = targets
        .iter()
        .enumerate()
        .filter_map(|(index, target)| Some(declared(target.as_deref()?, &format!("{list}[{index}]"))));
    std::iter::once(first).chain(parts).collect()
}

/// Returns a list, which the function `kotlin` makes there. `is_spread`: items are arguments of their own.
fn list(items: Vec<String>, is_spread: bool, kotlin: &str, language: Language) -> String {
    let items = items.join(", ");
    match language {
        _ if is_spread => items,
        Language::Python => format!("[{items}]"),
        Language::Cpp => format!("{{{items}}}"),
        Language::Kotlin => format!("{kotlin}({items})"),
    }
}

/// Returns an argument. `is_spread`: numbers are arguments of their own.
fn text(argument: &Argument, is_spread: bool, language: Language) -> String {
    let list = |items, kotlin| list(items, is_spread, kotlin, language);
    match argument {
        Argument::Value(name) => name.clone(),
        Argument::Optional(Some(name)) if language == Language::Cpp => format!("&{name}"),
        Argument::Optional(Some(name)) => name.clone(),
        Argument::Optional(None) => match language {
            Language::Python => "None",
            Language::Cpp => "op::NONE",
            Language::Kotlin => "null",
        }
        .to_owned(),
        Argument::Values(names) => list(names.clone(), "listOf"),
        Argument::Integers(numbers) => list(numbers.iter().map(i64::to_string).collect(), "intArrayOf"),
        Argument::Floats(numbers) => {
            list(numbers.iter().map(|number| float(*number, language)).collect(), "doubleArrayOf")
        }
        Argument::Integer(number) => number.to_string(),
        Argument::Float(number) => float(*number, language),
        Argument::Flag(flag) => match (language, flag) {
            (Language::Python, true) => "True",
            (Language::Python, false) => "False",
            (_, true) => "true",
            (_, false) => "false",
        }
        .to_owned(),
    }
}

/// Returns a float, whose type is float64 in C++ and Kotlin.
pub(super) fn float(number: f32, language: Language) -> String {
    let special = |python: &str, cpp: &str, kotlin: &str| {
        match language {
            Language::Python => python,
            Language::Cpp => cpp,
            Language::Kotlin => kotlin,
        }
        .to_owned()
    };
    match number {
        number if number.is_nan() => special("np.nan", "NAN", "Double.NaN"),
        f32::INFINITY => special("np.inf", "HUGE_VAL", "Double.POSITIVE_INFINITY"),
        f32::NEG_INFINITY => special("-np.inf", "-HUGE_VAL", "Double.NEGATIVE_INFINITY"),
        number => format!("{number:?}"),
    }
}
