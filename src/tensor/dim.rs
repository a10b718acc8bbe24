//! Axis sizes: integers, or expressions over named symbols.
//!
//! An expression is a polynomial in canonical form (a sum of products of atoms), so that equal sizes compare
//! equal. Operations other than sums and products (division, remainder, minimum, maximum) are atoms.
//!
//! Arithmetic never fails: a result that exceeds a limit is undefined, and so is all that is computed from
//! it. [`Dim::checked`] refuses undefined sizes. Inference calls it for what it records, lowering for the
//! shapes of blobs, and so do conditions.

mod arithmetic;
mod bounds;
mod division;
mod parts;
mod read;
mod spell;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use crate::common::limits;
use crate::error::{Error, Result};

pub(crate) use bounds::Bounds;
pub(super) use division::greatest_divisor;
pub(crate) use parts::{Operation, Sum};
use read::is_of_name;

/// The size of an axis, or an element of an integer tensor of sizes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// An integer. Sizes are not negative; elements of shape arithmetic may be.
    Known(i64),
    /// An expression with at least one symbol.
    Expr(Arc<Expr>),
    /// The result of arithmetic that has none.
    Undefined(Undefined),
}

/// The reason why a size is undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Undefined {
    /// It overflows 64 bits.
    Overflow,
    /// Its expression exceeds a limit.
    Complexity,
    /// It is divided by zero.
    DivisionByZero,
}

impl From<Undefined> for Error {
    fn from(reason: Undefined) -> Error {
        match reason {
            Undefined::Overflow => Error::limit("the arithmetic of sizes overflows 64 bits"),
            Undefined::Complexity => Error::limit("the expression of a size is too complex"),
            Undefined::DivisionByZero => Error::invalid("a size is divided by zero"),
        }
    }
}

/// A polynomial over atoms, with integer coefficients.
///
/// Expressions share their parts, so that an expression may be much longer as a text than in memory.
pub struct Expr {
    constant: i64,
    /// Products of sorted atoms with their coefficients; none is zero.
    terms: Terms,
    depth: u32,
    /// The number of atoms of the text.
    atoms: u32,
    bounds: OnceLock<Bounds>,
}

/// Products of sorted atoms with their coefficients.
type Terms = BTreeMap<Vec<Atom>, i64>;

impl Expr {
    fn new(constant: i64, terms: Terms) -> Expr {
        let depth = terms.keys().flatten().map(Atom::depth).max().unwrap_or(0);
        let atoms = terms.keys().flatten().map(Atom::count).fold(0, u32::saturating_add);
        Expr { constant, terms, depth, atoms, bounds: OnceLock::new() }
    }

    fn is_within_limits(&self) -> bool {
        self.terms.len() <= limits::DIM_TERMS
            && self.depth <= limits::DIM_DEPTH
            && self.atoms <= limits::DIM_ATOMS
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.constant == other.constant && self.atoms == other.atoms && self.terms == other.terms
    }
}

impl Eq for Expr {}

impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Expr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Expr {
    fn cmp(&self, other: &Expr) -> Ordering {
        if std::ptr::eq(self, other) {
            return Ordering::Equal;
        }
        (self.constant, &self.terms).cmp(&(other.constant, &other.terms))
    }
}

impl Hash for Expr {
    /// Leaves out the operands of operations, which may be long.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.constant, self.depth, self.atoms).hash(state);
        for (product, coefficient) in &self.terms {
            coefficient.hash(state);
            for atom in product {
                match atom {
                    Atom::Symbol(name) | Atom::Length(name) => name.hash(state),
                    Atom::Of(operation, a, b) => (operation, a.depth(), b.depth(), b.known()).hash(state),
                }
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    Symbol(Arc<str>),
    /// A symbol that may be 0.
    Length(Arc<str>),
    Of(Operation, Dim, Dim),
}

impl Atom {
    fn depth(&self) -> u32 {
        match self {
            Atom::Symbol(_) | Atom::Length(_) => 0,
            Atom::Of(_, a, b) => 1 + a.depth().max(b.depth()),
        }
    }

    /// Returns the number of atoms of the text.
    fn count(&self) -> u32 {
        match self {
            Atom::Symbol(_) | Atom::Length(_) => 1,
            Atom::Of(_, a, b) => a.atoms().saturating_add(b.atoms()).saturating_add(1),
        }
    }
}

impl Dim {
    /// The size of an axis without elements.
    pub const ZERO: Dim = Dim::Known(0);

    /// The size of an axis of one element.
    pub const ONE: Dim = Dim::Known(1);

    /// Creates a free size with this name.
    pub fn symbol(name: &str) -> Dim {
        Dim::from_atom(Atom::Symbol(Arc::from(name)))
    }

    /// Creates a free size with this name that may be 0.
    pub(crate) fn length(name: &str) -> Dim {
        Dim::from_atom(Atom::Length(Arc::from(name)))
    }

    /// Returns whether a symbol in the expression may be 0.
    pub(crate) fn has_length(&self) -> bool {
        let mut found = false;
        self.visit_symbols(&mut |_, least| found |= least == 0);
        found
    }

    /// Returns the integer, unless the size is symbolic.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Expr(_) | Dim::Undefined(_) => None,
        }
    }

    /// Refuses an undefined size.
    ///
    /// # Errors
    ///
    /// The reason why it is undefined.
    pub fn check(&self) -> Result<()> {
        match self {
            Dim::Undefined(reason) => Err((*reason).into()),
            Dim::Known(_) | Dim::Expr(_) => Ok(()),
        }
    }

    /// Returns the size, unless it is undefined.
    ///
    /// # Errors
    ///
    /// The reason why it is undefined.
    pub fn checked(self) -> Result<Dim> {
        self.check().map(|()| self)
    }

    /// Returns whether the size is `n`.
    pub fn is(&self, n: i64) -> bool {
        self.known() == Some(n)
    }

    /// Returns the name of a size that is a single symbol.
    pub(crate) fn symbol_name(&self) -> Option<&str> {
        match self.only_product()? {
            [Atom::Symbol(name) | Atom::Length(name)] => Some(name),
            _ => None,
        }
    }

    /// Returns the atoms of a size that is a product of them.
    fn only_product(&self) -> Option<&[Atom]> {
        let Dim::Expr(e) = self else { return None };
        match e.terms.first_key_value()? {
            (product, 1) if e.constant == 0 && e.terms.len() == 1 => Some(product),
            _ => None,
        }
    }

    /// Returns how deep divisions, remainders, minima and maxima are nested.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Dim::Known(_) | Dim::Undefined(_) => 0,
            Dim::Expr(e) => e.depth,
        }
    }

    fn atoms(&self) -> u32 {
        match self {
            Dim::Known(_) | Dim::Undefined(_) => 0,
            Dim::Expr(e) => e.atoms,
        }
    }

    fn from_atom(atom: Atom) -> Dim {
        Dim::Expr(Arc::new(Expr::new(0, BTreeMap::from([(vec![atom], 1)]))))
    }

    /// Returns the size of two broadcast axes: equal, or one of them 1.
    pub fn broadcast(&self, other: &Dim) -> Result<Dim> {
        match (self, other) {
            (a, b) if a == b || b.is(1) => Ok(a.clone()),
            (a, b) if a.is(1) => Ok(b.clone()),
            (Dim::Known(_), Dim::Known(_)) => {
                Err(Error::invalid(format!("sizes {self} and {other} do not broadcast")))
            }
            // The free size is 1 or the integer: the result is the integer in both cases.
            (Dim::Known(_), Dim::Expr(_)) => Ok(self.clone()),
            (Dim::Expr(_), Dim::Known(_)) => Ok(other.clone()),
            // One is 1, or both are equal: the result is the larger one in both cases.
            _ => self.maximum(other).checked(),
        }
    }

    /// Replaces symbols.
    pub fn substitute(&self, values: &BTreeMap<String, Dim>) -> Dim {
        self.substitute_once(values, &mut BTreeMap::new())
    }

    /// Replaces symbols; each part that expressions share is replaced once.
    fn substitute_once(&self, values: &BTreeMap<String, Dim>, done: &mut BTreeMap<*const Expr, Dim>) -> Dim {
        let Dim::Expr(e) = self else { return self.clone() };
        if let Some(done) = done.get(&Arc::as_ptr(e)) {
            return done.clone();
        }
        let mut sum = Dim::Known(e.constant);
        for (product, coefficient) in &e.terms {
            let mut term = Dim::Known(*coefficient);
            for atom in product {
                term *= match atom {
                    Atom::Symbol(name) | Atom::Length(name) => {
                        values.get(name.as_ref()).cloned().unwrap_or_else(|| Dim::from_atom(atom.clone()))
                    }
                    Atom::Of(operation, a, b) => {
                        let (a, b) = (a.substitute_once(values, done), b.substitute_once(values, done));
                        operation.apply(&a, &b)
                    }
                };
            }
            sum += term;
        }
        if e.depth > 0 {
            done.insert(Arc::as_ptr(e), sum.clone());
        }
        sum
    }

    /// Adds the names of all symbols to `names`.
    pub fn collect_symbols(&self, names: &mut BTreeSet<String>) {
        self.visit_symbols(&mut |name, _| {
            names.insert(name.to_owned());
        });
    }

    /// Calls `visit` with the name of each symbol and its least value.
    pub(crate) fn visit_symbols(&self, visit: &mut dyn FnMut(&str, i64)) {
        let (mut open, mut seen) = (vec![self], BTreeSet::new());
        while let Some(size) = open.pop() {
            let Dim::Expr(e) = size else { continue };
            if e.depth > 0 && !seen.insert(Arc::as_ptr(e)) {
                continue;
            }
            for atom in e.terms.keys().flatten() {
                match atom {
                    Atom::Symbol(name) => visit(name, 1),
                    Atom::Length(name) => visit(name, 0),
                    Atom::Of(_, a, b) => open.extend([a, b]),
                }
            }
        }
    }
}

/// Parses a number from 1 on, a name of letters, digits, `_` and `.`, which is a free size, or a sum of
/// these, such as `past+sequence`.
impl FromStr for Dim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Dim> {
        if let Some((first, rest)) = text.split_once('+') {
            return (first.trim().parse::<Dim>()? + rest.trim().parse::<Dim>()?).checked();
        }
        let is_name = text.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        if is_name {
            return Ok(Dim::symbol(text));
        }
        match text.parse::<i64>() {
            Ok(n) if n > 0 => Ok(Dim::Known(n)),
            _ => Err(Error::usage(format!(
                "\"{text}\" is not a size; sizes are numbers from 1 and names such as H"
            ))),
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = match self {
            Dim::Known(n) => return write!(f, "{n}"),
            Dim::Undefined(_) => return f.write_str("an undefined size"),
            Dim::Expr(e) => e,
        };
        let is_only = self.only_product().is_some_and(|product| product.len() == 1);
        let (added, subtracted): (Vec<_>, Vec<_>) = e.terms.iter().partition(|(_, times)| **times > 0);
        for (i, (product, coefficient)) in added.into_iter().chain(subtracted).enumerate() {
            if *coefficient < 0 {
                f.write_str("-")?;
            } else if i > 0 {
                f.write_str("+")?;
            }
            if coefficient.unsigned_abs() != 1 {
                write!(f, "{}*", coefficient.unsigned_abs())?;
            }
            for (j, atom) in product.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                match atom {
                    Atom::Symbol(name) | Atom::Length(name) if is_only || name.chars().all(is_of_name) => {
                        f.write_str(name)?;
                    }
                    // The name looks like an expression: of sizes that no input has.
                    Atom::Symbol(name) | Atom::Length(name) => write!(f, "({name})")?,
                    Atom::Of(operation, a, b) => write!(f, "{}({a}, {b})", operation.name())?,
                }
            }
        }
        match e.constant {
            0 => Ok(()),
            c if c > 0 => write!(f, "+{c}"),
            c => write!(f, "{c}"),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the shape of two values that are broadcast, aligned at their last axes.
pub fn broadcast_shapes(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (free, aligned) = long.split_at(long.len() - short.len());
    let mut shape = Vec::with_capacity(long.len());
    shape.extend_from_slice(free);
    for (x, y) in aligned.iter().zip(short) {
        shape.push(x.broadcast(y)?);
    }
    Ok(shape)
}

/// Formats a shape as `[1, 3, H, W]`.
pub fn display_shape(shape: &[Dim]) -> String {
    let axes: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", axes.join(", "))
}

/// Returns known sizes.
#[cfg(test)]
pub(crate) fn dims(sizes: &[i64]) -> Vec<Dim> {
    sizes.iter().copied().map(Dim::Known).collect()
}
