//! The numbers with which the rest of a model selects, as named constants of a program.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Language;
use super::rest::float;
use crate::pipeline::{Argument, Computed, FunctionCall, Statement};

/// A named constant of a program.
#[derive(Debug, Serialize)]
pub(super) struct Bound {
    name: String,
    value: String,
}

/// The named constants of the rest of a model, and the variables that have their values.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    pub constants: Vec<Bound>,
    names: BTreeMap<&'a str, String>,
}

impl<'a> Bounds<'a> {
    pub fn of(rest: &'a Computed, language: Language) -> Bounds<'a> {
        let mut calls = Vec::new();
        collect(&rest.statements, &mut calls);
        let targets = calls.iter().flat_map(|call| call.targets.iter().flatten());
        let inputs = rest.inputs.iter().map(|input| &input.variable);
        let mut used: BTreeSet<String> = targets.chain(inputs).cloned().collect();
        // A constant that has another use as well keeps its number: a user would change both.
        let mut roles: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for (variable, role) in calls.iter().flat_map(|call| reads(call)) {
            roles
                .entry(variable)
                .and_modify(|known| *known = known.filter(|known| Some(*known) == role))
                .or_insert(role);
        }
        let mut bounds = Bounds::default();
        let mut known: BTreeMap<(&str, u32), String> = BTreeMap::new();
        for call in &calls {
            let Some((variable, number)) = number_of(call) else { continue };
            let role = roles.get(variable).copied().flatten().filter(|_| number > 0.0);
            let Some(role) = role else { continue };
            let name = known.entry((role, number.to_bits())).or_insert_with(|| {
                let suffixes =
                    std::iter::once(String::new()).chain((2..).map(|index: u32| format!("_{index}")));
                let mut names = suffixes.map(|suffix| format!("{role}{suffix}"));
                let name = names.find(|name| !used.contains(name)).unwrap_or_default();
                used.insert(name.clone());
                bounds.constants.push(Bound { name: name.clone(), value: float(number, language) });
                name
            });
            bounds.names.insert(variable, name.clone());
        }
        bounds
    }

    /// Returns the name of the number that a variable has.
    pub fn name(&self, variable: &str) -> Option<&str> {
        self.names.get(variable).map(String::as_str)
    }
}

/// Appends the calls of statements and of their branches.
fn collect<'a>(statements: &'a [Statement], calls: &mut Vec<&'a FunctionCall>) {
    for statement in statements {
        match statement {
            Statement::Call(call) => calls.push(call),
            Statement::If { branches, .. } => {
                for branch in branches {
                    collect(&branch.statements, calls);
                }
            }
        }
    }
}

/// Returns the variables that a call reads, each with the name of its number if it decides what is selected.
fn reads(call: &FunctionCall) -> impl Iterator<Item = (&str, Option<&'static str>)> {
    let roles: &[(usize, &str)] = match call.function {
        "non_max_suppression" => &[(3, "MODEL_OVERLAP"), (4, "MODEL_THRESHOLD")],
        "greater" | "greater_or_equal" => &[(1, "MODEL_BOUND")],
        "less" | "less_or_equal" => &[(0, "MODEL_BOUND")],
        _ => &[],
    };
    call.arguments.iter().enumerate().flat_map(|(index, argument)| {
        let names: &[String] = match argument {
            Argument::Value(name) | Argument::Optional(Some(name)) => std::slice::from_ref(name),
            Argument::Values(names) => names,
            _ => &[],
        };
        let role = roles.iter().find(|(other, _)| *other == index).map(|(_, name)| *name);
        names.iter().map(move |name| (name.as_str(), role))
    })
}

/// Returns the variable and the number of a constant of one float.
fn number_of(call: &FunctionCall) -> Option<(&str, f32)> {
    let [Some(variable)] = call.targets.as_slice() else { return None };
    match call.arguments.as_slice() {
        [_, Argument::Floats(numbers)] if call.function == "floats" => match numbers.as_slice() {
            [number] => Some((variable, *number)),
            _ => None,
        },
        _ => None,
    }
}
