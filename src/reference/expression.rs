//! ncnn's expressions of sizes, and the names that axes have in them.

use num_traits::AsPrimitive;

use super::Mat;
use crate::error::{Result, invalid};

/// Returns the names of the axes of a Mat, outermost first.
pub(super) fn axis_names(axes: usize) -> Result<&'static str> {
    match axes {
        1 => Ok("w"),
        2 => Ok("hw"),
        3 => Ok("chw"),
        4 => Ok("cdhw"),
        _ => invalid!("a Mat of {axes} axes"),
    }
}

/// Returns the size of the axis with this name, 1 if the Mat has none.
pub(super) fn size_of(mat: &Mat, name: char) -> Result<usize> {
    let mut axes = axis_names(mat.ndim())?.chars().zip(mat.shape());
    Ok(axes.find(|(other, _)| *other == name).map_or(1, |(_, size)| *size))
}

/// A number of an expression: an integer of 32 bits, or a real number in float32.
#[derive(Clone, Copy)]
struct Value {
    number: f64,
    whole: bool,
}

impl Value {
    /// Returns a number as the runtime stores it.
    fn new(number: f64, whole: bool) -> Result<Value> {
        if whole {
            let number = number.trunc();
            let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
            if range.contains(&number) {
                Ok(Value { number, whole })
            } else {
                invalid!("an integer of {number}")
            }
        } else {
            // Sizes are truncated, so that the rounding of each step decides them.
            let single: f32 = number.as_();
            Ok(Value { number: single.into(), whole })
        }
    }

    /// Returns the operand of an operator on bits.
    fn bits(self) -> Result<i64> {
        if self.whole { Ok(self.number.as_()) } else { invalid!("bits of the real number {}", self.number) }
    }
}

type Unary = fn(f64) -> f64;
type Binary = fn(f64, f64) -> f64;

/// An operator, by the kind of its result.
enum Operator {
    /// Whole if the operand is.
    Same(Unary),
    /// Always whole.
    Whole(Unary),
    /// Always real.
    Real(Unary),
    /// Whole if both operands are.
    SameOfTwo(Binary),
    /// Always real.
    RealOfTwo(Binary),
    /// Of integers only.
    Bits(fn(i64, i64) -> Option<i64>),
    /// Towards zero if both operands are whole, otherwise downwards.
    Quotient,
}

/// Returns the operator with this name.
fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "abs" => Operator::Same(f64::abs),
        "neg" => Operator::Same(|a| -a),
        "sign" => Operator::Same(|a| if a == 0.0 { 0.0 } else { a.signum() }),
        "square" => Operator::Same(|a| a * a),
        "trunc" => Operator::Whole(f64::trunc),
        "ceil" => Operator::Whole(f64::ceil),
        "floor" => Operator::Whole(f64::floor),
        "round" => Operator::Whole(f64::round),
        "acos" => Operator::Real(libm::acos),
        "acosh" => Operator::Real(libm::acosh),
        "asin" => Operator::Real(libm::asin),
        "asinh" => Operator::Real(libm::asinh),
        "atan" => Operator::Real(libm::atan),
        "atanh" => Operator::Real(libm::atanh),
        "cos" => Operator::Real(libm::cos),
        "cosh" => Operator::Real(libm::cosh),
        "erf" => Operator::Real(libm::erf),
        "exp" => Operator::Real(libm::exp),
        "log" => Operator::Real(libm::log),
        "log10" => Operator::Real(libm::log10),
        "reciprocal" => Operator::Real(|a| 1.0 / a),
        "rsqrt" => Operator::Real(|a| 1.0 / a.sqrt()),
        "sin" => Operator::Real(libm::sin),
        "sinh" => Operator::Real(libm::sinh),
        "sqrt" => Operator::Real(f64::sqrt),
        "tan" => Operator::Real(libm::tan),
        "tanh" => Operator::Real(libm::tanh),
        "+" => Operator::SameOfTwo(|a, b| a + b),
        "-" => Operator::SameOfTwo(|a, b| a - b),
        "*" => Operator::SameOfTwo(|a, b| a * b),
        "max" => Operator::SameOfTwo(f64::max),
        "min" => Operator::SameOfTwo(f64::min),
        "//" => Operator::Quotient,
        "/" => Operator::RealOfTwo(|a, b| a / b),
        "atan2" => Operator::RealOfTwo(libm::atan2),
        "fmod" => Operator::RealOfTwo(|a, b| a % b),
        "pow" => Operator::RealOfTwo(libm::pow),
        // With the sign of the divisor.
        "remainder" => Operator::RealOfTwo(|a, b| match a % b {
            rest if rest * b < 0.0 => rest + b,
            rest => rest,
        }),
        "logaddexp" => Operator::RealOfTwo(|a, b| a.max(b) + libm::log1p(libm::exp(-(a - b).abs()))),
        "and" => Operator::Bits(|a, b| Some(a & b)),
        "or" => Operator::Bits(|a, b| Some(a | b)),
        "xor" => Operator::Bits(|a, b| Some(a ^ b)),
        "lshift" => Operator::Bits(|a, b| u32::try_from(b).ok().filter(|b| *b < 32).map(|b| a << b)),
        "rshift" => Operator::Bits(|a, b| u32::try_from(b).ok().filter(|b| *b < 32).map(|b| a >> b)),
        _ => return None,
    })
}

/// Applies an operator to the values at the end of the stack, the first operand last.
fn apply(operator: Operator, stack: &mut Vec<Value>) -> Result<Value> {
    let mut pop = || match stack.pop() {
        Some(value) => Ok(value),
        None => invalid!("an operator has not enough operands"),
    };
    let a = pop()?;
    match operator {
        Operator::Same(f) => Value::new(f(a.number), a.whole),
        Operator::Whole(f) => Value::new(f(a.number), true),
        Operator::Real(f) => Value::new(f(a.number), false),
        Operator::SameOfTwo(f) => {
            let b = pop()?;
            Value::new(f(a.number, b.number), a.whole && b.whole)
        }
        Operator::RealOfTwo(f) => Value::new(f(a.number, pop()?.number), false),
        Operator::Bits(f) => {
            let (a, b) = (a.bits()?, pop()?.bits()?);
            let Some(result) = f(a, b) else { invalid!("{a} shifted by {b} bits") };
            Value::new(result.as_(), true)
        }
        Operator::Quotient => {
            let b = pop()?;
            // The runtime rounds before it rounds down.
            let whole = a.whole && b.whole;
            let quotient = Value::new(a.number / b.number, whole)?;
            Value::new(quotient.number.floor(), whole)
        }
    }
}

/// Returns the value of a number, or of a size such as `0w`: of the bottom with this digit.
fn operand(token: &str, bottoms: &[&Mat]) -> Result<Value> {
    let mut chars = token.chars();
    if let (Some(digit), Some(name @ ('w' | 'h' | 'd' | 'c' | 'n')), None) =
        (chars.next(), chars.next(), chars.next())
        && let Some(index) = digit.to_digit(10)
    {
        let Some(mat) = bottoms.get(usize::try_from(index)?) else { invalid!("bottom {index} is missing") };
        // The batch `n` is 1.
        return Value::new(size_of(mat, name)?.as_(), true);
    }
    let Ok(number) = token.parse::<f32>() else { invalid!("\"{token}\" in an expression") };
    // The digits before a point or an exponent are an integer if nothing follows that changes the number.
    let integer = token.split(['.', 'e', 'E']).next().and_then(|digits| digits.parse::<i32>().ok());
    match integer {
        Some(integer) if AsPrimitive::<f32>::as_(integer) == number => Value::new(integer.into(), true),
        _ => Value::new(number.into(), false),
    }
}

/// Evaluates sizes separated by commas over the sizes of the bottoms.
///
/// Operators precede their operands, which are in parentheses for the eye only: `/(0w,2),*(0h,2)` is the same
/// as `/,0w,2,*,0h,2`. Numbers are whole or real, and the sizes are truncated. An empty text has no sizes.
pub(super) fn evaluate(text: &str, bottoms: &[&Mat]) -> Result<Vec<i64>> {
    let mut stack = Vec::new();
    for token in text.rsplit(['(', ')', ',']).filter(|token| !token.is_empty()) {
        let value = match operator(token) {
            Some(operator) => apply(operator, &mut stack)?,
            None => operand(token, bottoms)?,
        };
        stack.push(value);
    }
    stack.into_iter().rev().map(|value| Ok(Value::new(value.number, true)?.number.as_())).collect()
}
